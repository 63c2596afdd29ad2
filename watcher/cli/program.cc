// SPDX-License-Identifier: LGPL-2.1-or-later
// posix_spawnp and execvp. Output goes to files in memory: two pipes would have to be read in
// turns.
#include "watcher/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

}  // namespace

Result<ProgramOutput> run_program(const std::vector<std::string>& command) {
    const MemoryFile out("out");
    const MemoryFile err("err");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err.fd(), STDERR_FILENO);
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, command[0].c_str(), &actions, nullptr,
                                   pointers_to(command).data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        return tl::unexpected<Failure>(cannot_run(command[0], error));
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return tl::unexpected<Failure>(cannot_run(command[0], errno));
        }
    }
    return ProgramOutput{exit_status(status), out.contents(), err.contents()};
}

Failure become_program(const std::vector<std::string>& command) {
    execvp(command[0].c_str(), pointers_to(command).data());
    return cannot_run(command[0], errno);
}

}  // namespace xenpack
