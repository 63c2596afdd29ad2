// SPDX-License-Identifier: LGPL-2.1-or-later
// Child: fork, enter, exec; and the news of a failure through a pipe that exec closes.
#include "watcher/record/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace xenpack::record {
namespace {

enum class Step : int { enter, exec };

struct News {
    Step step;
    int code;
};

// Only calls that may be made between fork and exec.
[[noreturn]] void become(char* const* argv, const std::vector<int>& entrances, int news_fd) {
    const auto give_up = [news_fd](Step step) {
        const News news{step, errno};
        if (::write(news_fd, &news, sizeof news) < 0) {
            ::_exit(126);
        }
        ::_exit(127);
    };
    for (const int fd : entrances) {
        if (::write(fd, "0", 1) != 1) {
            give_up(Step::enter);
        }
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execvp(argv[0], argv);
    give_up(Step::exec);
    ::_exit(127);
}

void close_all(const std::vector<int>& fds) {
    for (const int fd : fds) {
        ::close(fd);
    }
}

Expected<std::vector<int>> open_all(const std::vector<std::string>& paths) {
    std::vector<int> fds;
    for (const std::string& path : paths) {
        const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            const int code = errno;
            close_all(fds);
            return fail_with(code, "cannot open {}: {}", path, std::strerror(code));
        }
        fds.push_back(fd);
    }
    return fds;
}

Expected<int> await_exec(int pid, int news_fd, const std::string& name) {
    News news{};
    ssize_t r = 0;
    do {
        r = ::read(news_fd, &news, sizeof news);
    } while (r < 0 && errno == EINTR);
    if (r == 0) {
        return pid;
    }
    ::waitpid(pid, nullptr, 0);
    if (r != sizeof news) {
        return fail("cannot run {}: it ended before it began", name);
    }
    return fail_with(news.code, "cannot {} {}: {}",
                     news.step == Step::enter ? "enter a cgroup to run" : "run", name,
                     std::strerror(news.code));
}

}  // namespace

Expected<int> start_child(const std::vector<std::string>& argv,
                          const std::vector<std::string>& entrances) {
    const auto fds = open_all(entrances);
    if (!fds) {
        return tl::unexpected<Error>(fds.error());
    }
    std::vector<char*> words;
    words.reserve(argv.size() + 1);
    for (const std::string& word : argv) {
        words.push_back(const_cast<char*>(word.c_str()));
    }
    words.push_back(nullptr);
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        const int code = errno;
        close_all(*fds);
        return fail_with(code, "cannot make a pipe: {}", std::strerror(code));
    }
    const int pid = ::fork();
    if (pid == 0) {
        become(words.data(), *fds, pipe[1]);
    }
    const int code = errno;
    close_all(*fds);
    ::close(pipe[1]);
    auto started = pid < 0 ? Expected<int>(fail_with(code, "cannot start a process for {}: {}",
                                                     argv.front(), std::strerror(code)))
                           : await_exec(pid, pipe[0], argv.front());
    ::close(pipe[0]);
    return started;
}

std::string describe_end(int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        return fmt::format("was killed by signal {} ({})", number, ::strsignal(number));
    }
    const int status = WEXITSTATUS(wait_status);
    return status == 0 ? std::string() : fmt::format("ended with status {}", status);
}

}  // namespace xenpack::record
