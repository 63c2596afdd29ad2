// SPDX-License-Identifier: LGPL-2.1-or-later
// flock(2) on files for their owner alone: whoever can open a file can hold its lock.
#include "watcher/daemon_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace xenpack {
namespace {

tl::unexpected<Error> failed(const char* doing, const std::string& path, int code) {
    return fail_with(code, "cannot {} {}: {}", doing, path, std::strerror(code));
}

// " (process 812)", as the holder wrote it, or nothing.
std::string holder(int fd) {
    std::array<char, 16> text{};
    const ssize_t r = pread(fd, text.data(), text.size(), 0);
    std::string pid(text.data(), r > 0 ? static_cast<std::size_t>(r) : 0);
    pid.erase(std::ranges::find_if(pid, [](char c) { return c < '0' || c > '9'; }), pid.end());
    return pid.empty() ? pid : fmt::format(" (process {})", pid);
}

}  // namespace

Expected<void> DaemonLock::add(const std::string& path) {
    std::error_code ignored;  // opening the file below says it better
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return failed("open", path, errno);
    }
    fds_.push_back(fd);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return failed("lock", path, errno);
        }
        return fail_with(EADDRINUSE,
                         "xenpackd is already running on this host{}: it holds {}; stop it first, "
                         "as two would undo each other's work",
                         holder(fd), path);
    }
    const std::string pid = fmt::format("{}\n", getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
        return failed("write", path, errno);
    }
    return {};
}

Expected<DaemonLock> DaemonLock::take(const std::vector<std::string>& paths) {
    DaemonLock lock;
    for (auto path = paths.begin(); path != paths.end(); ++path) {
        if (std::find(paths.begin(), path, *path) != path) {
            continue;
        }
        if (auto added = lock.add(*path); !added) {
            return tl::unexpected(added.error());
        }
    }
    return lock;
}

DaemonLock::~DaemonLock() {
    for (const int fd : fds_) {
        close(fd);
    }
}

}  // namespace xenpack
