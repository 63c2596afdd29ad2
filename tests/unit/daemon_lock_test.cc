// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/daemon_lock.h promises: a second daemon is refused and told who the first is.
#include "watcher/daemon_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "tests/unit/http_client_fixture.h"

namespace xenpack {
namespace {

using ::testing::HasSubstr;

TEST(DaemonLock, RefusesASecondWhereverItsSocketIs) {
    const testing::TemporaryDirectory directory;
    const std::string host = directory / "run/xenpackd.lock";
    auto first = DaemonLock::take({directory / "a/xenpackd.lock", host});
    ASSERT_TRUE(first) << first.error().what;
    const auto second = DaemonLock::take({directory / "b/xenpackd.lock", host});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EADDRINUSE);
    EXPECT_THAT(second.error().what, HasSubstr("already running"));
    EXPECT_THAT(second.error().what, HasSubstr("(process " + std::to_string(getpid()) + ")"));
}

TEST(DaemonLock, IsFreeAgainOnceItsHolderHasGone) {
    const testing::TemporaryDirectory directory;
    const std::string path = directory / "xenpackd.lock";
    { ASSERT_TRUE(DaemonLock::take({path, path})) << "the same file twice is one lock"; }
    EXPECT_TRUE(DaemonLock::take({path}));
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST(DaemonLock, DoesNotStandInItsOwnWayWhereTwoPathsNameOneFile) {
    const testing::TemporaryDirectory directory;
    const std::string run = directory / "run";
    ASSERT_EQ(mkdir(run.c_str(), 0755), 0);
    const std::string var_run = directory / "var-run";
    ASSERT_EQ(symlink(run.c_str(), var_run.c_str()), 0);
    const auto lock = DaemonLock::take({var_run + "/xenpackd.lock", run + "/xenpackd.lock"});
    ASSERT_TRUE(lock) << lock.error().what;
    EXPECT_FALSE(DaemonLock::take({run + "/xenpackd.lock"})) << "it is locked all the same";
}

TEST(DaemonLock, SaysWhyThereCanBeNone) {
    const auto lock = DaemonLock::take({"/proc/nowhere/xenpackd.lock"});
    ASSERT_FALSE(lock);
    EXPECT_THAT(lock.error().what, HasSubstr("/proc/nowhere/xenpackd.lock"));
}

}  // namespace
}  // namespace xenpack
