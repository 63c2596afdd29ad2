// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkSteps on a directory that stands for the zone's files and its cgroup, with hooks that are
// small scripts and nodes in memory: the order of things, failures, and starting anew in the
// middle.
#include <gtest/gtest.h>
#include <linux/random.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "watcher/guest/cgroup.h"
#include "watcher/guest/fork_steps.h"
#include "watcher/guest/hooks.h"

namespace xenpack::guest {
namespace {

namespace fs = std::filesystem;

constexpr char kChild[] = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
constexpr char kSecond[] = "aaaaaaaa-bbbb-cccc-dddd-ffffffffffff";

// What the random device was asked for, and the bytes of the last seed.
std::vector<unsigned long> asked_of_random;
std::string last_seed;
bool random_refuses = false;

int fake_ioctl(int /*fd*/, unsigned long request, void* argument) {
    asked_of_random.push_back(request);
    if (request == RNDADDENTROPY) {
        int sizes[2];
        std::memcpy(sizes, argument, sizeof sizes);
        last_seed.assign(static_cast<const char*>(argument) + sizeof sizes,
                         static_cast<std::size_t>(sizes[1]));
        EXPECT_EQ(sizes[0], 256);
    }
    errno = EPERM;
    return random_refuses ? -1 : 0;
}

class MemoryNodes : public Nodes {
  public:
    Expected<std::optional<std::string>> read(const std::string& path) override {
        if (path == unreadable) {
            return fail("{}: EIO", path);
        }
        const auto found = nodes.find(path);
        return found == nodes.end() ? std::nullopt : std::optional(found->second);
    }
    Expected<void> write(const std::string& path, std::string_view value) override {
        nodes[path] = value;
        return {};
    }

    std::string at(const std::string& path) const {
        const auto found = nodes.find(path);
        return found == nodes.end() ? "" : found->second;
    }

    std::map<std::string, std::string> nodes;
    std::string unreadable;
};

class ForkStepsTest : public testing::Test {
  protected:
    ForkStepsTest() {
        std::string name = (fs::temp_directory_path() / "xenpack-fork-XXXXXX").string();
        root_ = ::mkdtemp(name.data());
        for (const char* directory : {"etc/xenpack", "run", "proc/sys/kernel", "cgroup", "dev"}) {
            fs::create_directories(root_ / directory);
        }
        write("proc/sys/kernel/hostname", "template");
        write("etc/machine-id", "0123\n");
        write("cgroup/cgroup.freeze", "0");
        write("cgroup/cgroup.events", "populated 1\nfrozen 1\n");
        write("dev/urandom", "");
        setup_.root = root_.string();
        setup_.workload = (root_ / "cgroup").string();
        setup_.random_device = (root_ / "dev/urandom").string();
        setup_.ioctl = fake_ioctl;
        asked_of_random.clear();
        random_refuses = false;
        steps_.emplace(setup_);
    }
    ~ForkStepsTest() override { fs::remove_all(root_); }

    void write(const std::string& path, const std::string& text) const {
        std::ofstream(root_ / path) << text;
    }
    std::string read(const std::string& path) const {
        std::ostringstream text;
        text << std::ifstream(root_ / path).rdbuf();
        return text.str();
    }
    std::string frozen() const { return read("cgroup/cgroup.freeze"); }

    // What it runs begins in the test's root; there it appends its name to the file `ran`.
    void hook(const std::string& path, const std::string& commands) const {
        const fs::path full = root_ / "etc/xenpack" / path;
        fs::create_directories(full.parent_path());
        std::ofstream(full) << "#!/bin/sh\ncd " << root_.string() << "\necho "
                            << full.filename().string() << " >>ran\n"
                            << commands << "\n";
        fs::permissions(full, fs::perms::owner_all);
    }

    void look() {
        const auto looked = steps_->look(nodes_);
        ASSERT_TRUE(looked) << looked.error().what;
    }
    void start_anew() { steps_.emplace(setup_); }

    void be_forked(const std::string& generation) {
        nodes_.nodes.clear();
        nodes_.nodes[kGenerationPath] = generation;
        nodes_.nodes[kNamePath] = "job-1";
        nodes_.nodes[kSeedPath] = std::string(64, '5');
    }
    void be_quiesced() {
        nodes_.nodes[kQuiescePath] = "t1";
        look();
        ASSERT_EQ(nodes_.at(kQuiescedPath), "t1 ok");
        ASSERT_EQ(frozen(), "1");
    }

    fs::path root_;
    ForkSetup setup_;
    MemoryNodes nodes_;
    std::optional<ForkSteps> steps_;
};

TEST_F(ForkStepsTest, QuiescingRunsHooksThenFreezesThenAnswers) {
    hook("quiesce.d/20-b", "cat cgroup/cgroup.freeze >at-hook; echo $XENPACK_TOKEN >>ran");
    hook("quiesce.d/10-a", ":");
    nodes_.nodes[kQuiescePath] = "t1";
    look();
    EXPECT_EQ(read("ran"), "10-a\n20-b\nt1\n");
    EXPECT_EQ(read("at-hook"), "0");
    EXPECT_EQ(frozen(), "1");
    EXPECT_EQ(nodes_.at(kQuiescedPath), "t1 ok");
    EXPECT_TRUE(steps_->is_quiesced());
    look();
    EXPECT_EQ(read("ran"), "10-a\n20-b\nt1\n") << "once is enough";
}

TEST_F(ForkStepsTest, AHookThatFailsKeepsTheZoneFromBeingSuspended) {
    hook("quiesce.d/10-a", "exit 3");
    nodes_.nodes[kQuiescePath] = "t1";
    look();
    const std::string answer = nodes_.at(kQuiescedPath);
    EXPECT_TRUE(answer.starts_with("t1 failed hook ")) << answer;
    EXPECT_NE(answer.find("10-a ended with status 3"), std::string::npos) << answer;
    EXPECT_EQ(frozen(), "0");
}

TEST_F(ForkStepsTest, AWorkloadThatDoesNotStandStillIsLetGoAgain) {
    write("cgroup/cgroup.events", "populated 1\nfrozen 0\n");
    setup_.patience_ms = 20;
    start_anew();
    nodes_.nodes[kQuiescePath] = "t1";
    look();
    EXPECT_NE(nodes_.at(kQuiescedPath).find("does not stand still"), std::string::npos);
    EXPECT_EQ(frozen(), "0");
}

TEST_F(ForkStepsTest, TakenBackItThawsAndRunsAllHooksOfResume) {
    hook("resume.d/10-a", "cat cgroup/cgroup.freeze >at-hook; exit 1");
    hook("resume.d/20-b", ":");
    be_quiesced();
    nodes_.nodes.erase(kQuiescePath);
    look();
    EXPECT_EQ(read("ran"), "10-a\n20-b\n");
    EXPECT_EQ(read("at-hook"), "0");
    EXPECT_FALSE(steps_->is_quiesced());
    EXPECT_TRUE(asked_of_random.empty());
}

TEST_F(ForkStepsTest, TheSameTokenLaterIsAnsweredAgain) {
    be_quiesced();
    nodes_.nodes.clear();
    look();
    be_quiesced();
}

TEST_F(ForkStepsTest, AForkIsItselfBeforeItsWorkloadRuns) {
    hook("fork.d/10-a",
         "cat cgroup/cgroup.freeze proc/sys/kernel/hostname >at-hook\n"
         "echo \"$XENPACK_NAME $XENPACK_GENERATION $XENPACK_ADDRESS\" >>ran; env >environment");
    hook("resume.d/10-never", ":");
    be_quiesced();
    be_forked(kChild);
    nodes_.nodes[kAddressPath] = "192.0.2.7/24 192.0.2.1";
    look();
    EXPECT_EQ(read("ran"), std::string("10-a\njob-1 ") + kChild + " 192.0.2.7/24 192.0.2.1\n");
    EXPECT_TRUE(read("at-hook").starts_with("1job-1"));
    EXPECT_EQ(read("environment").find("5555"), std::string::npos) << "the seed is no hook's";
    EXPECT_EQ(read("run/xenpack/guest-fork").find("5555"), std::string::npos);
    EXPECT_EQ(asked_of_random, (std::vector<unsigned long>{RNDADDENTROPY, RNDRESEEDCRNG}));
    EXPECT_EQ(last_seed, std::string(32, 'U') + kChild);
    EXPECT_EQ(read("etc/machine-id"), machine_id_of(kChild));
    EXPECT_EQ(frozen(), "0");
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kChild) + " ready");
    EXPECT_EQ(nodes_.at(kQuiescedPath), "") << "that was the template's to say";
}

TEST_F(ForkStepsTest, AFailingHookIsNeverReadyAndLeavesTheWorkloadFrozen) {
    hook("fork.d/10-a", "exit 1");
    hook("fork.d/20-b", ":");
    be_quiesced();
    be_forked(kChild);
    look();
    look();
    EXPECT_EQ(read("ran"), "10-a\n");
    EXPECT_TRUE(nodes_.at(kForkPath).starts_with(std::string(kChild) + " failed hook "));
    EXPECT_EQ(frozen(), "1");
    hook("fork.d/10-a", ":");
    start_anew();
    look();
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kChild) + " ready");
    EXPECT_EQ(frozen(), "0");
}

TEST_F(ForkStepsTest, WithoutASeedThereIsNoIdentity) {
    be_quiesced();
    be_forked(kChild);
    nodes_.nodes.erase(kSeedPath);
    look();
    EXPECT_NE(nodes_.at(kForkPath).find("failed xenpack/fork/seed is not 64"), std::string::npos);
    EXPECT_EQ(frozen(), "1");
}

TEST_F(ForkStepsTest, AKernelThatRefusesTheSeedIsAFailure) {
    random_refuses = true;
    be_quiesced();
    be_forked(kChild);
    look();
    EXPECT_NE(nodes_.at(kForkPath).find("does not take a seed"), std::string::npos);
    EXPECT_EQ(frozen(), "1");
    EXPECT_EQ(read("proc/sys/kernel/hostname"), "template");
}

TEST_F(ForkStepsTest, AnUnreadableStoreThawsNothingAndIsTriedAgain) {
    be_quiesced();
    be_forked(kChild);
    for (const char* path : {kQuiescePath, kGenerationPath, kSeedPath, kNamePath}) {
        nodes_.unreadable = path;
        EXPECT_FALSE(steps_->look(nodes_)) << path;
        EXPECT_EQ(frozen(), "1") << path;
        EXPECT_EQ(nodes_.at(kForkPath), "") << path;
    }
    nodes_.unreadable.clear();
    look();
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kChild) + " ready");
}

TEST_F(ForkStepsTest, AMalformedGenerationThawsNothing) {
    be_quiesced();
    be_forked("new");
    EXPECT_FALSE(steps_->look(nodes_));
    EXPECT_EQ(frozen(), "1");
}

TEST_F(ForkStepsTest, StartedAnewInATemplatesForkItGoesOnFromTheRecord) {
    be_quiesced();
    be_forked(kChild);
    start_anew();
    look();
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kChild) + " ready");
    EXPECT_EQ(frozen(), "0");
    nodes_.nodes.erase(kForkPath);
    start_anew();
    look();
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kChild) + " ready") << "said again";
    EXPECT_EQ(asked_of_random.size(), 2U) << "but not done again";
}

TEST_F(ForkStepsTest, StartedAnewWhileQuiescedItAnswersAgainAndResumesLater) {
    be_quiesced();
    nodes_.nodes.erase(kQuiescedPath);
    start_anew();
    look();
    EXPECT_EQ(nodes_.at(kQuiescedPath), "t1 ok");
    nodes_.nodes.clear();
    start_anew();
    look();
    EXPECT_EQ(frozen(), "0");
}

TEST_F(ForkStepsTest, AForkOfAForkIsAnother) {
    be_forked(kChild);
    look();
    be_quiesced();
    be_forked(kSecond);
    look();
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kSecond) + " ready");
    EXPECT_EQ(read("etc/machine-id"), machine_id_of(kSecond));
    EXPECT_EQ(frozen(), "0");
}

TEST_F(ForkStepsTest, WithoutAMachineIdNoneIsMade) {
    fs::remove(root_ / "etc/machine-id");
    be_forked(kChild);
    look();
    EXPECT_FALSE(fs::exists(root_ / "etc/machine-id"));
    EXPECT_EQ(nodes_.at(kForkPath), std::string(kChild) + " ready");
}

TEST_F(ForkStepsTest, WithNoPlaceForItsRecordItDoesNotFreeze) {
    fs::remove_all(root_ / "run");
    nodes_.nodes[kQuiescePath] = "t1";
    look();
    EXPECT_TRUE(nodes_.at(kQuiescedPath).starts_with("t1 failed cannot make "));
    EXPECT_EQ(frozen(), "0");
}

TEST_F(ForkStepsTest, AHookThatHangsIsKilled) {
    hook("fork.d/10-a", "exec sleep 1000");
    setup_.patience_ms = 50;
    start_anew();
    be_forked(kChild);
    look();
    EXPECT_NE(nodes_.at(kForkPath).find("did not end within 50 ms"), std::string::npos)
        << nodes_.at(kForkPath);
}

TEST_F(ForkStepsTest, OnlyExecutablesWithHooksNamesAreHooks) {
    for (const char* name : {"fork.d/10-a.dpkg-old", "fork.d/.hidden", "fork.d/Z_9", "fork.d/b"}) {
        hook(name, ":");
    }
    write("etc/xenpack/fork.d/c", "not executable");
    fs::create_directory(root_ / "etc/xenpack/fork.d/d");
    const std::string directory = (root_ / "etc/xenpack/fork.d").string();
    const auto hooks = list_hooks(directory);
    ASSERT_TRUE(hooks);
    EXPECT_EQ(*hooks, (std::vector<std::string>{directory + "/Z_9", directory + "/b"}));
    EXPECT_TRUE(list_hooks(directory + "/none")->empty());
}

TEST_F(ForkStepsTest, AWorkloadThatIsGoneIsThawed) {
    EXPECT_TRUE(thaw((root_ / "none").string()));
    EXPECT_FALSE(freeze((root_ / "none").string(), 10));
}

}  // namespace
}  // namespace xenpack::guest
