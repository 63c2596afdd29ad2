// SPDX-License-Identifier: LGPL-2.1-or-later
// flock(2) on files for their owner alone: whoever can open a file can hold its lock.
#include "watcher/daemon_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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

bool same_file(int a, int b) {
    struct stat one {};
    struct stat other {};
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
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
    // One file by two names, as below /run and /var/run: it is locked already, and by this process.
    if (std::ranges::any_of(fds_, [fd](int held) { return same_file(held, fd); })) {
        close(fd);
        return {};
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
    for (const std::string& path : paths) {
        if (auto added = lock.add(path); !added) {
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
