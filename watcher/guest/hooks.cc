// SPDX-License-Identifier: LGPL-2.1-or-later
// Hooks: finding them, and running one with a bound on its time. ForkSteps calls it.
#include "watcher/guest/hooks.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <string_view>

#include "watcher/guest/fd.h"

namespace xenpack::guest {
namespace {

// Of a system and of an initramfs.
constexpr char kPath[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

bool is_hook_name(std::string_view name) {
    return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-';
    });
}

std::uint64_t monotonic_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

// Runs in the forked process of one with threads: system calls only. Does not come back.
[[noreturn]] void become(const char* path, char* const* arguments, char* const* environment,
                         pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
        ::_exit(127);
    }
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
        ::signal(number, SIG_DFL);
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, STDIN_FILENO);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    const int score = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    [[maybe_unused]] const ssize_t r = ::write(score, "0", 1);
    // What else is open is not the hook's; where the call is missing (before Linux 5.9) everything
    // is marked to be closed anyway.
    ::syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
    ::execve(path, arguments, environment);
    ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> all;
    all.reserve(words.size() + 1);
    for (auto& word : words) {
        all.push_back(word.data());
    }
    all.push_back(nullptr);
    return all;
}

pid_t start(const std::string& path, std::span<const std::string> environment) {
    std::vector<std::string> argument_words{path};
    std::vector<std::string> environment_words{kPath};
    environment_words.insert(environment_words.end(), environment.begin(), environment.end());
    const auto arguments = pointers(argument_words);
    const auto variables = pointers(environment_words);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        become(path.c_str(), arguments.data(), variables.data(), parent);
    }
    return child;
}

// Whether the process has ended in time.
bool wait_for_end(const Fd& process, std::uint64_t timeout_ms) {
    const std::uint64_t deadline_ms = monotonic_ms() + timeout_ms;
    for (;;) {
        const std::uint64_t now_ms = monotonic_ms();
        const std::uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
        pollfd fd{process.get(), POLLIN, 0};
        if (::poll(&fd, 1, static_cast<int>(left_ms)) > 0) {
            return true;
        }
        if (left_ms == 0) {
            return false;
        }
    }
}

}  // namespace

Expected<std::vector<std::string>> list_hooks(const std::string& directory) {
    std::vector<std::string> hooks;
    DIR* const opened = ::opendir(directory.c_str());
    if (opened == nullptr) {
        const int code = errno;
        if (code == ENOENT) {
            return hooks;
        }
        return fail_with(code, "cannot list the hooks of {}: {}", directory, std::strerror(code));
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(opened, ::closedir);
    while (const dirent* const entry = ::readdir(entries.get())) {
        const std::string path = directory + "/" + entry->d_name;
        struct stat about {};
        if (is_hook_name(entry->d_name) && ::stat(path.c_str(), &about) == 0 &&
            S_ISREG(about.st_mode) && (about.st_mode & 0111U) != 0) {
            hooks.push_back(path);
        }
    }
    std::sort(hooks.begin(), hooks.end());
    return hooks;
}

Expected<void> run_hook(const std::string& path, std::span<const std::string> environment,
                        std::uint64_t timeout_ms) {
    const pid_t child = start(path, environment);
    if (child < 0) {
        const int code = errno;
        return fail_with(code, "cannot start hook {}: {}", path, std::strerror(code));
    }
    // Not yet waited for, so the number cannot be another's.
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    const int pidfd_code = process ? 0 : errno;
    const bool ended = process && wait_for_end(process, timeout_ms);
    if (!ended) {
        ::kill(child, SIGKILL);
        ::kill(-child, SIGKILL);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!process) {
        return fail_with(pidfd_code, "cannot wait for hook {}: pidfd_open: {}", path,
                         std::strerror(pidfd_code));
    }
    if (!ended) {
        return fail("hook {} did not end within {} ms and was killed", path, timeout_ms);
    }
    if (WIFSIGNALED(status)) {
        return fail("hook {} was killed by signal {}", path, WTERMSIG(status));
    }
    if (WEXITSTATUS(status) != 0) {
        return fail("hook {} ended with status {}{}", path, WEXITSTATUS(status),
                    WEXITSTATUS(status) == 127 ? " (it, or what it calls, cannot be run)" : "");
    }
    return {};
}

Expected<void> run_hooks(const std::string& directory, std::span<const std::string> environment,
                         std::uint64_t timeout_ms) {
    const auto hooks = list_hooks(directory);
    if (!hooks) {
        return tl::unexpected(hooks.error());
    }
    for (const auto& hook : *hooks) {
        auto ended = run_hook(hook, environment, timeout_ms);
        if (!ended) {
            return ended;
        }
    }
    return {};
}

}  // namespace xenpack::guest
