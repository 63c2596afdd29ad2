// SPDX-License-Identifier: LGPL-2.1-or-later
// pidfd_open(2) and /proc/PID/stat.
#include "watcher/reserve/process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace xenpack {

std::optional<std::uint64_t> process_started(int pid) {
    std::string text;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), text);
    // The second field is the program's name in parentheses, which may hold blanks and parentheses.
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos) {
        return std::nullopt;
    }
    std::istringstream rest(text.substr(name_end + 1));
    std::string field;
    for (int number = 3; number < 22; ++number) {
        rest >> field;
    }
    std::uint64_t started = 0;
    return rest >> started ? std::optional(started) : std::nullopt;
}

Expected<std::unique_ptr<ProcessWatch>> ProcessWatch::watch(Loop& loop, int pid,
                                                            std::uint64_t started,
                                                            std::function<void()> ended) {
    const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) {
        const int code = errno;
        return fail_with(code, "process {} cannot be watched: {}", pid, std::strerror(code));
    }
    std::unique_ptr<ProcessWatch> watch(new ProcessWatch(fd));
    // The descriptor is of whoever has the number now; asked after it was opened, so that it cannot
    // change hands any more.
    if (process_started(pid) != started) {
        return fail_with(ESRCH, "process {} has ended", pid);
    }
    watch->readable_ = loop.watch_readable(fd, std::move(ended));
    return watch;
}

ProcessWatch::~ProcessWatch() {
    readable_.reset();
    close(fd_);
}

}  // namespace xenpack
