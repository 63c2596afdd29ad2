// SPDX-License-Identifier: LGPL-2.1-or-later
// BrakeFiles: the cgroup v2 files that Brake's decisions need and set. Owned by Reporter; must be
// opened before any thread is started, since it forks.
//
// The limit outlives nobody: a forked guardian waits for the reporter's end, of whatever kind, and
// puts memory.high back to what it was. Closing does the same at once and dismisses the guardian.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watcher/error.h"
#include "watcher/guest/text_file.h"

namespace xenpack::guest {

class BrakeFiles {
  public:
    // directory: a cgroup v2 directory with the memory controller, not the root, and neither the
    // reporter's own nor above it: it must not brake itself. own_cgroup: text of /proc/self/cgroup.
    [[nodiscard]] static Expected<BrakeFiles> open(const std::string& directory,
                                                   std::string_view own_cgroup);
    BrakeFiles(BrakeFiles&& other) noexcept;
    BrakeFiles& operator=(BrakeFiles&&) = delete;
    ~BrakeFiles();

    // memory.high before the brake; none for `max`.
    [[nodiscard]] std::optional<std::uint64_t> own_limit_kib() const;

    struct Readings {
        std::uint64_t usage_kib = 0;    // memory.current
        std::uint64_t high_events = 0;  // `high` of memory.events.local, or of memory.events
    };
    [[nodiscard]] Expected<Readings> read();

    // None puts back what was there before the brake. Does nothing if that is set already.
    [[nodiscard]] Expected<void> set_limit(std::optional<std::uint64_t> limit_kib);

    // poll(2) for POLLPRI: the kernel counted something in the file read() reads. It does so at
    // most each 10 ms.
    [[nodiscard]] int events_fd() const { return events_.fd(); }

  private:
    BrakeFiles(std::string directory, TextFile high, TextFile current, TextFile events);
    [[nodiscard]] Expected<void> remember_own_limit();
    [[nodiscard]] Expected<void> start_guardian();
    void dismiss_guardian();

    std::string directory_;
    TextFile high_;
    TextFile current_;
    TextFile events_;
    std::string own_limit_;  // text of memory.high before the brake
    std::optional<std::uint64_t> set_kib_;
    Fd guardian_pipe_;
    pid_t guardian_ = -1;
    std::array<char, 1024> buffer_{};
};

}  // namespace xenpack::guest
