// SPDX-License-Identifier: LGPL-2.1-or-later
// The brake's files on a directory that stands for a cgroup: what is read, set, put back, and that
// the limit does not outlive a reporter that was killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "watcher/guest/brake_files.h"
#include "watcher/guest/cgroup.h"

namespace xenpack::guest {
namespace {

namespace fs = std::filesystem;

constexpr char kElsewhere[] = "0::/init.scope\n";

class FakeCgroup : public testing::Test {
  protected:
    FakeCgroup() {
        std::string name = (fs::temp_directory_path() / "xenpack-cgroup-XXXXXX").string();
        root_ = ::mkdtemp(name.data());
        group_ = root_ / "workload";
        fs::create_directory(group_);
        std::ofstream(root_ / "cgroup.controllers") << "memory\n";
        write("cgroup.controllers", "memory\n");
        // A regular file is not truncated by a shorter text, as a cgroup's would be in effect: the
        // tests set limits of four characters, like "max" and its newline.
        write("memory.high", "max\n");
        write("memory.current", "8388608\n");
        write("memory.events.local", "low 1\nhigh 12\nmax 3\noom 4\n");
    }
    ~FakeCgroup() override { fs::remove_all(root_); }

    void write(const std::string& name, const std::string& text) {
        std::ofstream(group_ / name, std::ios::trunc) << text;
    }
    [[nodiscard]] std::string high() const {
        std::ostringstream text;
        text << std::ifstream(group_ / "memory.high").rdbuf();
        return text.str();
    }
    [[nodiscard]] std::string refusal(const std::string& own = kElsewhere) const {
        const auto files = BrakeFiles::open(group_, own);
        return files ? "accepted" : files.error().what;
    }

    fs::path root_;
    fs::path group_;
};

TEST_F(FakeCgroup, ReadsUsageAndCounts) {
    auto files = BrakeFiles::open(group_, kElsewhere);
    ASSERT_TRUE(files) << files.error().what;
    const auto readings = files->read();
    ASSERT_TRUE(readings) << readings.error().what;
    EXPECT_EQ(readings->usage_kib, 8192U);
    EXPECT_EQ(readings->high_events, 12U);
}

TEST_F(FakeCgroup, OlderKernelsCountInMemoryEvents) {
    fs::rename(group_ / "memory.events.local", group_ / "memory.events");
    auto files = BrakeFiles::open(group_, kElsewhere);
    ASSERT_TRUE(files) << files.error().what;
    EXPECT_EQ(files->read()->high_events, 12U);
}

TEST_F(FakeCgroup, SetsTheLimitAndPutsTheOldOneBack) {
    {
        auto files = BrakeFiles::open(group_, kElsewhere);
        ASSERT_TRUE(files);
        EXPECT_EQ(files->own_limit_kib(), std::nullopt);
        ASSERT_TRUE(files->set_limit(1));
        EXPECT_EQ(high(), "1024");
        ASSERT_TRUE(files->set_limit(std::nullopt));
        EXPECT_EQ(high(), "max\n");
        ASSERT_TRUE(files->set_limit(2));
        EXPECT_EQ(high(), "2048");
    }
    EXPECT_EQ(high(), "max\n");
}

TEST_F(FakeCgroup, AnOwnLimitIsKnownAndPutBack) {
    write("memory.high", "4096\n");
    {
        auto files = BrakeFiles::open(group_, kElsewhere);
        ASSERT_TRUE(files);
        EXPECT_EQ(files->own_limit_kib(), 4U);
        ASSERT_TRUE(files->set_limit(1));
        EXPECT_EQ(high().substr(0, 4), "1024");
    }
    EXPECT_EQ(high(), "4096\n");
}

TEST_F(FakeCgroup, AKilledReporterLeavesNoLimit) {
    // The guardian becomes our child when its parent is killed, so its end can be waited for.
    ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t reporter = ::fork();
    if (reporter == 0) {
        auto files = BrakeFiles::open(group_, kElsewhere);
        const bool ok = files && files->set_limit(1);
        [[maybe_unused]] const ssize_t r = ::write(ready[1], ok ? "y" : "n", 1);
        for (;;) {
            ::pause();
        }
    }
    char answer = 0;
    ASSERT_EQ(::read(ready[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    EXPECT_EQ(high(), "1024");
    ::kill(reporter, SIGKILL);
    ASSERT_EQ(::waitpid(reporter, nullptr, 0), reporter);
    int status = 0;
    ASSERT_GT(::waitpid(-1, &status, 0), 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(high(), "max\n");
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_F(FakeCgroup, ALimitLeftByAReporterKilledWithItsGuardianIsNotTakenForTheOwners) {
    const std::string before = "max\n";
    if (::setxattr(group_.c_str(), "trusted.xenpack.memory.high", before.data(), before.size(),
                   0) != 0) {
        GTEST_SKIP() << "no trusted attributes here: " << std::strerror(errno);
    }
    write("memory.high", "4096\n");
    {
        const auto files = BrakeFiles::open(group_, kElsewhere);
        ASSERT_TRUE(files);
        EXPECT_FALSE(files->own_limit_kib());
    }
    EXPECT_EQ(::getxattr(group_.c_str(), "trusted.xenpack.memory.high", nullptr, 0), -1);
}

TEST_F(FakeCgroup, TheReporterRefusesToBrakeItself) {
    EXPECT_NE(refusal("0::/workload\n").find("itself"), std::string::npos);
    EXPECT_NE(refusal("0::/workload/sub\n").find("itself"), std::string::npos);
    EXPECT_NE(refusal("3:cpu:/\n0::/workload\n").find("itself"), std::string::npos);
    EXPECT_EQ(refusal("0::/workload2\n"), "accepted");
    EXPECT_EQ(refusal("0::/\n"), "accepted");
    EXPECT_EQ(refusal(""), "accepted");
}

TEST_F(FakeCgroup, TheRootIsRefused) {
    const auto files = BrakeFiles::open(root_, kElsewhere);
    ASSERT_FALSE(files);
    EXPECT_NE(files.error().what.find("itself"), std::string::npos);
}

TEST_F(FakeCgroup, WhatIsNoCgroupIsRefused) {
    fs::remove(group_ / "cgroup.controllers");
    EXPECT_NE(refusal().find("not a cgroup v2 directory"), std::string::npos);
    fs::remove_all(group_);
    EXPECT_NE(refusal().find("No such file"), std::string::npos);
}

TEST_F(FakeCgroup, MissingMemoryControllerIsRefused) {
    fs::remove(group_ / "memory.high");
    EXPECT_NE(refusal().find("memory.high"), std::string::npos);
}

TEST_F(FakeCgroup, GarbageIsAnErrorNotAReading) {
    auto files = BrakeFiles::open(group_, kElsewhere);
    ASSERT_TRUE(files);
    write("memory.current", "lots\n");
    EXPECT_FALSE(files->read());
    write("memory.current", "4096\n");
    write("memory.events.local", "low 1\n");
    EXPECT_FALSE(files->read());
}

TEST(BrakeFiles, WithinMeansTheGroupOrBelowIt) {
    EXPECT_TRUE(is_within("/a/b", "/a"));
    EXPECT_TRUE(is_within("/a", "/a"));
    EXPECT_TRUE(is_within("/a", "/"));
    EXPECT_TRUE(is_within("/", "/"));
    EXPECT_FALSE(is_within("/ab", "/a"));
    EXPECT_FALSE(is_within("/", "/a"));
    EXPECT_FALSE(is_within("/b", "/a"));
}

}  // namespace
}  // namespace xenpack::guest
