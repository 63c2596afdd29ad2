// SPDX-License-Identifier: LGPL-2.1-or-later
// Store: xenstore for a hotplug script, and the door to libxenstore here. Each call is one round
// trip. Called by the rest of hotplug/; it must not decide what is written where.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watcher/error.h"

struct xs_handle;

namespace xenpack::hotplug {

class Store {
  public:
    static Expected<Store> open();

    // Nothing where the node is not there or cannot be read.
    [[nodiscard]] std::optional<std::string> read(const std::string& path);
    // As read, but a node that is not there is a failure.
    Expected<std::string> need(const std::string& path);
    Expected<void> write(const std::string& path, const std::string& value);
    // The names below a node; none where it is not there.
    std::vector<std::string> list(const std::string& path);

  private:
    struct Close {
        void operator()(xs_handle* handle) const;
    };
    explicit Store(xs_handle* handle) : handle_(handle) {}
    std::unique_ptr<xs_handle, Close> handle_;
};

}  // namespace xenpack::hotplug
