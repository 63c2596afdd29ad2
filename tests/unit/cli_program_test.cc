// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/cli/program.h promises, with real programs: their output and end, and that nothing
// of them is left.
#include "watcher/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace xenpack {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kLongMs = 60'000;

Result<ProgramOutput> shell(const std::string& script, std::int64_t within_ms = kLongMs) {
    return run_program({"sh", "-c", script}, within_ms);
}

// Holds the write end of a pipe open in every process that the script starts: the read end comes to
// its end when the last of them has gone.
class Survivors {
  public:
    Survivors() { EXPECT_EQ(pipe(ends_.data()), 0); }
    ~Survivors() { close(ends_[0]); }
    Survivors(const Survivors&) = delete;
    Survivors& operator=(const Survivors&) = delete;

    void close_own() { close(ends_[1]); }
    void await_none() const {
        char byte = 0;
        EXPECT_EQ(read(ends_[0], &byte, 1), 0);
    }
    void await_word() const {
        char byte = 0;
        EXPECT_EQ(read(ends_[0], &byte, 1), 1);
    }
    [[nodiscard]] int fd() const { return ends_[1]; }

  private:
    std::array<int, 2> ends_{};
};

TEST(Program, ItsOutputAndStatusAreKeptApart) {
    const auto ran = shell("cat; echo out; echo err >&2; exit 3");
    ASSERT_TRUE(ran) << ran.error().what;
    EXPECT_EQ(ran->out, "out\n");
    EXPECT_EQ(ran->err, "err\n");
    EXPECT_EQ(ran->status, 3);
    EXPECT_EQ(shell("kill -KILL $$")->status, 128 + SIGKILL);
}

TEST(Program, ThatIsNotThereIsSaid) {
    const auto ran = run_program({"no-such-program-anywhere"}, kLongMs);
    ASSERT_FALSE(ran);
    EXPECT_THAT(ran.error().what, HasSubstr("cannot run no-such-program-anywhere: No such file"));
}

TEST(Program, ThatHangsIsKilledWithItsChildrenWhenItsTimeIsOver) {
    Survivors survivors;
    const auto ran = shell("sleep 1000 & wait", 200);
    ASSERT_FALSE(ran);
    EXPECT_THAT(ran.error().what, HasSubstr("sh -c sleep 1000 & wait has not ended within"));
    survivors.close_own();
    survivors.await_none();
}

// In a process of its own, as it ends by that.
void expect_nothing_left_after(int number) {
    Survivors survivors;
    const pid_t pid = fork();
    if (pid == 0) {
        signal(number, SIG_DFL);  // ignored where these tests run in the background
        (void)shell("sleep 1000 & echo >&" + std::to_string(survivors.fd()) + "; wait");
        _exit(1);
    }
    survivors.close_own();
    survivors.await_word();
    kill(pid, number);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), number);
    survivors.await_none();
}

TEST(Program, IsKilledWithItsChildrenBySignalsThatEndUs) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
        expect_nothing_left_after(number);
    }
}

TEST(Program, IsKilledWhereWeAreKilled) {
    Survivors survivors;
    const pid_t pid = fork();
    if (pid == 0) {
        (void)run_program(
            {"sh", "-c", "echo >&" + std::to_string(survivors.fd()) + "; exec sleep 1000"},
            kLongMs);
        _exit(1);
    }
    survivors.close_own();
    survivors.await_word();
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    survivors.await_none();
}

}  // namespace
}  // namespace xenpack
