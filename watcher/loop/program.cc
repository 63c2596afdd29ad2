// SPDX-License-Identifier: LGPL-2.1-or-later
// Program: posix_spawn, a pipe for what it complains of, and a pidfd that tells when it has ended:
// no signal is needed, so that nobody else's children are touched.
#include "watcher/loop/program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace xenpack {
namespace {

// Of what it says the end, where the reason stands.
constexpr std::size_t kMostSaid = 1024;

class Descriptor {
  public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    ~Descriptor() { reset(); }
    void reset() {
        if (fd_ >= 0) {
            ::close(std::exchange(fd_, -1));
        }
    }
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

int open_pidfd(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

std::string describe(const siginfo_t& end) {
    if (end.si_code == CLD_EXITED) {
        return fmt::format("ended with status {}", end.si_status);
    }
    return fmt::format("was killed by signal {} ({})", end.si_status, ::strsignal(end.si_status));
}

// The last line that says something, on one line of a journal.
std::string last_line(std::string said) {
    while (!said.empty() && said.back() == '\n') {
        said.pop_back();
    }
    const std::size_t before = said.rfind('\n');
    said.erase(0, before == std::string::npos ? 0 : before + 1);
    for (char& c : said) {
        c = c >= ' ' && c <= '~' ? c : ' ';
    }
    return said;
}

class RunningProgram final : public Program {
  public:
    RunningProgram(Loop& loop, std::string name, pid_t pid, Descriptor pidfd, Descriptor said,
                   Ended ended)
        : name_(std::move(name)),
          pid_(pid),
          pidfd_(std::move(pidfd)),
          said_fd_(std::move(said)),
          ended_(std::move(ended)) {
        sayable_ = loop.watch_readable(said_fd_.get(), [this] { hear(); });
        over_ = loop.watch_readable(pidfd_.get(), [this] { end(); });
    }
    ~RunningProgram() override {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }
    RunningProgram(const RunningProgram&) = delete;
    RunningProgram& operator=(const RunningProgram&) = delete;

  private:
    void hear() {
        std::array<char, 512> buffer{};
        ssize_t r = 0;
        while ((r = ::read(said_fd_.get(), buffer.data(), buffer.size())) > 0) {
            said_.append(buffer.data(), static_cast<std::size_t>(r));
            if (said_.size() > kMostSaid) {
                said_.erase(0, said_.size() - kMostSaid);
            }
        }
        if (r == 0) {
            sayable_.reset();
        }
    }

    void end() {
        hear();
        siginfo_t info{};
        ::waitid(P_PID, static_cast<id_t>(std::exchange(pid_, -1)), &info, WEXITED);
        over_.reset();
        const Ended ended = std::move(ended_);
        if (info.si_code == CLD_EXITED && info.si_status == 0) {
            ended({});
            return;
        }
        const std::string why = last_line(std::move(said_));
        ended(fail("{} {}{}{}", name_, describe(info), why.empty() ? "" : ": ", why));
    }

    std::string name_;
    pid_t pid_;
    Descriptor pidfd_;
    Descriptor said_fd_;
    Ended ended_;
    std::string said_;
    Loop::Handle sayable_;
    Loop::Handle over_;
};

// 0 or an errno.
int spawn(const std::string& file, const std::vector<std::string>& arguments, int said_fd,
          pid_t& pid) {
    std::vector<char*> words;
    words.reserve(arguments.size() + 1);
    for (const std::string& word : arguments) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, said_fd, STDERR_FILENO);
    // Signals are for it as for any program, whatever this one does with them.
    sigset_t none;
    sigset_t defaults;
    ::sigemptyset(&none);
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error =
        ::posix_spawn(&pid, file.c_str(), &actions, &attributes, words.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
}

}  // namespace

Expected<std::unique_ptr<Program>> Program::run(Loop& loop, const std::string& file,
                                                const std::vector<std::string>& arguments,
                                                Ended ended) {
    const std::string name = arguments.empty() ? file : arguments.front();
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return fail_with(errno, "cannot run {}: {}", name, std::strerror(errno));
    }
    Descriptor said(ends[0]);
    Descriptor saying(ends[1]);
    // Our end alone: who writes to the other expects to wait while we are slow.
    if (::fcntl(said.get(), F_SETFL, O_NONBLOCK) != 0) {
        return fail_with(errno, "cannot run {}: {}", name, std::strerror(errno));
    }
    pid_t pid = -1;
    if (const int error = spawn(file, arguments, saying.get(), pid); error != 0) {
        return fail_with(error, "cannot run {} ({}): {}", name, file, std::strerror(error));
    }
    saying.reset();
    Descriptor pidfd(open_pidfd(pid));
    if (pidfd.get() < 0) {
        const int error = errno;
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        return fail_with(error, "cannot wait for {}: {}", name, std::strerror(error));
    }
    return std::make_unique<RunningProgram>(loop, name, pid, std::move(pidfd), std::move(said),
                                            std::move(ended));
}

}  // namespace xenpack
