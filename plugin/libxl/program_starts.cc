// SPDX-License-Identifier: LGPL-2.1-or-later
// Watches a program's file with inotify: execve(2) opens it, which is an IN_OPEN. A file that is
// replaced or removed (an upgrade) is a new one that nobody watches: from then on every answer is
// "possible".
#include "plugin/libxl/program_starts.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace xenpack {

ProgramStarts::ProgramStarts(const std::vector<std::string>& places)
    : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    for (const std::string& place : places) {
        if (inotify_add_watch(fd_, place.c_str(),
                              IN_OPEN | IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) >= 0) {
            certain_ = true;
        } else if (errno != ENOENT && errno != ENOTDIR) {
            certain_ = false;
            return;
        }
    }
}

ProgramStarts::~ProgramStarts() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

bool ProgramStarts::possible() {
    const auto now = std::chrono::steady_clock::now();
    if (certain_ && told()) {
        until_ = now + kSettling;
    }
    return !certain_ || now < until_;
}

bool ProgramStarts::told() {
    alignas(inotify_event) std::array<char, 4096> buffer{};
    bool any = false;
    for (;;) {
        const ssize_t n = read(fd_, buffer.data(), buffer.size());
        if (n <= 0) {
            return any;
        }
        any = true;
        for (ssize_t at = 0; at < n;) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            if ((event.mask & ~static_cast<std::uint32_t>(IN_OPEN)) != 0) {
                certain_ = false;
            }
            at += static_cast<ssize_t>(sizeof event + event.len);
        }
    }
}

}  // namespace xenpack
