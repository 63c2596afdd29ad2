// SPDX-License-Identifier: LGPL-2.1-or-later
// Where `xenpack record` looks, what it reads there, and the file it writes; on folders of the
// test.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "watcher/files/whole_file.h"
#include "watcher/record/child.h"
#include "watcher/record/place.h"
#include "watcher/record/sampler.h"

namespace xenpack::record {
namespace {

namespace fs = std::filesystem;

class RecordPlace : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "record_place.XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        root_ = name;
    }
    void TearDown() override { fs::remove_all(root_); }

    std::string put(const std::string& path, std::string_view text) const {
        const fs::path whole = root_ / path;
        fs::create_directories(whole.parent_path());
        std::ofstream(whole) << text;
        return whole.string();
    }
    [[nodiscard]] std::string path(const std::string& below) const {
        return (root_ / below).string();
    }
    [[nodiscard]] Hierarchies v2() const {
        return {path("fs"), Version::v2, "/user", path("fs"), "/user"};
    }

    fs::path root_;
};

constexpr std::string_view kHybridMounts =
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "36 31 0:33 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST_F(RecordPlace, FindsMemoryInV1WhereV1HasIt) {
    const auto found = parse_hierarchies(kHybridMounts, "8:pids:/x\n4:memory:/a/b\n0::/c\n");
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_EQ(found->version, Version::v1);
    EXPECT_EQ(found->memory_mount, "/sys/fs/cgroup/memory");
    EXPECT_EQ(found->memory_path, "/a/b");
    EXPECT_EQ(found->v2_mount, "/sys/fs/cgroup/unified");
    EXPECT_EQ(found->v2_path, "/c");
}

TEST_F(RecordPlace, FindsV2AndItsPathBelowWhatIsMounted) {
    const auto found = parse_hierarchies("41 31 0:38 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                                         "0::/box/user.slice\n");
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_EQ(found->version, Version::v2);
    EXPECT_EQ(found->memory_path, "/user.slice");
}

TEST_F(RecordPlace, SaysThatThereAreNoCgroups) {
    const auto found = parse_hierarchies("1 2 0:3 / / rw - ext4 /dev/sda rw\n", "0::/\n");
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().what.find("mount cgroup v2"), std::string::npos);
    EXPECT_FALSE(parse_hierarchies("", ""));
    EXPECT_FALSE(parse_hierarchies("- - -\n1 2 3\n", ":::\n\n"));
}

TEST_F(RecordPlace, TakesACgroupByFolderOrByPathBelowTheMount) {
    put("fs/web/cgroup.procs", "");
    put("fs/web/memory.current", "0\n");
    for (const std::string& name : {path("fs/web"), std::string("web"), std::string("/web/")}) {
        const auto place = existing_place(v2(), name);
        ASSERT_TRUE(place) << place.error().what;
        EXPECT_EQ(place->memory, path("fs/web"));
        EXPECT_EQ(place->pressure, path("fs/web/memory.pressure"));
    }
}

TEST_F(RecordPlace, TellsAMissingCgroupFromOneWithoutMemory) {
    put("fs/web/cgroup.procs", "");
    const auto missing = existing_place(v2(), "nosuch");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ENOENT);
    const auto bare = existing_place(v2(), "web");
    ASSERT_FALSE(bare);
    EXPECT_NE(bare.error().what.find("cgroup.subtree_control"), std::string::npos);
}

TEST_F(RecordPlace, MakesACgroupBelowTheNearestThatGivesMemory) {
    put("fs/user/cgroup.subtree_control", "pids\n");
    put("fs/cgroup.subtree_control", "cpu memory pids\n");
    std::string made;
    {
        const auto fresh = Fresh::make(v2());
        ASSERT_TRUE(fresh) << fresh.error().what;
        made = fresh->place().memory;
        EXPECT_EQ(fs::path(made).parent_path(), root_ / "fs");
        EXPECT_TRUE(fs::is_directory(made));
        EXPECT_EQ(fresh->entrances(), std::vector<std::string>{made + "/cgroup.procs"});
    }
    EXPECT_FALSE(fs::exists(made));
}

TEST_F(RecordPlace, SwitchesMemoryOnAtTheTopWhereNobodyGivesIt) {
    put("fs/user/cgroup.subtree_control", "\n");
    const std::string top = put("fs/cgroup.subtree_control", "\n");
    ASSERT_TRUE(Fresh::make(v2()));
    EXPECT_TRUE(read_file(top)->starts_with("+memory"));
}

// The number of a process that was.
int ended_pid() {
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::_exit(0);
    }
    ::waitpid(pid, nullptr, 0);
    return pid;
}

TEST_F(RecordPlace, RemovesWhatKilledRecordersLeftAndNothingElse) {
    const std::string dead = std::to_string(ended_pid());
    const std::string left = path("fs/xenpack-record-" + dead);
    const std::vector<std::string> others{path("fs/xenpack-record-" + std::to_string(::getpid())),
                                          path("fs/xenpack-record-" + dead + "-mine"),
                                          path("fs/xenpack-record-"), path("fs/mine-" + dead)};
    fs::create_directories(left);
    for (const std::string& other : others) {
        fs::create_directories(other);
    }
    clear_leftovers(path("fs"), path("fs"));
    EXPECT_FALSE(fs::exists(left));
    for (const std::string& other : others) {
        EXPECT_TRUE(fs::exists(other)) << other;
    }
}

// Its recorder may live in another PID namespace, where it has another number.
TEST_F(RecordPlace, LeavesALockedCgroupToItsRecorder) {
    const std::string locked = path("fs/xenpack-record-" + std::to_string(ended_pid()));
    fs::create_directories(locked);
    const int fd = ::open(locked.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(::flock(fd, LOCK_EX), 0);
    clear_leftovers(path("fs"), path("fs"));
    EXPECT_TRUE(fs::exists(locked));
    ::close(fd);
    clear_leftovers(path("fs"), path("fs"));
    EXPECT_FALSE(fs::exists(locked));
}

TEST_F(RecordPlace, ListsProcessesOfACgroupAndOfThoseBelow) {
    put("fs/web/cgroup.procs", "12\n345\n");
    put("fs/web/worker/cgroup.procs", "6\n");
    EXPECT_EQ(processes_below(path("fs/web")), (std::vector<int>{12, 345, 6}));
    EXPECT_TRUE(processes_below(path("nosuch")).empty());
}

TEST_F(RecordPlace, SamplesWhatACgroupAndItsProcessesSay) {
    Place place;
    place.memory = path("fs/web");
    place.pressure =
        put("fs/web/memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n");
    place.proc = path("proc");
    put("fs/web/memory.stat",
        "anon 1048576\nfile 0\nkernel 0\nshmem 0\nactive_file 0\nslab_reclaimable 0\n");
    put("fs/web/cgroup.procs", "12\n13\n");
    put("proc/12/io", "rchar: 4096\nread_bytes: 1024\nwrite_bytes: 0\n");
    put("proc/12/smaps",
        "1000-2000 rw-p 00000000 00:00 0 [heap]\nRss: 8 kB\nPss: 8 kB\nReferenced: 4 kB\n");
    const std::string bits = put("proc/12/clear_refs", "");
    // 13 has ended.
    Sampler sampler(place);
    const auto first = sampler.sample(0);
    ASSERT_TRUE(first) << first.error().what;
    EXPECT_TRUE(sampler.sees_touched());
    EXPECT_EQ(*read_file(bits), "1");
    EXPECT_EQ(first->memory.anon_kib, 1024U);
    EXPECT_EQ(first->io.asked_kib, 4U);
    EXPECT_EQ(first->stalled_us, 1234U);
    EXPECT_FALSE(first->look);
    EXPECT_FALSE(sampler.sample(500)->look);
    const auto soon = sampler.sample(1'000);
    ASSERT_TRUE(soon->look);
    EXPECT_FALSE(soon->look->last);
    EXPECT_EQ(soon->look->touched.anon_touched_kib, 4U);
    EXPECT_FALSE(sampler.sample(5'000)->look);
    const auto late = sampler.sample(10'000);
    ASSERT_TRUE(late->look);
    EXPECT_TRUE(late->look->last);
    EXPECT_EQ(late->look->since_ms, 0);
    EXPECT_FALSE(sampler.sample(10'500)->look);
    EXPECT_EQ(sampler.sample(11'000)->look->since_ms, 10'000);
}

TEST_F(RecordPlace, DoesNotForgetWhatAChildReadThatHasEnded) {
    Place place;
    place.memory = path("fs/web");
    place.proc = path("proc");
    put("fs/web/memory.stat",
        "anon 0\nfile 0\nkernel 0\nshmem 0\nactive_file 0\nslab_reclaimable 0\n");
    put("fs/web/cgroup.procs", "");
    put("proc/12/io", "rchar: 4096\nread_bytes: 1024\nwrite_bytes: 0\n");
    Sampler sampler(place);
    sampler.child_ended(12);
    EXPECT_EQ(sampler.sample(0)->io.asked_kib, 4U);
}

TEST_F(RecordPlace, SaysWhatItCouldNotRead) {
    Place place;
    place.memory = path("fs/gone");
    const auto sample = Sampler(place).sample(0);
    ASSERT_FALSE(sample);
    EXPECT_NE(sample.error().what.find("fs/gone/memory.stat"), std::string::npos);
}

TEST_F(RecordPlace, StartsAChildInsideAndSaysHowItEnds) {
    const std::string entrance = put("cgroup.procs", "");
    const auto child = start_child({"sh", "-c", "exit 7"}, {entrance});
    ASSERT_TRUE(child) << child.error().what;
    int status = 0;
    ASSERT_EQ(::waitpid(*child, &status, 0), *child);
    EXPECT_EQ(*read_file(entrance), "0");
    EXPECT_EQ(describe_end(status), "ended with status 7");
    EXPECT_EQ(describe_end(9), "was killed by signal 9 (Killed)");
    EXPECT_EQ(describe_end(0), "");
}

TEST_F(RecordPlace, SaysThatACommandIsNotThere) {
    const auto child = start_child({"no-such-program-anywhere"}, {});
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().code, ENOENT);
    EXPECT_EQ(child.error().what, "cannot run no-such-program-anywhere: No such file or directory");
}

}  // namespace
}  // namespace xenpack::record
