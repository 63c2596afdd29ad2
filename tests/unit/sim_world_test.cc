// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/world.h and start_cost.h promise, in virtual time: lives, nodes, reports, and the
// contract of each operation of plugin/toolstack.h.
#include "plugin/sim/world.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "plugin/sim/start_cost.h"
#include "watcher/loop/loop.h"
#include "watcher/pressure/report.h"

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr const char* kQuick = "boot = 200ms\ngenerate = ramp\nbase = 20M\npeak = 20M\n";

class SimWorld : public testing::Test {
  protected:
    void begin(const std::string& text) {
        auto scenario = parse_scenario(text, "f.sim");
        ASSERT_TRUE(scenario) << scenario.error().what;
        world_ = std::make_unique<World>(
            std::move(*scenario), store_,
            [this](xenpack_log_level, const std::string& sentence) { said_.push_back(sentence); });
    }
    void pass(std::int64_t ms) {
        for (; ms > 0; ms -= kStepMs) {
            world_->step(kStepMs);
        }
    }
    std::string text(const std::string& path) {
        const std::string* value = store_.read(path);
        return value == nullptr ? "(nothing)" : *value;
    }
    // "CREATED 0, UNPAUSED 1"
    std::string events() {
        static const std::vector<std::string> kNames{"CREATED",      "PAUSED",  "UNPAUSED",
                                                     "SHUT_DOWN",    "DIED",    "HOST_LOST",
                                                     "FORK_STARVED", "HOST_LOW"};
        std::string all;
        for (const xenpack_event& event : world_->take_events()) {
            all += (all.empty() ? "" : ", ") + kNames.at(event.type) + " " +
                   std::to_string(event.domid);
        }
        return all;
    }
    xenpack_domain one() { return world_->domain(1, uuid_of("web")).value(); }

    Loop loop_;
    Store store_{Loop::plugin_ops(), &loop_};
    std::vector<std::string> said_;
    std::unique_ptr<World> world_;
};

TEST_F(SimWorld, AZoneIsBuiltThenRunsWithTheNodesThatLibxlWrites) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\n") + kQuick);
    EXPECT_EQ(events(), "CREATED 0, CREATED 1");
    EXPECT_EQ(one().flags,
              XENPACK_DOMAIN_IS_HVM | XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    const std::string vm = "/vm/" + uuid_text(uuid_of("web"));
    EXPECT_EQ(text("/local/domain/1/name"), "web");
    EXPECT_EQ(text("/local/domain/1/domid"), "1");
    EXPECT_EQ(text("/local/domain/1/vm"), vm);
    EXPECT_EQ(text("/local/domain/1/memory/target"), "262144");
    EXPECT_EQ(text("/local/domain/1/memory/static-max"), "1048576");
    EXPECT_EQ(text(vm + "/memory"), "256");
    EXPECT_EQ(text("/local/domain/0/name"), "Domain-0");
    pass(100);
    EXPECT_EQ(events(), "UNPAUSED 1");
    EXPECT_EQ(one().flags, std::uint32_t{XENPACK_DOMAIN_IS_HVM});
    EXPECT_EQ(one().current_kib, 256 * kMib);
    EXPECT_EQ(one().limit_kib, 257 * kMib);
}

TEST_F(SimWorld, DomainsAreListedInOrderWithDom0First) {
    begin(std::string("[zone a]\nmemory = 64M\ncount = 3\n") + kQuick);
    const auto domains = world_->domains();
    ASSERT_EQ(domains.size(), 4U);
    for (std::uint32_t i = 0; i < domains.size(); ++i) {
        EXPECT_EQ(domains[i].domid, i);
    }
    EXPECT_EQ(domains[0].current_kib, 512 * kMib);
}

TEST_F(SimWorld, TheHostsMemoryIsAccountedFor) {
    begin(std::string("[host]\nmemory = 2G\nxen = 64M\ndom0 = 512M\n[zone web]\nmemory = 256M\n") +
          kQuick);
    const xenpack_host host = world_->host();
    EXPECT_EQ(host.total_kib, 2048 * kMib);
    DomainConfig config;
    config.memory_kib = 256 * kMib;
    EXPECT_EQ(host.free_kib, (2048 - 64 - 512) * kMib - Host::start_cost_kib(config));
    EXPECT_EQ(host.claimed_kib, 0U);
}

TEST_F(SimWorld, AZoneStartsAndEndsWhenItIsTold) {
    begin(std::string("[zone web]\nmemory = 256M\nstart = 1s\nend = 2s\n") + kQuick);
    EXPECT_FALSE(world_->lives());
    EXPECT_EQ(world_->next_step_ms(), 1'000);
    pass(1'000);
    EXPECT_EQ(events(), "CREATED 0, CREATED 1");
    EXPECT_TRUE(world_->lives());
    const std::uint64_t free_before = world_->host().free_kib;
    pass(1'000);
    EXPECT_EQ(events(), "UNPAUSED 1, SHUT_DOWN 1");
    EXPECT_EQ(one().flags & XENPACK_DOMAIN_IS_SHUTDOWN, std::uint32_t{XENPACK_DOMAIN_IS_SHUTDOWN});
    EXPECT_EQ(one().shutdown_reason, 0);
    EXPECT_EQ(world_->host().free_kib, free_before) << "it still holds its memory";
    pass(100);
    EXPECT_EQ(events(), "DIED 1");
    EXPECT_GT(world_->host().free_kib, free_before);
    EXPECT_EQ(text("/local/domain/1"), "(nothing)");
    EXPECT_EQ(world_->domain(1, uuid_of("web")).error().code, ESRCH);
    EXPECT_EQ(world_->next_step_ms(), std::nullopt);
}

TEST_F(SimWorld, ComingsAndGoingsAreAnnounced) {
    int introduced = 0;
    int released = 0;
    int error = 0;
    const auto count = [](void* calls) { ++*static_cast<int*>(calls); };
    store_.watch("@introduceDomain", count, &introduced, &error);
    store_.watch("@releaseDomain", count, &released, &error);
    loop_.run_once();
    begin(std::string("[zone web]\nmemory = 256M\nstart = 200ms\nend = 500ms\n") + kQuick);
    pass(700);
    loop_.run_once();
    EXPECT_EQ(introduced, 2);
    EXPECT_EQ(released, 3) << "when it was set, at the shutdown, at the end";
}

TEST_F(SimWorld, AZoneThatDoesNotFitIsTriedAgainAndSaidOnce) {
    begin(std::string("[host]\nmemory = 1G\ndom0 = 256M\n[zone big]\nmemory = 512M\nend = 3s\n") +
          kQuick + "[zone web]\nmemory = 512M\n" + kQuick);
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_NE(said_[0].find("web cannot start"), std::string::npos);
    EXPECT_EQ(world_->domains().size(), 2U);
    pass(2'500);
    EXPECT_EQ(said_.size(), 1U);
    pass(2'000);
    ASSERT_EQ(world_->domains().size(), 2U);
    EXPECT_EQ(world_->domains()[1].domid, 2U) << "a domid is not used again";
}

TEST_F(SimWorld, AReportComesWithTheBootAndReads) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\nheartbeat = 1s\n") + kQuick);
    const std::string path = "/local/domain/1/" + std::string(kReportPath);
    pass(200);
    EXPECT_EQ(text(path), "(nothing)");
    pass(200);
    const auto first = parse_report(text(path));
    ASSERT_TRUE(first) << first.error().what;
    EXPECT_EQ(first->why, ReportWhy::start);
    EXPECT_EQ(first->sequence, 1U);
    EXPECT_EQ(first->heartbeat_s, 1U);
    EXPECT_LT(first->total_kib, 256 * kMib);
    EXPECT_GT(first->available_kib, 90 * kMib);
    pass(1'500);
    const auto later = parse_report(text(path));
    ASSERT_TRUE(later);
    EXPECT_GT(later->sequence, 1U);
}

TEST_F(SimWorld, ABurstThatStallsIsReportedAsPressure) {
    begin(
        "[zone web]\nmemory = 128M\nmaxmem = 1G\nbrake = yes\nboot = 200ms\ngenerate = ramp\n"
        "base = 20M\npeak = 600M\nrise-from = 1s\nrise-to = 2s\nlength = 1m\n");
    pass(3'000);
    const auto report = parse_report(text("/local/domain/1/" + std::string(kReportPath)));
    ASSERT_TRUE(report);
    EXPECT_EQ(report->why, ReportWhy::psi);
    EXPECT_GT(report->some_us.value_or(0), 0U);
}

// Its brake keeps more out of reach than there is: what it says of that must be taken all the same.
TEST_F(SimWorld, ATinyZoneWithABrakeIsUnderstood) {
    begin(std::string("[zone a]\nmemory = 64M\nmaxmem = 256M\nbrake = yes\n") + kQuick);
    pass(2'000);
    const auto report = parse_report(text("/local/domain/1/" + std::string(kReportPath)));
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_EQ(report->brake_kib, report->total_kib);
}

TEST_F(SimWorld, AReporterMayBeSilentGarbledOrFlooding) {
    begin(std::string("[zone a]\nmemory = 64M\nreporter = silent\n") + kQuick +
          "[zone b]\nmemory = 64M\nreporter = garbled\n" + kQuick +
          "[zone c]\nmemory = 64M\nreporter = flooding\n" + kQuick);
    int calls = 0;
    int error = 0;
    pass(1'000);
    store_.watch(
        "/local/domain/3/data/xenpack/report", [](void* n) { ++*static_cast<int*>(n); }, &calls,
        &error);
    pass(1'000);
    loop_.run_once();
    EXPECT_EQ(text("/local/domain/1/" + std::string(kReportPath)), "(nothing)");
    EXPECT_FALSE(parse_report(text("/local/domain/2/" + std::string(kReportPath))));
    EXPECT_TRUE(parse_report(text("/local/domain/3/" + std::string(kReportPath))));
    EXPECT_GT(calls, 40);
}

TEST_F(SimWorld, AReporterMayDie) {
    begin(std::string("[zone a]\nmemory = 64M\nreporter = dying\nheartbeat = 1s\n") + kQuick);
    pass(5'000);
    const auto report = parse_report(text("/local/domain/1/" + std::string(kReportPath)));
    ASSERT_TRUE(report);
    EXPECT_EQ(report->why, ReportWhy::start);
}

// It says something else each time, and what no reader takes as well as what each must.
TEST_F(SimWorld, AReporterMayLie) {
    begin(std::string("[zone a]\nmemory = 64M\nreporter = lying\nheartbeat = 1s\n") + kQuick);
    std::set<std::string> said;
    int refused = 0;
    for (int second = 0; second < 20; ++second) {
        pass(1'000);
        const std::string report = text("/local/domain/1/" + std::string(kReportPath));
        if (said.insert(report.substr(report.find(" tot="))).second) {
            refused += parse_report(report) ? 0 : 1;
        }
    }
    EXPECT_GE(said.size(), 7U);
    EXPECT_GE(refused, 2) << "a negative number, and more than there is";
}

TEST_F(SimWorld, ATargetIsWrittenLimitsAndIsFollowed) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\n") + kQuick);
    pass(1'000);
    const auto uuid = uuid_of("web");
    ASSERT_TRUE(world_->set_target(1, uuid, {512 * kMib, 1024 * kMib, false}));
    EXPECT_EQ(text("/local/domain/1/memory/target"), "524288");
    EXPECT_EQ(text("/vm/" + uuid_text(uuid) + "/memory"), "512");
    EXPECT_EQ(one().limit_kib, 513 * kMib);
    pass(1'000);
    EXPECT_EQ(one().current_kib, 512 * kMib);
    ASSERT_TRUE(world_->set_target(1, uuid, {200 * kMib, 1024 * kMib, true}));
    EXPECT_EQ(one().limit_kib, 513 * kMib) << "kept";
    pass(1'000);
    EXPECT_EQ(one().current_kib, 200 * kMib);
    ASSERT_TRUE(world_->set_limit(1, uuid, 200 * kMib));
    EXPECT_EQ(one().limit_kib, 201 * kMib);
}

TEST_F(SimWorld, ARefusedTargetChangesNothing) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\n") + kQuick);
    pass(1'000);
    const auto uuid = uuid_of("web");
    EXPECT_EQ(world_->set_target(1, uuid, {1025 * kMib, 1024 * kMib}).error().code, ERANGE);
    EXPECT_EQ(world_->set_target(1, uuid_of("other"), {200 * kMib, 1024 * kMib}).error().code,
              ESRCH);
    EXPECT_EQ(world_->set_target(2, uuid, {200 * kMib, 1024 * kMib}).error().code, ESRCH);
    EXPECT_EQ(world_->set_limit(2, uuid, 200 * kMib).error().code, ESRCH);
    EXPECT_EQ(world_->set_target(0, {}, {200 * kMib, 1024 * kMib}).error().code, ENOTSUP);
    EXPECT_EQ(text("/local/domain/1/memory/target"), "262144");
    EXPECT_EQ(one().limit_kib, 257 * kMib);
}

TEST_F(SimWorld, ADeadBalloonDoesNotMove) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\nballoon = dead\n") + kQuick);
    pass(1'000);
    ASSERT_TRUE(world_->set_target(1, uuid_of("web"), {512 * kMib, 1024 * kMib}));
    pass(5'000);
    EXPECT_EQ(one().current_kib, 256 * kMib);
}

TEST_F(SimWorld, WhileItIsSavedAZoneIsPausedAndBusy) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\nsave = 1s\nsave-for = 1s\n") +
          kQuick);
    pass(1'000);
    EXPECT_EQ(events(), "CREATED 0, CREATED 1, UNPAUSED 1, PAUSED 1");
    EXPECT_NE(one().flags & XENPACK_DOMAIN_IS_PAUSED, 0U);
    EXPECT_EQ(world_->set_target(1, uuid_of("web"), {512 * kMib, 1024 * kMib}).error().code, EBUSY);
    EXPECT_EQ(world_->set_limit(1, uuid_of("web"), 512 * kMib).error().code, EBUSY);
    EXPECT_EQ(text("/local/domain/1/memory/target"), "262144");
    pass(1'000);
    EXPECT_EQ(events(), "UNPAUSED 1");
    EXPECT_TRUE(world_->set_target(1, uuid_of("web"), {512 * kMib, 1024 * kMib}));
    pass(5'000);
    EXPECT_EQ(events(), "") << "it is saved once";
}

TEST_F(SimWorld, AConfigurationIsAsAtTheStart) {
    begin(std::string("[zone web]\nmemory = 256M\nmaxmem = 1G\n") + kQuick);
    pass(1'000);
    ASSERT_TRUE(world_->set_target(1, uuid_of("web"), {512 * kMib, 1024 * kMib}));
    const auto config = world_->domain_config(1, uuid_of("web"));
    ASSERT_TRUE(config);
    EXPECT_EQ(config->memory_kib, 256 * kMib);
    EXPECT_EQ(config->max_memory_kib, 1024 * kMib);
    EXPECT_EQ(world_->domain_config(0, {}).error().code, ENODATA);
    EXPECT_EQ(world_->domain_config(7, uuid_of("web")).error().code, ESRCH);
}

TEST_F(SimWorld, TheSameNameHasTheSameUuidAndAnotherHasAnother) {
    EXPECT_EQ(uuid_of("web"), uuid_of("web"));
    EXPECT_NE(uuid_of("web-1"), uuid_of("web-2"));
    EXPECT_EQ(uuid_text(uuid_of("web")).size(), 36U);
}

TEST(SimStartCost, IsWhatTheHostTakes) {
    const auto cost = start_cost(
        R"({"c_info": {"type": "pvh", "name": "web", "uuid": "00112233-4455-6677-8899-aabbccddeeff"},
            "b_info": {"max_vcpus": 2, "max_memkb": 1048576, "target_memkb": 262144}})");
    ASSERT_TRUE(cost) << cost.error().what;
    DomainConfig config;
    config.memory_kib = 256 * kMib;
    config.max_memory_kib = 1024 * kMib;
    config.vcpus = 2;
    EXPECT_EQ(cost->memory_kib, 256 * kMib);
    EXPECT_EQ(cost->memory_kib + cost->overhead_kib, Host::start_cost_kib(config));
    EXPECT_EQ(cost->uuid[0], 0x00);
    EXPECT_EQ(cost->uuid[15], 0xff);
}

TEST(SimStartCost, DefaultsAreLibxls) {
    const auto cost = start_cost(R"({"c_info": {}, "b_info": {"max_memkb": 131072,
                       "target_memkb": 18446744073709551615, "shadow_memkb": 65536}})");
    ASSERT_TRUE(cost) << cost.error().what;
    EXPECT_EQ(cost->memory_kib, 128 * kMib);
    EXPECT_EQ(cost->overhead_kib, 65'536U) << "the paging pool that was asked for";
    EXPECT_EQ(cost->uuid[0], 0);
}

TEST(SimStartCost, RefusesWhatIsNoConfiguration) {
    for (const char* text : {
             "",
             "{",
             "[]",
             "7",
             "{}",
             R"({"c_info": {}})",
             R"({"c_info": {}, "b_info": {}})",
             R"({"c_info": [], "b_info": {"max_memkb": 1024}})",
             R"({"c_info": {}, "b_info": {"max_memkb": "1024"}})",
             R"({"c_info": {}, "b_info": {"max_memkb": -1}})",
             R"({"c_info": {}, "b_info": {"max_memkb": 1.5}})",
             R"({"c_info": {}, "b_info": {"max_memkb": 0}})",
             R"({"c_info": {}, "b_info": {"max_memkb": 1024, "target_memkb": 2048}})",
             R"({"c_info": {}, "b_info": {"max_memkb": 1024, "max_vcpus": 99999999999}})",
             R"({"c_info": {"uuid": 7}, "b_info": {"max_memkb": 1024}})",
             R"({"c_info": {"uuid": "00112233445566778899aabbccddeeff"},
                 "b_info": {"max_memkb": 1024}})",
             R"({"c_info": {"uuid": "00112233-4455-6677-8899-aabbccddeef"},
                 "b_info": {"max_memkb": 1024}})",
         }) {
        const auto cost = start_cost(text);
        ASSERT_FALSE(cost) << text;
        EXPECT_EQ(cost.error().code, EINVAL);
    }
}

}  // namespace
}  // namespace xenpack::sim
