// SPDX-License-Identifier: LGPL-2.1-or-later
// A workload's cgroup v2; see cgroup.h. It reads and writes cgroup files and keeps nothing.
#include "watcher/guest/cgroup.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "watcher/guest/proc_text.h"
#include "watcher/guest/text_file.h"

namespace xenpack::guest {
namespace {

bool is_cgroup(const std::string& directory) {
    return ::access((directory + "/cgroup.controllers").c_str(), F_OK) == 0;
}

// "/" + the directory's path below the mount point of its cgroup v2 hierarchy.
Expected<std::string> cgroup_path(const std::string& option, const std::string& directory) {
    char resolved[PATH_MAX];
    if (::realpath(directory.c_str(), resolved) == nullptr) {
        const int code = errno;
        return fail_with(code, "{} {}: {}", option, directory, std::strerror(code));
    }
    const std::string full = resolved;
    if (!is_cgroup(full)) {
        return fail("{} {}: not a cgroup v2 directory", option, directory);
    }
    std::string mount = full;
    for (;;) {
        const std::string parent = mount.substr(0, mount.rfind('/'));
        if (parent.empty() || !is_cgroup(parent)) {
            break;
        }
        mount = parent;
    }
    return full == mount ? "/" : full.substr(mount.size());
}

// The path in the "0::/path" line, which is the one of cgroup v2.
std::string_view own_v2_path(std::string_view own_cgroup) {
    constexpr std::string_view kMark = "0::";
    while (!own_cgroup.empty() && !own_cgroup.starts_with(kMark)) {
        own_cgroup.remove_prefix(std::min(own_cgroup.find('\n'), own_cgroup.size() - 1) + 1);
    }
    own_cgroup.remove_prefix(std::min(kMark.size(), own_cgroup.size()));
    return own_cgroup.substr(0, own_cgroup.find('\n'));
}

std::uint64_t monotonic_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

Expected<void> set_freeze(const std::string& directory, std::string_view text) {
    const auto file = TextFile::open(directory + "/cgroup.freeze", O_WRONLY);
    return file ? file->write(text) : tl::unexpected(file.error());
}

}  // namespace

bool is_within(std::string_view own, std::string_view group) {
    return group == "/" || own == group || (own.starts_with(group) && own[group.size()] == '/');
}

Expected<void> check_workload(const std::string& option, const std::string& directory,
                              std::string_view own_cgroup) {
    const auto group = cgroup_path(option, directory);
    if (!group) {
        return tl::unexpected(group.error());
    }
    if (is_within(own_v2_path(own_cgroup), *group)) {
        return fail(
            "{} {}: the reporter itself is in this cgroup and would be stopped or slowed with it; "
            "name one "
            "that holds the workload only",
            option, directory);
    }
    return {};
}

Expected<void> freeze(const std::string& directory, std::uint64_t timeout_ms) {
    const auto events = TextFile::open(directory + "/cgroup.events", O_RDONLY);
    if (!events) {
        return tl::unexpected(events.error());
    }
    auto set = set_freeze(directory, "1");
    if (!set) {
        return set;
    }
    const std::uint64_t deadline_ms = monotonic_ms() + timeout_ms;
    for (;;) {
        std::array<char, 1024> buffer{};
        // Reading comes before polling: the kernel reports what changed since the last reading.
        const auto text = events->read(buffer);
        if (!text) {
            return tl::unexpected(text.error());
        }
        if (number_of(*text, "frozen") == 1U) {
            return {};
        }
        const std::uint64_t now_ms = monotonic_ms();
        if (now_ms >= deadline_ms) {
            return fail("{} does not stand still {} ms after it was frozen", directory, timeout_ms);
        }
        pollfd fd{events->fd(), POLLPRI, 0};
        ::poll(&fd, 1, static_cast<int>(deadline_ms - now_ms));
    }
}

Expected<void> thaw(const std::string& directory) {
    auto set = set_freeze(directory, "0");
    if (!set && (set.error().code == ENOENT || set.error().code == ENODEV)) {
        return {};
    }
    return set;
}

}  // namespace xenpack::guest
