// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkWarden: a process beside the watcher's that does one thing, when the watcher's has ended in
// whatever way: where the forks that run could together write more than is free, it pauses them,
// before they find no memory, and records that. The next watcher lets them go (ForkRings). Owned by
// ForkRings. While the watcher lives it only listens to which forks there are.
//
// It ends with its work. It ignores the signals by which a service is ended, as the watcher may get
// none of them before it; what kills both kills it too.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/libxl/hypervisor.h"
#include "plugin/toolstack.h"

namespace xenpack {

// What is left free at the least is Xen's own need.
inline constexpr std::uint64_t kWardenLeavesKib = 16 * 1024;

class ForkWarden {
  public:
    // `record`: PausedForks' file. Waits for an earlier watcher's warden, which has little to do, a
    // second at the most. Starts nothing yet. `watcher` must outlive it.
    ForkWarden(const xenpack_watcher_ops& watcher, std::string record);
    ~ForkWarden();  // take_over()
    ForkWarden(const ForkWarden&) = delete;
    ForkWarden& operator=(const ForkWarden&) = delete;

    using Key = std::pair<std::uint32_t, DomainUuid>;
    // The first one starts the process; one that does not listen, or ends, is replaced. What fails
    // is said in the log: forks are served all the same.
    void watch(const Key& key) noexcept;
    void forget(const Key& key) noexcept;
    // For the process this is the watcher's end, from which on it is told nothing.
    void take_over() noexcept;

  private:
    static void ready(void* arg, int fd, short events) noexcept;
    // It begins with all of watched_.
    Expected<void> start();
    Expected<void> tell(const Key& key, bool watched);
    void lost() noexcept;
    bool send(const Key& key, bool watched) const noexcept;
    template <class Action>
    void attempt(Action action) noexcept;
    void say(const std::string& text) const;
    void remove_pid_file() const noexcept;

    const xenpack_watcher_ops& watcher_;
    std::string record_;
    std::set<Key> watched_;
    pid_t pid_ = 0;
    int fd_ = -1;
    std::chrono::steady_clock::time_point started_;
    void* registration_ = nullptr;
    bool has_taken_over_ = false;
};

// Of all domains, those of `watched` that must be paused where so much is free.
std::vector<xenpack_domain> whom_to_pause(const std::vector<xenpack_domain>& all,
                                          const std::set<ForkWarden::Key>& watched,
                                          std::uint64_t free_kib);

}  // namespace xenpack
