// SPDX-License-Identifier: LGPL-2.1-or-later
// DaemonLock: one daemon for one host. Two that balance the same zones undo each other's work, with
// whatever sockets they listen on. xenpackd's main holds one while it runs; it decides nothing.
#pragma once

#include <string>
#include <vector>

#include "watcher/error.h"

namespace xenpack {

class DaemonLock {
  public:
    // Locks a file at each of `paths`, making it and its directory where missing; the file says who
    // holds it. Never waits. Error code EADDRINUSE: another daemon holds one of them.
    [[nodiscard]] static Expected<DaemonLock> take(const std::vector<std::string>& paths);
    // Lets go. The files stay: to remove one that another has just opened would make two locks.
    ~DaemonLock();
    DaemonLock(DaemonLock&& other) noexcept : fds_(std::move(other.fds_)) { other.fds_.clear(); }
    DaemonLock(const DaemonLock&) = delete;
    DaemonLock& operator=(const DaemonLock&) = delete;

  private:
    DaemonLock() = default;
    [[nodiscard]] Expected<void> add(const std::string& path);

    std::vector<int> fds_;
};

}  // namespace xenpack
