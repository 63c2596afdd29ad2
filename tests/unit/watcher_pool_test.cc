// SPDX-License-Identifier: LGPL-2.1-or-later
// Pools as the whole watcher serves them, on the simulated host: filled, taken from, filled again;
// what is refused and what is said of it; and that of what stands ready nothing is left when it is
// not wanted. Real time, in which a step of the host takes 0.1 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/simulated_watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_until;

constexpr std::uint64_t kMib = 1024;

class WatcherPoolTest : public testing::SimulatedWatcher {
  protected:
    void seal(const std::string& zone = "web") {
        ASSERT_TRUE(watcher_->make_template({{"zone", zone}, {"name", "base"}}, {++last_, 1}));
        const auto made = answer();
        ASSERT_TRUE(made) << made.error().what;
    }
    static PoolConfig jobs(unsigned ready, std::optional<unsigned> most = {}) {
        return {"jobs", "base", ready, most, "job-%d", false, 1};
    }
    void begin_full(const PoolConfig& pool, const std::string& keys = "") {
        config_.pools = {pool};
        begin_host(keys);
        seal();
        ASSERT_TRUE(run_until(loop_, [&] { return field("ready") == pool.ready; }));
    }
    Expected<json> answer() {
        if (!run_until(loop_, [this] { return control_.answers.contains(last_); })) {
            return fail("no answer");
        }
        return control_.answers.at(last_);
    }
    Expected<json> take(const json& asked = json::object()) {
        if (auto begun = watcher_->take_fork("jobs", asked, {++last_, 1}); !begun) {
            return tl::unexpected(begun.error());
        }
        return answer();
    }
    json field(const char* name) { return watcher_->status()["pools"][0][name]; }
    std::size_t children() { return watcher_->status()["templates"][0]["children"]; }
    std::ptrdiff_t times_said(const char* words) {
        return std::ranges::count_if(control_.events, [words](const json& event) {
            return event["reason"].get<std::string>().find(words) != std::string::npos;
        });
    }
    std::uint64_t last_ = 0;
};

TEST_F(WatcherPoolTest, FillsWhenItsTemplateIsThereAndNotBefore) {
    config_.pools = {jobs(3)};
    begin_host();
    EXPECT_THAT(field("why").get<std::string>(), HasSubstr("there is no template base"));
    EXPECT_EQ(field("making"), 0);
    seal();
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 3; }));
    EXPECT_TRUE(field("why").is_null());
    const json job = domain("job-2");
    EXPECT_EQ(job["pool"], "jobs");
    EXPECT_EQ(job["taken"], false);
    EXPECT_EQ(job["stands_ready"], true);
    EXPECT_EQ(job["paused"], true);
    EXPECT_EQ(node(job, "xenpack/pool"), "jobs");
    EXPECT_EQ(node(job, "xenpack/fork/state"), "complete");
    EXPECT_NE(node(job, "xenpack/fork/seed"), "(nothing)") << "it has no identity yet";
    EXPECT_TRUE(control_.said("fork", "", "the pool jobs is not full: there is no template base"));
    EXPECT_TRUE(control_.said("fork", "", "the pool jobs is full again"));
}

TEST_F(WatcherPoolTest, WhatIsTakenRunsIsReadyAndIsReplaced) {
    begin_full(jobs(2));
    const auto taken = take();
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_EQ((*taken)["name"], "job-1");
    EXPECT_EQ((*taken)["pool"], "jobs");
    EXPECT_GT((*taken)["ready_ms"], 0);
    const json job = domain("job-1");
    EXPECT_EQ(job["taken"], true);
    EXPECT_EQ(job["stands_ready"], false);
    EXPECT_EQ(job["paused"], false);
    EXPECT_EQ(job["ready"], true);
    EXPECT_EQ(node(job, "xenpack/pool-state"), "taken");
    EXPECT_EQ(node(job, "xenpack/fork/seed"), "(nothing)");
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 2; }));
    EXPECT_TRUE(domain("job-3").is_object());
    EXPECT_EQ(field("taken"), 1);
}

TEST_F(WatcherPoolTest, ANameIsGivenBeforeTheGuestLearnsItsOwn) {
    begin_full(jobs(1));
    const auto taken = take({{"name", "build"}, {"address", "10.0.0.7"}, {"until", "running"}});
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_EQ((*taken)["name"], "build");
    EXPECT_TRUE((*taken)["ready_ms"].is_null());
    const json build = domain("build");
    ASSERT_TRUE(build.is_object());
    EXPECT_EQ(node(build, "name"), "build");
    EXPECT_EQ(node(build, "xenpack/fork/name"), "build");
    EXPECT_EQ(node(build, "xenpack/fork/address"), "10.0.0.7");
    const json job = domain("job-1");
    EXPECT_TRUE(job.is_null() || job["uuid"] != build["uuid"]) << "the next may have its old name";
    ASSERT_TRUE(run_until(loop_, [this] { return control_.said("fork", "build", "ready after"); }));
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1; }));
}

// What another program has renamed has its new name in itself too, and the next may have the old.
TEST_F(WatcherPoolTest, OneThatStandsThereUnderAnotherNameTakesThatForItsOwn) {
    begin_full(jobs(1));
    const auto domid = domain("job-1")["domid"].get<std::uint32_t>();
    ASSERT_TRUE(store_->make({{domain_path(domid, "name"), "mine"}}));
    ASSERT_TRUE(run_until(loop_, [this] { return domain("mine").is_object(); }));
    const auto taken = take();
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_EQ((*taken)["name"], "mine");
    EXPECT_EQ(node(domain("mine"), "xenpack/fork/name"), "mine");
}

TEST_F(WatcherPoolTest, TheNameThatARunningOneHasInItselfIsGivenToNoOther) {
    PoolConfig pool = jobs(1);
    pool.running = true;
    begin_full(pool);
    const auto taken = take({{"name", "mine"}});
    ASSERT_TRUE(taken) << taken.error().what;
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1; }));
    EXPECT_EQ(node(domain("mine"), "xenpack/fork/name"), "job-1");
    EXPECT_TRUE(domain("job-2").is_object());
}

TEST_F(WatcherPoolTest, WhatIsRefusedLeavesThePoolAsItWas) {
    begin_full(jobs(1));
    EXPECT_EQ(take({{"name", "base"}}).error().code, EEXIST);
    EXPECT_EQ(take({{"name", "7"}}).error().code, EINVAL);
    EXPECT_EQ(take({{"timeout_ms", 1U}}).error().code, EINVAL);
    EXPECT_EQ(take({{"address", "a\nb"}}).error().code, EINVAL);
    for (const char* asked : {R"({"name":1})", R"({"until":"gone"})", R"({"nmae":"x"})",
                              R"({"timeout_ms":"1"})", R"({"address":{}})"}) {
        EXPECT_EQ(take(json::parse(asked)).error().code, EINVAL) << asked;
    }
    const auto nosuch = watcher_->take_fork("no\nsuch", json::object(), {++last_, 1});
    ASSERT_FALSE(nosuch);
    EXPECT_EQ(nosuch.error().code, ENOENT);
    EXPECT_THAT(nosuch.error().what, HasSubstr("there is no pool 'no?such'"));
    EXPECT_EQ(field("ready"), 1);
    EXPECT_EQ(field("taken"), 0);
    EXPECT_EQ(node(domain("job-1"), "xenpack/pool-state"), "(nothing)");
    EXPECT_TRUE(take());
}

TEST_F(WatcherPoolTest, TheMostHoldsForTheTakenOnesToo) {
    begin_full(jobs(2, 2));
    ASSERT_TRUE(take());
    ASSERT_TRUE(take());
    const auto refused = take();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EAGAIN);
    EXPECT_THAT(refused.error().what, HasSubstr("there are 2, and there may be no more"));
    EXPECT_EQ(field("ready"), 0);
    EXPECT_EQ(field("taken"), 2);
}

TEST_F(WatcherPoolTest, WhoFindsNoneGetsTheNext) {
    begin_full(jobs(0));
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"name", "one"}}, {++last_, 1}));
    const std::uint64_t first = last_;
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"name", "two"}}, {++last_, 1}));
    const auto second = answer();
    ASSERT_TRUE(second) << second.error().what;
    EXPECT_EQ((*second)["name"], "two");
    ASSERT_TRUE(run_until(loop_, [&] { return control_.answers.contains(first); }));
    EXPECT_EQ(control_.answers.at(first).value()["name"], "one");
    EXPECT_EQ(field("ready"), 0);
    EXPECT_EQ(field("taken"), 2);
}

TEST_F(WatcherPoolTest, WhoHangsUpGetsNone) {
    begin_full(jobs(1), "identity = hangs\n");
    ASSERT_TRUE(watcher_->take_fork("jobs", json::object(), {++last_, 1}));
    ASSERT_TRUE(run_until(loop_, [this] { return field("taken") == 1; }));
    watcher_->caller_gone(last_);
    ASSERT_TRUE(run_until(loop_, [this] { return field("taken") == 0 && field("ready") == 1; }));
    EXPECT_EQ(answer().error().code, ECANCELED);
    EXPECT_TRUE(control_.said("fork", "job-1", "it is destroyed: who has taken it has hung up"));
}

TEST_F(WatcherPoolTest, OneThatCannotTakeItsIdentityIsNotHandedOut) {
    begin_full(jobs(1), "identity = fails\n");
    const auto refused = take();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EREMOTEIO);
    EXPECT_THAT(refused.error().what, HasSubstr("a simulated hook has failed"));
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1 && field("taken") == 0; }));
}

TEST_F(WatcherPoolTest, ATakenOneThatEndsMakesRoom) {
    begin_full(jobs(1, 1), "fork-end = 500ms\n");
    ASSERT_TRUE(take());
    EXPECT_EQ(field("ready"), 0);
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1; }));
    EXPECT_EQ(field("taken"), 0);
}

TEST_F(WatcherPoolTest, APoolThatRunsHandsOutWhatIsReady) {
    PoolConfig pool = jobs(1);
    pool.running = true;
    begin_full(pool);
    EXPECT_EQ(domain("job-1")["ready"], true);
    EXPECT_EQ(take({{"address", "10.0.0.7"}}).error().code, EINVAL);
    const auto taken = take();
    ASSERT_TRUE(taken) << taken.error().what;
    EXPECT_EQ((*taken)["ready_ms"], 0);
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1; }));
}

TEST_F(WatcherPoolTest, AFailureIsSaidOnceAndTriedEverMoreRarely) {
    PoolConfig pool = jobs(1);
    pool.running = true;
    config_.pools = {pool};
    begin_host("identity = fails\n");
    seal();
    const auto failures = [this] {
        return std::ranges::count_if(control_.events, [](const json& event) {
            return event["kind"] == "fault" &&
                   event["reason"].get<std::string>().find("it is destroyed") == 0;
        });
    };
    ASSERT_TRUE(run_until(loop_, [&] { return failures() >= 2; }));
    EXPECT_FALSE(run_until(
        loop_, [&] { return failures() >= 4; }, 2'000));
    EXPECT_EQ(std::ranges::count_if(control_.events,
                                    [](const json& event) {
                                        return event["reason"].get<std::string>().find(
                                                   "the pool jobs is not full: job-1") == 0;
                                    }),
              1);
    EXPECT_THAT(field("why").get<std::string>(), HasSubstr("a simulated hook has failed"));
}

TEST_F(WatcherPoolTest, OnesThatEndAsSoonAsTheyRunAreMadeEverMoreRarely) {
    config_.pools = {jobs(1)};
    config_.pools.front().running = true;
    begin_host("fork-end = 500ms\n");
    seal();
    ASSERT_TRUE(run_until(loop_, [&] { return times_said("made of base") >= 3; }));
    EXPECT_FALSE(run_until(
        loop_, [&] { return times_said("made of base") >= 4; }, 3'500));
    EXPECT_EQ(times_said("is full again"), 1) << "when its template was there";
    EXPECT_EQ(times_said("has gone as soon as it stood there"), 1);
    EXPECT_THAT(field("why").get<std::string>(), HasSubstr("has gone as soon as it stood there"));
}

TEST_F(WatcherPoolTest, MemoryThatIsMissingIsWaitedForByEvent) {
    config_.pools = {jobs(1)};
    config_.fork_reserve_kib = 600 * kMib;
    begin_host();
    seal();
    ASSERT_TRUE(run_until(loop_, [this] {
        return control_.said("fork", "", "the pool jobs is not full: job-1 needs 600 MiB");
    }));
    EXPECT_EQ(watcher_->status()["reservations"], json::array()) << "no zone has to give for it";
    const auto refused = take();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    config_.fork_reserve_kib = 8 * kMib;
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1; }));
}

TEST_F(WatcherPoolTest, AReloadTakesEffect) {
    begin_full(jobs(2));
    config_.pools = {jobs(1)};
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return domain("job-2").is_null(); }));
    EXPECT_TRUE(domain("job-1").is_object()) << "the youngest goes";
    ASSERT_TRUE(take());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1; }));
    config_.pools.clear();
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] {
        return watcher_->status()["templates"][0]["children"] == 1;
    })) << "the taken one stays";
    EXPECT_EQ(domain("job-1")["taken"], true);
}

TEST_F(WatcherPoolTest, WhatStandsOfAnotherTemplateIsNotHandedOutWhereTheNewOneIsYetToCome) {
    begin_full(jobs(2));
    config_.pools.front().template_name = "next";
    ASSERT_TRUE(watcher_->reload());
    EXPECT_EQ(field("ready"), 0);
    const auto refused = take();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EAGAIN);
    EXPECT_THAT(refused.error().what, HasSubstr("there is no template next"));
    ASSERT_TRUE(run_until(loop_, [this] { return children() == 0; }));
    EXPECT_TRUE(control_.said("fork", "job-1", "its template is not the next that"));
    EXPECT_THAT(field("why").get<std::string>(), HasSubstr("there is no template next"));
    config_.pools.front().template_name = "base";
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 2; }));
}

TEST_F(WatcherPoolTest, WhatCannotBeIsRefusedBeforeAForkIsMadeForIt) {
    config_.pools = {jobs(0)};
    begin_host();
    const auto refused_with = [this](const json& asked) {
        const auto refused = watcher_->take_fork("jobs", asked, {++last_, 1});
        return refused ? 0 : refused.error().code;
    };
    const auto check_all = [&] {
        for (const char* asked :
             {R"({"name":"a/b"})", R"({"name":"17"})", R"({"timeout_ms":1})",
              R"({"timeout_ms":3600001})", R"({"address":"banana"})", R"({"address":"a\nb"})"}) {
            EXPECT_EQ(refused_with(json::parse(asked)), EINVAL) << asked;
        }
    };
    check_all();
    EXPECT_EQ(refused_with({{"name", "web"}}), EEXIST);
    EXPECT_EQ(refused_with(json::object()), EAGAIN) << "there is no template yet";
    seal();
    check_all();
    EXPECT_EQ(refused_with({{"name", "base"}}), EEXIST);
    EXPECT_EQ(refused_with({{"name", "one"}}), 0);
    EXPECT_EQ(refused_with({{"name", "one"}}), EEXIST) << "the first of them waits for it";
    config_.pools.front().running = true;
    ASSERT_TRUE(watcher_->reload());
    EXPECT_EQ(refused_with({{"address", "10.0.0.7"}}), EINVAL);
    ASSERT_TRUE(run_until(loop_, [this] { return field("taken") == 1; }));
    EXPECT_EQ(children(), 1U) << "none was made in vain";
}

TEST_F(WatcherPoolTest, OfATemplateWithoutReportersNoneIsGivenAnAddress) {
    config_.pools = {jobs(0)};
    begin_host();
    ASSERT_TRUE(watcher_->make_template({{"zone", "web"}, {"name", "base"}, {"identity", "none"}},
                                        {++last_, 1}));
    ASSERT_TRUE(answer());
    const auto refused = take({{"address", "10.0.0.7"}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EINVAL);
    EXPECT_THAT(refused.error().what, HasSubstr("take no identity"));
}

// Who may try again later is told so, whatever it is that no fork could be made for.
TEST_F(WatcherPoolTest, WhoGetsNoneMayTryAgain) {
    config_.pools = {jobs(0)};
    config_.pools.front().running = true;
    begin_host("identity = fails\n");
    seal();
    const auto failed = take();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, EAGAIN);
    EXPECT_THAT(failed.error().what, HasSubstr("no fork of the pool jobs stands ready: job-1"));
    EXPECT_THAT(failed.error().what, HasSubstr("a simulated hook has failed"));
}

TEST_F(WatcherPoolTest, WhoGetsNoneInTimeMayTryAgain) {
    config_.pools = {jobs(0)};
    config_.pools.front().running = true;
    begin_host("identity = hangs\n");
    seal();
    const auto late = take({{"timeout_ms", 500U}});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, EAGAIN);
    EXPECT_THAT(late.error().what, HasSubstr("no fork of the pool jobs stood ready within 500 ms"));
}

TEST_F(WatcherPoolTest, WhatStandsInTheOtherWayIsReplaced) {
    begin_full(jobs(2));
    config_.pools.front().running = true;
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 2 && children() == 2; }));
    EXPECT_EQ(times_said("it was left paused, and the pool jobs keeps its forks running"), 2);
    config_.pools.front().running = false;
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 2 && children() == 2; }));
    EXPECT_EQ(times_said("it has run, and the pool jobs keeps its forks paused"), 2);
    const auto taken = take({{"address", "10.0.0.7"}});
    EXPECT_TRUE(taken) << taken.error().what;
}

TEST_F(WatcherPoolTest, WhatIsBeingMadeInTheOldWayIsNotWaitedFor) {
    config_.pools = {jobs(1)};
    config_.pools.front().running = true;
    begin_host("identity = hangs\n");
    seal();
    ASSERT_TRUE(run_until(loop_, [this] { return domain("job-1").is_object(); }));
    config_.pools = {jobs(1)};
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 1 && children() == 1; }));
    EXPECT_FALSE(control_.said("fork", "", "the pool jobs is not full: who asked"));
}

TEST_F(WatcherPoolTest, ATemplateWithAPoolIsNotRemovedAndHowItCouldBeIsSaid) {
    begin_full(jobs(2));
    const auto remove = [this] {
        const auto refused = watcher_->remove_template("base", {++last_, 1});
        return refused ? "" : refused.error().what;
    };
    EXPECT_EQ(remove(),
              "base is not removed: 2 forks live: job-1, job-2; first end them ([pool jobs] out of "
              "xenpack.conf and xenpack reload, for those that stand ready)");
    ASSERT_TRUE(take());
    ASSERT_TRUE(run_until(loop_, [this] { return field("ready") == 2; }));
    EXPECT_THAT(remove(), HasSubstr("stand ready; xl destroy, for those that run)"));
    config_.pools.clear();
    ASSERT_TRUE(watcher_->reload());
    ASSERT_TRUE(run_until(loop_, [this] { return children() == 1; }));
    EXPECT_EQ(
        remove(),
        "base is not removed: 1 fork lives: job-1; first end them (xl destroy, for those that "
        "run)");
}

TEST_F(WatcherPoolTest, AHostWithoutSharingSaysWhatItLacks) {
    config_.pools = {jobs(1)};
    host_keys_ = "sharing = no\n";
    begin_host();
    const json status = watcher_->status();
    EXPECT_THAT(status["host"]["forks_lack"][0].get<std::string>(), HasSubstr("shares no memory"));
}

}  // namespace
}  // namespace xenpack
