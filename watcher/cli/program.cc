// SPDX-License-Identifier: LGPL-2.1-or-later
// fork and execvp. Output goes to files in memory: two pipes would have to be read in turns.
#include "watcher/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace xenpack {

namespace {

class MemoryFile {
  public:
    explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
    ~MemoryFile() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] std::string contents() const {
        std::string text;
        char buffer[4096];
        ssize_t r = 0;
        while ((r = pread(fd_, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0) {
            text.append(buffer, static_cast<std::size_t>(r));
        }
        return text;
    }

  private:
    int fd_;
};

// As execvp wants them. Valid while `command` is.
std::vector<char*> pointers_to(const std::vector<std::string>& command) {
    std::vector<char*> pointers;
    pointers.reserve(command.size() + 1);
    for (const std::string& word : command) {
        pointers.push_back(const_cast<char*>(word.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

Failure cannot_run(const std::string& program, int error) {
    return {ExitStatus::failed,
            fmt::format("cannot run {}: {}{}", program, std::strerror(error),
                        error == ENOENT ? "; is it installed, and its directory in PATH?" : "")};
}

int exit_status(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// While it lives, what would end this process is not delivered but waited for, and the end of a
// child too. A signal that this process ignores is not among them.
class Signals {
  public:
    Signals() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGCHLD);
        for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
            struct sigaction action {};
            sigaction(number, nullptr, &action);
            if (action.sa_handler != SIG_IGN) {
                sigaddset(&set_, number);
            }
        }
        sigprocmask(SIG_BLOCK, &set_, &before_);
    }
    ~Signals() { restore(); }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    // -1: none within that time.
    [[nodiscard]] int wait(std::chrono::nanoseconds most) const {
        const auto whole = std::chrono::duration_cast<std::chrono::seconds>(most);
        const timespec left{static_cast<time_t>(whole.count()),
                            static_cast<long>((most - whole).count())};
        return sigtimedwait(&set_, nullptr, &left);
    }

  private:
    sigset_t set_{};
    sigset_t before_{};
};

// The child's side. Its own process group, so that its children can be ended with it.
[[noreturn]] void become_child(char* const* words, int out, int err, int say, pid_t parent,
                               const Signals& signals) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(err, STDERR_FILENO) >= 0) {
        signals.restore();
        execvp(words[0], words);
    }
    const int error = errno;
    (void)!write(say, &error, sizeof error);
    _exit(127);
}

Result<pid_t> start(const std::vector<std::string>& command, int out, int err,
                    const Signals& signals) {
    std::array<int, 2> said{};
    if (pipe2(said.data(), O_CLOEXEC) != 0) {
        return tl::unexpected<Failure>(cannot_run(command[0], errno));
    }
    const std::vector<char*> words = pointers_to(command);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        become_child(words.data(), out, err, said[1], parent, signals);
    }
    int error = pid < 0 ? errno : 0;
    close(said[1]);
    // Closed by its becoming the program.
    if (pid > 0 && read(said[0], &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
        waitpid(pid, nullptr, 0);
    }
    close(said[0]);
    if (error != 0) {
        return tl::unexpected<Failure>(cannot_run(command[0], error));
    }
    return pid;
}

// What waitpid(2) tells; nothing: it was killed when its time was over. Does not return where a
// signal ends this process.
std::optional<int> await_end(pid_t pid, std::int64_t within_ms, const Signals& signals) {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::milliseconds(within_ms);
    for (;;) {
        int status = 0;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            return status;
        }
        const auto left = std::max<Clock::duration>(until - Clock::now(), {});
        const int caught = signals.wait(left);
        if (caught == SIGCHLD || (caught < 0 && errno == EINTR)) {
            continue;
        }
        kill(-pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        if (caught < 0) {
            return std::nullopt;
        }
        signals.restore();
        raise(caught);
        return std::nullopt;  // somebody handles it
    }
}

std::string joined(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        line += (line.empty() ? "" : " ") + word;
    }
    return line;
}

}  // namespace

Result<ProgramOutput> run_program(const std::vector<std::string>& command, std::int64_t within_ms) {
    const MemoryFile out("out");
    const MemoryFile err("err");
    const Signals signals;
    const auto started = start(command, out.fd(), err.fd(), signals);
    if (!started) {
        return tl::unexpected<Failure>(started.error());
    }
    const auto status = await_end(*started, within_ms, signals);
    if (!status) {
        return fail_as(ExitStatus::failed,
                       fmt::format("{} has not ended within {} s, and is killed", joined(command),
                                   within_ms / 1000));
    }
    return ProgramOutput{exit_status(*status), out.contents(), err.contents()};
}

Failure become_program(const std::vector<std::string>& command) {
    execvp(command[0].c_str(), pointers_to(command).data());
    return cannot_run(command[0], errno);
}

}  // namespace xenpack
