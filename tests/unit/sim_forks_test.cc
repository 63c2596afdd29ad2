// SPDX-License-Identifier: LGPL-2.1-or-later
// Templates and forks on the simulated host, in virtual time: the contract of seal, fork and
// destroy of plugin/toolstack.h, and what a simulated reporter answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/sim/world.h"
#include "watcher/loop/loop.h"

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;
const World::Uuid kWeb = uuid_of("web");
const World::Uuid kJob = uuid_of("a fork's uuid");

class SimForks : public testing::Test {
  protected:
    struct Ended {
        int result = 1;
        std::string why;
        std::optional<xenpack_fork_result> fork;
    };

    void begin(const std::string& keys = "") {
        auto scenario = parse_scenario(
            "[zone web]\nmemory = 64M\nboot = 100ms\ngenerate = ramp\nbase = 4M\n"
            "peak = 4M\n" +
                keys,
            "f.sim");
        ASSERT_TRUE(scenario) << scenario.error().what;
        world_ = std::make_unique<World>(std::move(*scenario), store_,
                                         [](xenpack_log_level, const std::string&) {});
        pass(500);
    }
    void begin_sealed(const std::string& keys = "") {
        begin(keys);
        Ended ended;
        ASSERT_TRUE(world_->seal(1, kWeb, "base", 1'000, into(ended)));
        pass(500);
        ASSERT_EQ(ended.result, 0) << ended.why;
    }
    void pass(std::int64_t ms) {
        for (; ms > 0; ms -= kStepMs) {
            world_->step(kStepMs);
            for (const auto& call : world_->take_finished()) {
                call();
            }
        }
    }
    static World::Done into(Ended& ended) {
        return [&ended](int result, const std::string& why, const xenpack_fork_result* fork) {
            EXPECT_EQ(ended.result, 1) << "it is called once";
            ended = {result, why, fork == nullptr ? std::nullopt : std::optional(*fork)};
        };
    }
    World::ForkOrder order(const std::string& name = "job") {
        return {1, kWeb, name, kJob, {{"generation", uuid_text(kJob)}, {"seed", "00"}}, false};
    }
    std::uint32_t forked() {
        Ended ended;
        EXPECT_TRUE(world_->fork(order(), into(ended)));
        pass(300);
        EXPECT_EQ(ended.result, 0) << ended.why;
        return ended.fork ? ended.fork->domid : 0;
    }
    void put(const std::string& path, const std::string& value) {
        ASSERT_EQ(store_.write({{path, value}}), 0);
    }
    std::string text(const std::string& path) {
        const std::string* value = store_.read(path);
        return value == nullptr ? "(nothing)" : *value;
    }
    std::vector<xenpack_event_type> events() {
        std::vector<xenpack_event_type> types;
        for (const xenpack_event& event : world_->take_events()) {
            types.push_back(event.type);
        }
        return types;
    }
    xenpack_domain web() { return world_->domain(1, kWeb).value(); }

    Loop loop_;
    Store store_{Loop::plugin_ops(), &loop_};
    std::unique_ptr<World> world_;
};

TEST_F(SimForks, ASealedZoneNeverRunsAgainAndHasItsNewName) {
    begin();
    Ended ended;
    ASSERT_TRUE(world_->seal(1, kWeb, "base", 1'000, into(ended)));
    EXPECT_EQ(ended.result, 1) << "never inside the call";
    pass(100);
    EXPECT_EQ(text("/local/domain/1/xenpack/template"), "sealing");
    EXPECT_NE(web().flags & XENPACK_DOMAIN_IS_SHUTDOWN, 0U);
    EXPECT_EQ(web().shutdown_reason, 2);
    pass(100);
    EXPECT_EQ(ended.result, 0);
    EXPECT_EQ(text("/local/domain/1/xenpack/template"), "sealed");
    EXPECT_EQ(text("/local/domain/1/name"), "base");
    EXPECT_EQ(web().flags, XENPACK_DOMAIN_IS_HVM | XENPACK_DOMAIN_IS_PAUSED);
    EXPECT_EQ(world_->set_target(1, kWeb, {32 * kMib, 64 * kMib}).error().code, EBUSY);
    const std::uint64_t before = web().cpu_time_ns;
    pass(1'000);
    EXPECT_EQ(web().cpu_time_ns, before);
}

TEST_F(SimForks, WhatCannotBeSealedRunsOn) {
    begin("suspend = hangs\n");
    Ended ended;
    EXPECT_EQ(world_->seal(2, kWeb, "base", 1'000, into(ended)).error().code, ESRCH);
    EXPECT_EQ(world_->seal(1, kWeb, "Domain-0", 1'000, into(ended)).error().code, EEXIST);
    ASSERT_TRUE(world_->seal(1, kWeb, "base", 500, into(ended)));
    pass(1'000);
    EXPECT_EQ(ended.result, -ETIMEDOUT);
    EXPECT_EQ(web().flags, std::uint32_t{XENPACK_DOMAIN_IS_HVM});
    EXPECT_EQ(text("/local/domain/1/xenpack/template"), "(nothing)");
    EXPECT_EQ(text("/local/domain/1/name"), "web");
    begin("maxmem = 128M\n");
    EXPECT_EQ(world_->seal(1, kWeb, "base", 500, into(ended)).error().code, ENOTSUP);
}

TEST_F(SimForks, AForkSharesItsTemplatesMemory) {
    begin_sealed();
    const std::uint64_t free_kib = world_->host().free_kib;
    Ended ended;
    ASSERT_TRUE(world_->fork(order(), into(ended)));
    pass(100);
    ASSERT_EQ(world_->domains().size(), 3U);
    const std::uint32_t domid = world_->domains()[2].domid;
    const std::string home = "/local/domain/" + std::to_string(domid);
    EXPECT_EQ(text(home + "/xenpack/fork/state"), "building");
    EXPECT_NE(world_->domains()[2].flags & XENPACK_DOMAIN_NEVER_RAN, 0U);
    pass(100);
    EXPECT_EQ(ended.result, 0);
    EXPECT_EQ(ended.fork->domid, domid);
    EXPECT_GT(ended.fork->whole_us, 0U);
    EXPECT_EQ(text(home + "/xenpack/fork/state"), "complete");
    EXPECT_EQ(text(home + "/xenpack/fork/template"), uuid_text(kWeb));
    EXPECT_EQ(text(home + "/xenpack/fork/seed"), "00");
    EXPECT_EQ(text(home + "/name"), "job");
    const xenpack_domain fork = world_->domain(domid, kJob).value();
    EXPECT_EQ(fork.flags, std::uint32_t{XENPACK_DOMAIN_IS_HVM});
    EXPECT_EQ(fork.current_kib + fork.shared_kib, 64 * kMib);
    EXPECT_LT(fork.current_kib, 8 * kMib);
    EXPECT_LT(free_kib - world_->host().free_kib, 16 * kMib);
    EXPECT_EQ(web().current_kib, 64 * kMib);
}

TEST_F(SimForks, OfAForkThatFailsNothingIsLeft) {
    begin();
    Ended ended;
    EXPECT_EQ(world_->fork(order(), into(ended)).error().code, EINVAL) << "web is no template";
    begin_sealed();
    EXPECT_EQ(world_->fork(order("base"), into(ended)).error().code, EEXIST);
    auto other = order();
    other.template_uuid = kJob;
    EXPECT_EQ(world_->fork(other, into(ended)).error().code, ESRCH);
    EXPECT_EQ(world_->domains().size(), 2U);
    EXPECT_EQ(ended.result, 1);
}

TEST_F(SimForks, XensMemoryMayBeTooLittle) {
    begin_sealed("[host]\nmemory = 512M\nxen = 32M\ndom0 = 408M\n");
    const std::uint64_t free_kib = world_->host().free_kib;
    DomainConfig config;
    config.memory_kib = config.max_memory_kib = 64 * kMib;
    ASSERT_LT(free_kib, Host::fork_cost_kib(config));
    Ended ended;
    ASSERT_TRUE(world_->fork(order(), into(ended)));
    pass(200);
    EXPECT_EQ(ended.result, -ENOMEM);
    EXPECT_NE(ended.why, "");
    EXPECT_EQ(world_->host().free_kib, free_kib);
    EXPECT_EQ(world_->domains().size(), 2U);
}

TEST_F(SimForks, AForkMayBeLeftPaused) {
    begin_sealed();
    Ended ended;
    auto still = order();
    still.paused = true;
    ASSERT_TRUE(world_->fork(still, into(ended)));
    pass(500);
    ASSERT_EQ(ended.result, 0);
    const xenpack_domain fork = world_->domain(ended.fork->domid, kJob).value();
    EXPECT_NE(fork.flags & XENPACK_DOMAIN_IS_PAUSED, 0U);
    EXPECT_EQ(fork.cpu_time_ns, web().cpu_time_ns);
}

TEST_F(SimForks, OneThatWasLeftPausedIsHandedOutUnderAnotherName) {
    begin_sealed("fork-end = 1s\n");
    Ended ended;
    auto still = order();
    still.paused = true;
    ASSERT_TRUE(world_->fork(still, into(ended)));
    pass(2'000);
    ASSERT_EQ(ended.result, 0);
    const std::uint32_t domid = ended.fork->domid;
    EXPECT_EQ(world_->rename(domid, kJob, "base").error().code, EEXIST);
    EXPECT_EQ(world_->rename(domid, kWeb, "other").error().code, ESRCH);
    EXPECT_TRUE(world_->rename(domid, kJob, "job")) << "its own";
    ASSERT_TRUE(world_->rename(domid, kJob, "other"));
    EXPECT_EQ(text("/local/domain/" + std::to_string(domid) + "/name"), "other");
    EXPECT_EQ(text("/vm/" + uuid_text(kJob) + "/name"), "other");
    ASSERT_TRUE(world_->unpause(domid, kJob));
    EXPECT_EQ(world_->unpause(domid, kJob).error().code, EINVAL);
    EXPECT_EQ(world_->unpause(domid, kWeb).error().code, ESRCH);
    pass(500);
    EXPECT_EQ(world_->domain(domid, kJob)->flags, std::uint32_t{XENPACK_DOMAIN_IS_HVM})
        << "its life begins now";
    EXPECT_EQ(text("/local/domain/" + std::to_string(domid) + "/data/xenpack/fork"),
              uuid_text(kJob) + " ready");
}

TEST_F(SimForks, DestroyingGivesAllBackAndEndsWhatIsUnderWay) {
    begin_sealed();
    const std::uint64_t free_kib = world_->host().free_kib;
    const std::uint32_t domid = forked();
    Ended ended;
    EXPECT_EQ(world_->destroy(domid, kWeb, into(ended)).error().code, ESRCH);
    ASSERT_TRUE(world_->destroy(domid, kJob, into(ended)));
    pass(100);
    EXPECT_EQ(ended.result, 0);
    EXPECT_EQ(world_->host().free_kib, free_kib);
    EXPECT_EQ(text("/local/domain/" + std::to_string(domid)), "(nothing)");
    EXPECT_EQ(text("/vm/" + uuid_text(kJob)), "(nothing)");
    begin("suspend = hangs\n");
    Ended seal;
    Ended gone;
    ASSERT_TRUE(world_->seal(1, kWeb, "base", 10'000, into(seal)));
    ASSERT_TRUE(world_->destroy(1, kWeb, into(gone)));
    pass(200);
    EXPECT_EQ(seal.result, -ESRCH);
    EXPECT_EQ(gone.result, 0);
}

TEST_F(SimForks, WhatIsUnderWayWhenTheHostEndsIsCancelled) {
    begin_sealed();
    Ended fork;
    Ended gone;
    ASSERT_TRUE(world_->fork(order(), into(fork)));
    ASSERT_TRUE(world_->destroy(1, kWeb, into(gone)));
    world_->cancel();
    for (const auto& call : world_->take_finished()) {
        call();
    }
    EXPECT_EQ(fork.result, -ECANCELED);
    EXPECT_EQ(gone.result, -ECANCELED);
}

TEST_F(SimForks, AForkThatEndsWaitsToBeDestroyed) {
    begin_sealed("fork-end = 1s\n");
    const std::uint32_t domid = forked();
    pass(3'000);
    const xenpack_domain fork = world_->domain(domid, kJob).value();
    EXPECT_NE(fork.flags & XENPACK_DOMAIN_IS_SHUTDOWN, 0U);
    EXPECT_EQ(fork.shutdown_reason, 0);
}

// ---- when memory runs out -----------------------------------------------------------------------

TEST_F(SimForks, AForkThatIsHeldDoesNothingUntilEachHoldHasEnded) {
    begin_sealed("fork-end = 1s\nfork-writes = 10M\n");
    const std::uint32_t domid = forked();
    ASSERT_TRUE(world_->adopt(domid, kJob));
    EXPECT_EQ(world_->adopt(1, kWeb).error().code, EINVAL);
    EXPECT_EQ(world_->hold(domid, kWeb).error().code, ESRCH);
    EXPECT_EQ(world_->let_go(domid, kJob).error().code, EINVAL);
    (void)world_->take_events();
    ASSERT_TRUE(world_->hold(domid, kJob));
    ASSERT_TRUE(world_->hold(domid, kJob));
    const xenpack_domain before = world_->domain(domid, kJob).value();
    EXPECT_NE(before.flags & XENPACK_DOMAIN_IS_PAUSED, 0U);
    pass(5'000);
    ASSERT_TRUE(world_->let_go(domid, kJob));
    pass(5'000);
    xenpack_domain fork = world_->domain(domid, kJob).value();
    EXPECT_EQ(fork.current_kib, before.current_kib);
    EXPECT_EQ(fork.flags, before.flags) << "its time has stood still too";
    ASSERT_TRUE(world_->let_go(domid, kJob));
    EXPECT_EQ(events(), (std::vector{XENPACK_DOMAIN_PAUSED, XENPACK_DOMAIN_UNPAUSED}));
    pass(600);
    fork = world_->domain(domid, kJob).value();
    EXPECT_GT(fork.current_kib, before.current_kib);
    pass(1'000);
    fork = world_->domain(domid, kJob).value();
    EXPECT_NE(fork.flags & XENPACK_DOMAIN_IS_SHUTDOWN, 0U);
}

TEST_F(SimForks, OneThatIsStarvedSaysSoOnceAndGoesOnWhenItIsFed) {
    begin_sealed("fork-writes = 40M\n[host]\nmemory = 512M\nxen = 32M\ndom0 = 384M\n");
    const std::uint32_t domid = forked();
    (void)world_->take_events();
    pass(3'000);
    EXPECT_EQ(world_->host().free_kib, 0U);
    const auto said = events();
    EXPECT_EQ(std::ranges::count(said, XENPACK_FORK_STARVED), 1);
    EXPECT_EQ(std::ranges::count(said, XENPACK_DOMAIN_SHUT_DOWN), 0);
    ASSERT_TRUE(world_->feed(domid, kJob));
    pass(500);
    EXPECT_EQ(events(), std::vector{XENPACK_FORK_STARVED}) << "there is still nothing";
    EXPECT_EQ(world_->feed(domid, kWeb).error().code, ESRCH);
}

// The marks of Xen's check_low_mem_virq: each half of the last, until twice what was said is free.
TEST_F(SimForks, XenSaysThatMemoryIsLowAtEachHalving) {
    begin_sealed("fork-writes = 30M\n[host]\nmemory = 640M\nxen = 32M\ndom0 = 448M\n");
    ASSERT_GT(world_->host().free_kib, 64 * kMib);
    (void)world_->take_events();
    const std::uint32_t domid = forked();
    std::vector<std::uint64_t> marks;
    for (int step = 0; step < 40; ++step) {
        pass(kStepMs);
        for (const auto type : events()) {
            if (type == XENPACK_HOST_LOW) {
                marks.push_back(world_->host().free_kib);
            }
        }
    }
    ASSERT_GE(marks.size(), 2U);
    EXPECT_LE(marks[0], 64 * kMib);
    EXPECT_GT(marks[0], 56 * kMib);
    EXPECT_LE(marks[1], 32 * kMib);
    Ended gone;
    ASSERT_TRUE(world_->destroy(domid, kJob, into(gone)));
    pass(500);
    (void)world_->take_events();
    (void)forked();
    pass(2'000);
    const auto again = events();
    EXPECT_GT(std::ranges::count(again, XENPACK_HOST_LOW), 0);
}

// ---- its reporter -------------------------------------------------------------------------------

TEST_F(SimForks, AReporterIsQuietWhenItIsToldAndGoesOnWhenThatIsTakenBack) {
    begin();
    put("/local/domain/1/xenpack/quiesce", "one");
    pass(200);
    EXPECT_EQ(text("/local/domain/1/data/xenpack/quiesced"), "one ok");
    store_.remove("/local/domain/1/xenpack/quiesce");
    pass(200);
    put("/local/domain/1/xenpack/quiesce", "two");
    pass(200);
    EXPECT_EQ(text("/local/domain/1/data/xenpack/quiesced"), "two ok");
}

TEST_F(SimForks, AForkTakesTheIdentityThatItIsGiven) {
    begin();
    put("/local/domain/1/xenpack/quiesce", "one");
    pass(200);
    Ended ended;
    ASSERT_TRUE(world_->seal(1, kWeb, "base", 1'000, into(ended)));
    pass(300);
    const std::uint32_t domid = forked();
    pass(500);
    EXPECT_EQ(text("/local/domain/" + std::to_string(domid) + "/data/xenpack/fork"),
              uuid_text(kJob) + " ready");
}

TEST_F(SimForks, AReporterMayFailOrBeSilentAboutBoth) {
    begin("quiesce = fails\n");
    put("/local/domain/1/xenpack/quiesce", "one");
    pass(200);
    EXPECT_EQ(text("/local/domain/1/data/xenpack/quiesced"),
              "one failed a simulated hook has failed");
    begin("quiesce = hangs\n");
    store_.remove("/local/domain/1");
    pass(200);
    put("/local/domain/1/xenpack/quiesce", "one");
    pass(500);
    EXPECT_EQ(text("/local/domain/1/data/xenpack/quiesced"), "(nothing)");
    begin_sealed("identity = fails\n");
    pass(500);
    const std::uint32_t domid = forked();
    pass(500);
    EXPECT_EQ(text("/local/domain/" + std::to_string(domid) + "/data/xenpack/fork"),
              uuid_text(kJob) + " failed a simulated hook has failed");
}

}  // namespace
}  // namespace xenpack::sim
