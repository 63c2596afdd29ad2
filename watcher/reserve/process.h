// SPDX-License-Identifier: LGPL-2.1-or-later
// A process as an owner: told from a later one of the same number, and watched for its end. The
// desk uses it. It must not signal anybody.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "watcher/error.h"
#include "watcher/loop/loop.h"

namespace xenpack {

// When it began, in clock ticks since the boot (field 22 of /proc/PID/stat, proc(5)); with the pid
// it names one process of this boot. Nothing: there is no such process.
[[nodiscard]] std::optional<std::uint64_t> process_started(int pid);

class ProcessWatch {
  public:
    // Calls `ended` in the loop when that process ends, once or more often. Error code ESRCH: it
    // has ended already, whoever has its number now.
    [[nodiscard]] static Expected<std::unique_ptr<ProcessWatch>> watch(Loop& loop, int pid,
                                                                       std::uint64_t started,
                                                                       std::function<void()> ended);
    ~ProcessWatch();
    ProcessWatch(const ProcessWatch&) = delete;
    ProcessWatch& operator=(const ProcessWatch&) = delete;

  private:
    explicit ProcessWatch(int fd) : fd_(fd) {}

    int fd_;
    Loop::Handle readable_;
};

}  // namespace xenpack
