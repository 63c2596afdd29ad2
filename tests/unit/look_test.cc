// SPDX-License-Identifier: LGPL-2.1-or-later
// What each look at a host does, whoever takes it: watcher/zones/look.h.
#include "watcher/zones/look.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "watcher/zones/follow.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;

// A toolstack that writes down what it is told, and refuses where it is told to.
struct FakeHands final : Hands {
    bool set_target(Zone&, std::uint64_t target_kib, bool keep_limit) override {
        told.emplace_back(target_kib, keep_limit);
        return !refuses;
    }
    bool set_limit(Zone&, std::uint64_t limit_kib) override {
        limits.push_back(limit_kib);
        return !refuses;
    }
    void change_done(Zone&, const Change& change) override { done.push_back(change.to_kib); }
    void was_stuck(Zone&, std::uint64_t told_kib) override { stuck.push_back(told_kib); }

    bool refuses = false;
    std::vector<std::pair<std::uint64_t, bool>> told;
    std::vector<std::uint64_t> limits;
    std::vector<std::uint64_t> done;
    std::vector<std::uint64_t> stuck;
};

Zone zone_of(std::uint64_t target_kib, std::uint64_t current_kib) {
    Zone zone;
    zone.managed = true;
    zone.target_kib = target_kib;
    zone.static_max_kib = 4096 * kMib;
    zone.domain.current_kib = current_kib;
    zone.domain.limit_kib = target_kib + kMib;
    zone.progress = restarted(zone.progress, target_kib, current_kib, 1);
    zone.pressure.agent = Agent::xenpack;
    zone.pressure.first_ms = zone.pressure.last_ms = 1;
    zone.changed = false;
    return zone;
}

Ledger wanting(std::uint64_t pending_kib) {
    ZoneView view;
    view.target_kib = 512 * kMib;
    view.pending_kib = pending_kib;
    Ledger ledger;
    ledger.put(0, view);
    return ledger;
}

TEST(HostView, ReserveIsNeverLessThanWhatIsKeptFromZones) {
    Config config;
    config.emergency_kib = 72 * kMib;
    config.start_reserve = {100 * kMib, {}};
    const HostFacts host{.total_kib = 8192 * kMib, .free_kib = 1024 * kMib};
    EXPECT_EQ(host_view(host, config, Ledger()).reserve_kib, 172 * kMib);
    config.reserve = {10 * kMib, {}};
    EXPECT_EQ(host_view(host, config, Ledger()).reserve_kib, 172 * kMib);
    config.reserve = {500 * kMib, {}};
    EXPECT_EQ(host_view(host, config, Ledger()).reserve_kib, 500 * kMib);
    config.reserve = {0, 10};
    EXPECT_EQ(host_view(host, config, Ledger()).reserve_kib, 8192 * kMib / 100 * 10);
}

TEST(HostView, WhatIsPromisedToStartsAndFreeNoMoreIsWantedAgain) {
    Config config;
    config.emergency_kib = 72 * kMib;
    HostFacts host{.total_kib = 8192 * kMib, .free_kib = 1000 * kMib};
    host.promised_to_others_kib = 100 * kMib;
    host.promised_to_starts_kib = 300 * kMib;
    host.starts_wait_for_kib = 50 * kMib;
    const Ledger zones = wanting(28 * kMib);
    EXPECT_EQ(host_view(host, config, zones).promised_kib, 400 * kMib);
    EXPECT_EQ(host_view(host, config, zones).wanted_by_starts_kib, 50 * kMib);
    host.free_kib = 460 * kMib;  // 72 + 28 + 400 are spoken for
    EXPECT_EQ(host_view(host, config, zones).wanted_by_starts_kib, 90 * kMib);
    host.free_kib = 0;
    EXPECT_EQ(host_view(host, config, zones).wanted_by_starts_kib, 350 * kMib);
}

// A domain that is no zone, as sync() follows it each second from 1 s on.
class AnothersDomain {
  public:
    explicit AnothersDomain(std::uint64_t target_kib, std::uint64_t current_kib) {
        zone_.target_kib = target_kib;
        zone_.domain.current_kib = current_kib;
        pass_s(1);
    }
    void pass_s(int seconds) {
        for (int i = 0; i < seconds; ++i) {
            now_ms_ += 1'000;
            follow(zone_, now_ms_);
        }
    }
    [[nodiscard]] std::uint64_t still_to_take_mib() const {
        return still_to_take_kib(zone_, now_ms_) / kMib;
    }
    Zone zone_;

  private:
    std::int64_t now_ms_ = 0;
};

TEST(StillToTake, IsWhatItsTargetIsAboveWhatItHoldsAndWasClaimedForIt) {
    AnothersDomain domain(512 * kMib, 300 * kMib);
    EXPECT_EQ(domain.still_to_take_mib(), 212U);
    domain.zone_.domain.claimed_kib = 100 * kMib;
    EXPECT_EQ(domain.still_to_take_mib(), 112U);
    domain.zone_.domain.current_kib = 600 * kMib;
    EXPECT_EQ(domain.still_to_take_mib(), 0U);
    EXPECT_EQ(still_to_take_kib(Zone(), 1), 0U);
}

TEST(StillToTake, EndsWhereItsDriverHasGivenUpAndForGood) {
    AnothersDomain domain(512 * kMib, 300 * kMib);
    domain.pass_s(5);
    EXPECT_EQ(domain.still_to_take_mib(), 212U);
    domain.pass_s(1);
    for (int second = 0; second < 3'600; ++second) {
        EXPECT_EQ(domain.still_to_take_mib(), 0U) << second;
        domain.pass_s(1);
    }
}

TEST(StillToTake, CountsAgainWhileItMovesOrIsToldAnew) {
    AnothersDomain domain(512 * kMib, 300 * kMib);
    domain.pass_s(10);
    ASSERT_EQ(domain.still_to_take_mib(), 0U);
    domain.zone_.domain.current_kib = 400 * kMib;
    domain.pass_s(1);
    EXPECT_EQ(domain.still_to_take_mib(), 112U);
    domain.pass_s(7);
    EXPECT_EQ(domain.still_to_take_mib(), 0U);
    domain.zone_.target_kib = 600 * kMib;
    domain.pass_s(1);
    EXPECT_EQ(domain.still_to_take_mib(), 200U);
    domain.pass_s(7);
    EXPECT_EQ(domain.still_to_take_mib(), 0U);
}

TEST(StillToTake, PausedOrUnbuiltDomainIsWaitedFor) {
    for (const std::uint32_t still : {XENPACK_DOMAIN_IS_PAUSED, XENPACK_DOMAIN_NEVER_RAN}) {
        AnothersDomain domain(512 * kMib, 300 * kMib);
        domain.zone_.domain.flags = still;
        domain.pass_s(600);
        EXPECT_EQ(domain.still_to_take_mib(), 212U);
    }
}

TEST(CarryOut, GrowsAndShrinksAndTells) {
    Zone grows = zone_of(512 * kMib, 512 * kMib);
    Zone shrinks = zone_of(1024 * kMib, 1024 * kMib);
    Plan plan;
    plan.grow.push_back({0, 512 * kMib, 600 * kMib, ChangeWhy::demand, "a"});
    plan.shrink.push_back({1, 1024 * kMib, 900 * kMib, ChangeWhy::give, "b"});
    FakeHands hands;
    carry_out(plan, {&grows, &shrinks}, 7'000, hands);
    using Told = std::vector<std::pair<std::uint64_t, bool>>;
    EXPECT_EQ(hands.told, (Told{{600 * kMib, false}, {900 * kMib, true}}));
    EXPECT_EQ(hands.done, (std::vector<std::uint64_t>{600 * kMib, 900 * kMib}));
    EXPECT_EQ(grows.target_kib, 600 * kMib);
    EXPECT_EQ(grows.last_grow_ms, 7'000);
    EXPECT_EQ(grows.last_shrink_ms, 0);
    EXPECT_EQ(shrinks.target_kib, 900 * kMib);
    EXPECT_EQ(shrinks.last_shrink_ms, 7'000);
    EXPECT_TRUE(grows.changed && shrinks.changed);
}

TEST(CarryOut, RefusedChangeLeavesTheZoneAsItWasAndIsNotTriedAtOnce) {
    Zone grows = zone_of(512 * kMib, 512 * kMib);
    Zone shrinks = zone_of(1024 * kMib, 1024 * kMib);
    Plan plan;
    plan.grow.push_back({0, 512 * kMib, 600 * kMib, ChangeWhy::demand, "a"});
    plan.shrink.push_back({1, 1024 * kMib, 900 * kMib, ChangeWhy::give, "b"});
    FakeHands hands;
    hands.refuses = true;
    carry_out(plan, {&grows, &shrinks}, 7'000, hands);
    EXPECT_TRUE(hands.done.empty());
    for (const Zone* zone : {&grows, &shrinks}) {
        EXPECT_EQ(zone->last_grow_ms, 0);
        EXPECT_EQ(zone->last_shrink_ms, 0);
        EXPECT_EQ(zone->busy_until_ms, 7'000 + kBusyMs);
        EXPECT_EQ(zone->target_kib, zone->progress.target_kib);
    }
    EXPECT_EQ(grows.target_kib, 512 * kMib);
    EXPECT_EQ(shrinks.target_kib, 1024 * kMib);
}

TEST(Prepare, LowersTheLimitOfAZoneThatHasArrived) {
    Zone zone = zone_of(512 * kMib, 512 * kMib);
    zone.domain.limit_kib = 900 * kMib;
    FakeHands hands;
    (void)prepare(zone, {}, Config{}, HostState::plenty, 1'000, hands);
    EXPECT_EQ(hands.limits, std::vector<std::uint64_t>{512 * kMib});
    EXPECT_EQ(zone.busy_until_ms, 0);
    hands.refuses = true;
    const ZoneView view = prepare(zone, {}, Config{}, HostState::plenty, 1'000, hands);
    EXPECT_EQ(zone.busy_until_ms, 1'000 + kBusyMs);
    EXPECT_FALSE(view.may_change);
}

TEST(Prepare, StuckZoneIsToldToStayWhereItIs) {
    Zone zone = zone_of(512 * kMib, 800 * kMib);
    const HostFacts host{.total_kib = 8192 * kMib, .free_kib = 1024 * kMib};
    zone.progress = advance(zone.progress, 512 * kMib, 800 * kMib, 1 + kStuckAfterMs);
    FakeHands hands;
    (void)prepare(zone, host, Config{}, HostState::plenty, 1 + kStuckAfterMs, hands);
    EXPECT_EQ(hands.stuck, std::vector<std::uint64_t>{512 * kMib});
    EXPECT_EQ(zone.target_kib, 800 * kMib);
}

TEST(Prepare, ViewIsTakenAnewSoonerWhereMemoryIsShort) {
    Zone zone = zone_of(512 * kMib, 512 * kMib);
    zone.pressure = {};  // nothing of it changes by time alone
    FakeHands hands;
    (void)prepare(zone, {}, Config{}, HostState::plenty, 1'000, hands);
    EXPECT_EQ(zone.view_until_ms, 1'000 + kCalmViewMs);
    (void)prepare(zone, {}, Config{}, HostState::tight, 1'000, hands);
    EXPECT_EQ(zone.view_until_ms, 1'000 + kTightViewMs);
}

}  // namespace
}  // namespace xenpack
