// SPDX-License-Identifier: LGPL-2.1-or-later
// Client: the daemon's socket, seen from the command line; HTTP through libcurl. The commands make
// one each. It must not print, and it knows only the form of the API's errors.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "watcher/cli/failure.h"

namespace xenpack {

class Client {
  public:
    explicit Client(std::string socket_path) : socket_path_(std::move(socket_path)) {}

    // The daemon's answer to a request it has carried out. Everything else is a failure in a
    // sentence: no daemon, no permission, or what the daemon says against it.
    [[nodiscard]] Result<nlohmann::json> get(const std::string& path) const;
    [[nodiscard]] Result<nlohmann::json> post(const std::string& path,
                                              const nlohmann::json& body) const;

    // For an answer that comes when it comes: waits as long as the daemon holds it back. Where the
    // daemon goes meanwhile, as when it is restarted, asks the new one, which has 30 s to come; the
    // third that goes is the last, so that a request which ends the daemon ends itself.
    [[nodiscard]] Result<nlohmann::json> post_and_wait(const std::string& path,
                                                       const nlohmann::json& body) const;

    // The same, but asks no other daemon: what was under way is not asked for twice.
    [[nodiscard]] Result<nlohmann::json> post_once(const std::string& path,
                                                   const nlohmann::json& body) const;
    [[nodiscard]] Result<nlohmann::json> remove(const std::string& path) const;

    // Calls `take` with each line of an open-ended answer, without its end. Returns what `take`
    // failed with, or how the stream ended: it never ends well.
    using TakeLine = std::function<Result<void>(std::string_view line)>;
    [[nodiscard]] Failure follow(const std::string& path, const TakeLine& take) const;

  private:
    std::string socket_path_;
};

// `text` as one segment of a path.
[[nodiscard]] std::string path_segment(const std::string& text);

}  // namespace xenpack
