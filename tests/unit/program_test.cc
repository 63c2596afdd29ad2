// SPDX-License-Identifier: LGPL-2.1-or-later
// Programs beside the loop: watcher/loop/program.h.
#include "watcher/loop/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <optional>

#include "tests/unit/http_client_fixture.h"

namespace xenpack {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::run_until;

class ProgramTest : public ::testing::Test {
  protected:
    // How a shell ends that is given this to do.
    Expected<void> run(const std::string& script) {
        std::optional<Expected<void>> ended;
        const auto program = Program::run(loop_, "/bin/sh", {"joiner", "-c", script, "joiner"},
                                          [&](Expected<void> end) { ended = std::move(end); });
        EXPECT_TRUE(program) << program.error().what;
        EXPECT_TRUE(run_until(loop_, [&] { return ended.has_value(); }));
        return ended.value_or(fail("it has not ended"));
    }

    Loop loop_;
};

TEST_F(ProgramTest, EndsWell) {
    EXPECT_TRUE(run("exit 0"));
}

TEST_F(ProgramTest, SaysHowItEndedAndWhatItLastComplainedOf) {
    const auto failed = run("echo one >&2; echo 'there is no bridge' >&2; exit 3");
    EXPECT_EQ(failed.error().what, "joiner ended with status 3: there is no bridge");
    EXPECT_THAT(run("kill -9 $$").error().what, HasSubstr("was killed by signal 9"));
}

TEST_F(ProgramTest, HowMuchEverItSaysTheEndOfItIsKept) {
    EXPECT_THAT(run("yes | head -c 500000 >&2; printf '\\033[2J!' >&2; exit 1").error().what,
                EndsWith(" [2J!"));
}

TEST_F(ProgramTest, WhatItSaysWaitsForASlowWatcher) {
    // 04000: O_NONBLOCK, with which a write fails where the pipe is full.
    EXPECT_THAT(run("flags=$(awk '/^flags/ { print $2 }' /proc/$$/fdinfo/2); "
                    "[ $((flags & 04000)) -eq 0 ] && echo it waits >&2; exit 1")
                    .error()
                    .what,
                EndsWith("it waits"));
}

TEST_F(ProgramTest, AProgramThatIsNotThereIsSaidAtOnce) {
    const auto missing = Program::run(loop_, "/nowhere/vif-xenpack", {"vif-xenpack"},
                                      [](const Expected<void>&) { FAIL(); });
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ENOENT);
    EXPECT_THAT(missing.error().what, HasSubstr("/nowhere/vif-xenpack"));
}

TEST_F(ProgramTest, WhoIsNotWaitedForAnyMoreIsKilled) {
    testing::TemporaryDirectory directory;
    const std::string mark = directory / "pid";
    auto program =
        Program::run(loop_, "/bin/sh", {"sh", "-c", "echo $$ >" + mark + "; exec sleep 600"},
                     [](const Expected<void>&) { FAIL(); });
    ASSERT_TRUE(program);
    int pid = 0;
    while (!(std::ifstream(mark) >> pid)) {
    }
    program->reset();
    EXPECT_EQ(kill(pid, 0), -1);
}

}  // namespace
}  // namespace xenpack
