// SPDX-License-Identifier: LGPL-2.1-or-later
// StoreLink: a connection to xenstore with watches, on which nothing waits for ever. Owned by
// ForkAgent's thread. It knows xenstore's wire format (docs/misc/xenstore.txt of Xen) and no node.
//
// Why not libxenstore, as in StoreWriter: a call there waits for its answer without end, and one
// that was under way when the domain was suspended may never get it. Here each waits at most
// kStoreAnswerMs. After an error other than the daemon's own "no" the connection is out of step:
// open another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watcher/error.h"
#include "watcher/guest/fd.h"

namespace xenpack::guest {

inline constexpr std::uint64_t kStoreAnswerMs = 5000;

// Reading and writing nodes by their path; what ForkSteps needs.
class Nodes {
  public:
    Nodes() = default;
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;
    virtual ~Nodes() = default;

    // None: there is no such node. Anything else that keeps it from being read is an error.
    [[nodiscard]] virtual Expected<std::optional<std::string>> read(const std::string& path) = 0;
    [[nodiscard]] virtual Expected<void> write(const std::string& path, std::string_view value) = 0;
};

class StoreLink : public Nodes {
  public:
    // fd: a connected socket or the kernel's device; waited for with poll(2).
    explicit StoreLink(Fd fd, std::uint64_t answer_ms = kStoreAnswerMs);

    // The kernel's device, /dev/xen/xenbus. Without it nothing will ever be watched.
    [[nodiscard]] static Expected<Fd> open_device();

    [[nodiscard]] Expected<std::optional<std::string>> read(const std::string& path) override;
    [[nodiscard]] Expected<void> write(const std::string& path, std::string_view value) override;

    // fd() becomes readable when the node may have changed, and once right away.
    [[nodiscard]] Expected<void> watch(const std::string& path);

    [[nodiscard]] int fd() const { return fd_.get(); }
    // Takes what has arrived; to be called when fd() is readable.
    [[nodiscard]] Expected<void> take_events();

  private:
    struct Answer {
        std::uint32_t type = 0;
        std::string body;
    };

    [[nodiscard]] Expected<std::string> ask(std::uint32_t type, const std::string& path,
                                            std::string_view rest);
    [[nodiscard]] Expected<Answer> receive(std::uint64_t deadline_ms);
    [[nodiscard]] Expected<void> receive_bytes(void* to, std::size_t size,
                                               std::uint64_t deadline_ms);
    [[nodiscard]] Expected<void> wait_readable(std::uint64_t deadline_ms) const;

    Fd fd_;
    std::uint64_t answer_ms_;
};

}  // namespace xenpack::guest
