// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/balance/balance.h promises of a plan.
#include "watcher/balance/balance.h"

#include <gtest/gtest.h>

#include <random>

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::int64_t kNowMs = 1'000'000;

ZoneView zone(std::uint64_t size_mib, std::uint64_t need_mib) {
    ZoneView z;
    z.target_kib = size_mib * kMib;
    z.floor_kib = 128 * kMib;
    z.ceiling_kib = 1024 * kMib;
    z.quick_need_kib = z.slow_need_kib = need_mib * kMib;
    z.must_kib = need_mib * kMib / 4 * 3;
    z.may_change = z.may_shrink = true;
    return z;
}

HostView host(std::uint64_t free_mib) {
    return {.free_kib = free_mib * kMib, .reserve_kib = 200 * kMib, .emergency_kib = 72 * kMib};
}

Plan plan(const HostView& host, const std::vector<ZoneView>& zones, std::int64_t now_ms) {
    Ledger ledger;
    for (std::size_t i = 0; i < zones.size(); ++i) {
        ledger.put(i, zones[i]);
    }
    return plan(host, ledger, now_ms);
}

std::uint64_t granted(const Plan& p, std::size_t i) {
    for (const Change& c : p.grow) {
        if (c.zone == i) {
            return c.to_kib - c.from_kib;
        }
    }
    return 0;
}

std::uint64_t taken(const Plan& p, std::size_t i) {
    for (const Change& c : p.shrink) {
        if (c.zone == i) {
            return c.from_kib - c.to_kib;
        }
    }
    return 0;
}

// One whose reserve is no more than what no zone is given: nothing is taken along for it.
HostView host_without_reserve(std::uint64_t free_mib) {
    HostView h = host(free_mib);
    h.reserve_kib = h.emergency_kib;
    return h;
}

TEST(Plan, GrowsAtOnceToTheNeed) {
    const Plan p = plan(host(1000), {zone(256, 400)}, kNowMs);
    EXPECT_EQ(granted(p, 0), 144 * kMib);
    EXPECT_TRUE(p.shrink.empty());
}

TEST(Plan, GrowsOnlyWhatIsFreeAndUnpromised) {
    HostView h = host(216);
    h.promised_kib = 100 * kMib;
    const Plan p = plan(h, {zone(256, 800)}, kNowMs);
    EXPECT_EQ(granted(p, 0), 100 * kMib);
    EXPECT_EQ(p.state, HostState::shortage);
    EXPECT_EQ(p.waiting_kib, 444 * kMib);
}

TEST(Plan, CountsWhatIsStillToComeToAGrowingZone) {
    std::vector<ZoneView> zones{zone(500, 500), zone(256, 800)};
    zones[0].pending_kib = 100 * kMib;
    EXPECT_EQ(granted(plan(host(216), zones, kNowMs), 1), 100 * kMib);
}

TEST(Plan, SpendsTheEmergencyMemoryOnlyOnZonesInDanger) {
    std::vector<ZoneView> zones{zone(256, 800)};
    zones[0].must_kib = 200 * kMib;
    const Plan at_ease = plan(host(72), zones, kNowMs);
    EXPECT_TRUE(at_ease.grow.empty());
    EXPECT_EQ(at_ease.spendable_kib, 0U);
    zones[0].must_kib = 400 * kMib;
    EXPECT_EQ(granted(plan(host(72), zones, kNowMs), 0), (72 - 16) * kMib);
    zones[0].must_kib = 280 * kMib;
    EXPECT_EQ(granted(plan(host(72), zones, kNowMs), 0), 24 * kMib);
    EXPECT_TRUE(plan(host(16), zones, kNowMs).grow.empty());
}

TEST(Plan, WhereAllFitAtTheirCeilingsAllCanHaveThem) {
    const Plan p = plan(host(2 * 768 + 16), {zone(256, 1024), zone(256, 1024)}, kNowMs);
    EXPECT_EQ(granted(p, 0), 768 * kMib);
    EXPECT_EQ(granted(p, 1), 768 * kMib);
    EXPECT_EQ(p.state, HostState::plenty);
}

TEST(Plan, KeepsFreeWhatTheZonesCouldWantBeyondTheHostAndNoMore) {
    EXPECT_EQ(plan(host(2000), {zone(256, 256)}, kNowMs).reserve_kib, 16 * kMib);
    EXPECT_EQ(plan(host(768 - 100), {zone(256, 256)}, kNowMs).reserve_kib, 100 * kMib);
    EXPECT_EQ(plan(host(768 - 400), {zone(256, 256)}, kNowMs).reserve_kib, 200 * kMib);
    EXPECT_EQ(plan(host(768 - 40), {zone(256, 1024)}, kNowMs).spendable_kib, (768 - 80) * kMib);
}

TEST(Plan, NeverGrowsOverTheCeiling) {
    const Plan p = plan(host(4000), {zone(1000, 3000)}, kNowMs);
    EXPECT_EQ(granted(p, 0), 24 * kMib);
    EXPECT_EQ(p.waiting_kib, 0U);
    EXPECT_NE(p.grow[0].reason.find("ceiling"), std::string::npos);
}

TEST(Plan, DividesByWeightWhatIsNotEnough) {
    std::vector<ZoneView> zones{zone(256, 800), zone(256, 800)};
    zones[0].weight = 300;
    const Plan p = plan(host(416), zones, kNowMs);
    EXPECT_EQ(granted(p, 0), 300 * kMib);
    EXPECT_EQ(granted(p, 1), 100 * kMib);
}

TEST(Plan, GivesTheRestOfASmallWishToTheOthers) {
    std::vector<ZoneView> zones{zone(256, 276), zone(256, 900)};
    zones[0].must_kib = 276 * kMib;
    zones[1].must_kib = 900 * kMib;
    const Plan p = plan(host(416), zones, kNowMs);
    EXPECT_EQ(granted(p, 0), 20 * kMib);
    EXPECT_EQ(granted(p, 1), 380 * kMib);
}

TEST(Plan, TakesNothingWhileThereIsPlenty) {
    const Plan p = plan(host(1000), {zone(900, 150), zone(900, 150)}, kNowMs);
    EXPECT_TRUE(p.shrink.empty());
    EXPECT_EQ(p.state, HostState::plenty);
    EXPECT_FALSE(p.look_again_ms);
}

TEST(Plan, UnderTheReserveTakesLittleAtATime) {
    const Plan p = plan(host(100), {zone(800, 200)}, kNowMs);
    EXPECT_EQ(p.state, HostState::tight);
    EXPECT_GT(taken(p, 0), 0U);
    EXPECT_LE(taken(p, 0), 800 * kMib / 100 * kSlowShrinkPercent);
}

TEST(Plan, UnderHalfTheReserveTakesAtOnceWhatIsNotNeededNow) {
    std::vector<ZoneView> zones{zone(800, 200)};
    zones[0].ceiling_kib = 4096 * kMib;
    zones[0].slow_need_kib = 780 * kMib;
    zones[0].last_shrink_ms = kNowMs - 500;
    HostView h = host(80);
    h.reserve_kib = 600 * kMib;
    EXPECT_GE(taken(plan(h, zones, kNowMs), 0), 220 * kMib);
    h.reserve_kib = 140 * kMib;
    EXPECT_EQ(taken(plan(h, zones, kNowMs), 0), 0U);
}

TEST(Plan, UnderTheReserveLetsAZoneRestBetweenSteps) {
    std::vector<ZoneView> zones{zone(800, 200)};
    zones[0].last_shrink_ms = kNowMs - 500;
    const Plan p = plan(host(100), zones, kNowMs);
    EXPECT_TRUE(p.shrink.empty());
    EXPECT_TRUE(p.look_again_ms);
}

TEST(Plan, ForAWaitingZoneLeavesDonorsAQuarterOfWhatTheyCanSpare) {
    const Plan p = plan(host(72), {zone(256, 1500), zone(900, 200), zone(700, 200)}, kNowMs);
    EXPECT_EQ(p.state, HostState::shortage);
    EXPECT_EQ(taken(p, 1), 525 * kMib);
    EXPECT_EQ(p.look_again_ms, kNowMs + kConfirmEveryMs);
}

TEST(Plan, AsksAsFewDonorsAsWillDo) {
    const Plan p =
        plan(host_without_reserve(72), {zone(256, 400), zone(900, 200), zone(700, 200)}, kNowMs);
    EXPECT_EQ(taken(p, 1), 144 * kMib);
    EXPECT_EQ(taken(p, 2), 0U);
}

TEST(Plan, LeavesARecentPeakToItsZoneUnlessAnotherWaits) {
    std::vector<ZoneView> zones{zone(900, 200)};
    zones[0].slow_need_kib = 880 * kMib;
    EXPECT_LE(taken(plan(host(100), zones, kNowMs), 0), 20 * kMib);
    zones.push_back(zone(256, 1000));
    EXPECT_GE(taken(plan(host(72), zones, kNowMs), 0), 350 * kMib);
}

TEST(Plan, TakesAPageCacheInUseSlowlyWhileNoOneIsInDanger) {
    std::vector<ZoneView> zones{zone(256, 300), zone(900, 900)};
    zones[0].must_kib = 256 * kMib;
    zones[0].stalled = true;
    zones[1].must_kib = 400 * kMib;
    zones[1].calm_ms = kCalmMs;
    EXPECT_EQ(taken(plan(host_without_reserve(72), zones, kNowMs), 1),
              44 * kMib);  // all that is waited for
    zones[0].quick_need_kib = 500 * kMib;
    EXPECT_EQ(taken(plan(host_without_reserve(72), zones, kNowMs), 1), 500 * kMib / kCacheTryPart);
    zones[1].calm_ms = kCalmMs - 1;  // it has stalled not long ago: enough was tried
    EXPECT_EQ(taken(plan(host_without_reserve(72), zones, kNowMs), 1), 0U);
    zones[1].calm_ms = kCalmMs;
    zones[1].last_shrink_ms = kNowMs - kSlowShrinkEveryMs / 2;
    EXPECT_EQ(taken(plan(host_without_reserve(72), zones, kNowMs), 1), 0U);
}

TEST(Plan, TakesNoPageCacheInUseForZonesThatNeitherStallNorAreInDanger) {
    std::vector<ZoneView> zones{zone(256, 500), zone(900, 900)};
    zones[0].must_kib = 256 * kMib;
    zones[1].must_kib = 400 * kMib;
    zones[1].calm_ms = kCalmMs;
    const Plan p = plan(host(72), zones, kNowMs);
    EXPECT_EQ(p.waiting.size(), 1U);
    EXPECT_EQ(taken(p, 1), 0U);
}

TEST(Plan, AZoneDoesNotTakeBackTheCacheItWasAskedToGive) {
    std::vector<ZoneView> zones{zone(900, 900)};
    zones[0].ceiling_kib = 4096 * kMib;
    zones[0].must_kib = 400 * kMib;
    zones[0].kept_cache_kib = 450 * kMib;
    zones[0].target_kib = 800 * kMib;  // as it was just told
    zones[0].leaving_kib = 100 * kMib;
    zones[0].still_its_own_kib = zones[0].leaving_kib;
    EXPECT_EQ(granted(plan(host(150), zones, kNowMs), 0), 0U);
    zones[0].kept_cache_kib = 0;  // it misses it
    EXPECT_EQ(granted(plan(host(150), zones, kNowMs), 0), 100 * kMib);
}

TEST(Plan, TakesAPageCacheInUseAtOnceForAZoneInDanger) {
    std::vector<ZoneView> zones{zone(256, 800), zone(900, 900)};
    zones[1].must_kib = 400 * kMib;
    zones[1].last_shrink_ms = kNowMs - kSlowShrinkEveryMs / 2;
    EXPECT_GE(taken(plan(host(72), zones, kNowMs), 1), 250 * kMib);
}

TEST(Plan, GrantsWhatZonesMustHaveBeforeWhatPutsThemAtEase) {
    std::vector<ZoneView> zones{zone(256, 400), zone(256, 400)};
    zones[0].must_kib = 356 * kMib;
    zones[1].must_kib = 200 * kMib;
    const Plan p = plan(host(172), zones, kNowMs);
    EXPECT_EQ(granted(p, 0), 100 * kMib);
    EXPECT_EQ(granted(p, 1), 0U);
}

TEST(Plan, GrowsToItsRecentPeakOnlyOutOfPlenty) {
    std::vector<ZoneView> zones{zone(256, 300)};
    zones[0].slow_need_kib = 400 * kMib;
    EXPECT_EQ(granted(plan(host(1000), zones, kNowMs), 0), 144 * kMib);
    EXPECT_EQ(granted(plan(host(200), zones, kNowMs), 0), 44 * kMib);
}

TEST(Plan, KeepsTheStartReserveFromAllButTheStalled) {
    HostView h = host(272);
    h.start_reserve_kib = 150 * kMib;
    std::vector<ZoneView> zones{zone(256, 800)};
    zones[0].must_kib = 200 * kMib;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 50 * kMib);
    zones[0].stalled = true;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 200 * kMib);
}

TEST(Plan, TakesForAStartThatWaits) {
    HostView h = host_without_reserve(72);
    h.wanted_by_starts_kib = 300 * kMib;
    const Plan p = plan(h, {zone(900, 200)}, kNowMs);
    EXPECT_EQ(p.state, HostState::shortage);
    EXPECT_EQ(taken(p, 0), 300 * kMib);
    EXPECT_NE(p.shrink[0].reason.find("a start waits for 300 MiB"), std::string::npos);
}

TEST(Plan, LeavesTheFirstForkThatIsHeldWhatItNeedsBeforeAZoneThatStalls) {
    HostView h = host(272);
    std::vector<ZoneView> zones{zone(256, 800)};
    zones[0].must_kib = 200 * kMib;
    zones[0].stalled = true;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 200 * kMib);
    h.wanted_by_forks_kib = h.wanted_by_waiting_forks_kib = 100 * kMib;
    h.wanted_by_first_fork_kib = 40 * kMib;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 160 * kMib);
    zones[0].must_kib = 700 * kMib;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), (272 - 16) * kMib) << "it is in danger";
}

TEST(Plan, LeavesForksThatAreHeldWhatTheyNeedBeforeAZoneGetsHeadroom) {
    HostView h = host(272);
    std::vector<ZoneView> zones{zone(256, 456)};
    zones[0].must_kib = 256 * kMib;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 200 * kMib);
    h.wanted_by_forks_kib = h.wanted_by_waiting_forks_kib = 100 * kMib;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 100 * kMib);
    h.wanted_by_waiting_forks_kib = 0;
    EXPECT_EQ(granted(plan(h, zones, kNowMs), 0), 200 * kMib) << "none of them waits";
}

TEST(Plan, TakesForForksThatWantMoreThanIsFree) {
    HostView h = host_without_reserve(72 + 60);
    h.wanted_by_forks_kib = 100 * kMib;
    const Plan p = plan(h, {zone(900, 200)}, kNowMs);
    EXPECT_EQ(p.state, HostState::shortage);
    EXPECT_EQ(taken(p, 0), 40 * kMib);
    EXPECT_NE(p.shrink[0].reason.find("forks wait for 40 MiB"), std::string::npos);
}

TEST(Plan, DoesNotTakeAgainWhatIsAlreadyLeaving) {
    std::vector<ZoneView> zones{zone(256, 512), zone(500, 200), zone(900, 200)};
    zones[1].leaving_kib = 300 * kMib;
    zones[1].still_its_own_kib = zones[1].leaving_kib;
    zones[1].may_shrink = false;
    EXPECT_TRUE(plan(host_without_reserve(72), zones, kNowMs).shrink.empty());
}

TEST(Plan, TakesWhatTheReserveLacksAlongWithWhatIsWaitedFor) {
    const Plan p = plan(host(72), {zone(256, 400), zone(900, 200)}, kNowMs);
    EXPECT_EQ(taken(p, 1), (144 + 200 - 72) * kMib);
}

TEST(Plan, TakesNothingForTheReserveOfAZoneThatWasGrownJustNow) {
    std::vector<ZoneView> zones{zone(800, 200)};
    zones[0].last_grow_ms = kNowMs - kGrownRestMs + 1;
    EXPECT_TRUE(plan(host(100), zones, kNowMs).shrink.empty());
    EXPECT_TRUE(plan(host(72), zones, kNowMs).shrink.empty());
    zones[0].last_grow_ms = kNowMs - kGrownRestMs;
    EXPECT_FALSE(plan(host(100), zones, kNowMs).shrink.empty());
}

TEST(Plan, TakesFromTheLighterFirst) {
    std::vector<ZoneView> zones{zone(256, 400), zone(900, 200), zone(500, 200)};
    zones[1].weight = 400;
    const Plan p = plan(host_without_reserve(72), zones, kNowMs);
    EXPECT_EQ(taken(p, 1), 0U);
    EXPECT_EQ(taken(p, 2), 144 * kMib);
}

TEST(Plan, LeavesAloneWhoMayNotChange) {
    std::vector<ZoneView> zones{zone(256, 1000), zone(900, 200), zone(100, 900)};
    zones[1].may_change = zones[1].may_shrink = false;
    zones[2].may_change = zones[2].may_shrink = false;
    const Plan p = plan(host(72), zones, kNowMs);
    EXPECT_TRUE(p.shrink.empty());
    EXPECT_EQ(granted(p, 2), 0U);
}

TEST(Plan, TakesNothingFromAStalledZone) {
    std::vector<ZoneView> zones{zone(256, 1000), zone(900, 200)};
    zones[1].stalled = true;
    EXPECT_TRUE(plan(host(72), zones, kNowMs).shrink.empty());
}

TEST(Plan, TakesNothingOfUnknownNeed) {
    EXPECT_TRUE(plan(host(72), {zone(256, 1000), zone(900, 0)}, kNowMs).shrink.empty());
}

TEST(Plan, APinIsMetBothWays) {
    std::vector<ZoneView> zones{zone(256, 900), zone(600, 100)};
    zones[0].pin_kib = 300 * kMib;
    zones[1].pin_kib = 512 * kMib;
    const Plan p = plan(host(1000), zones, kNowMs);
    EXPECT_EQ(granted(p, 0), 44 * kMib);
    EXPECT_EQ(taken(p, 1), 88 * kMib);
}

TEST(Plan, AZoneUnderItsFloorIsRaised) {
    std::vector<ZoneView> zones{zone(100, 60)};
    EXPECT_EQ(granted(plan(host(1000), zones, kNowMs), 0), 28 * kMib);
}

TEST(Plan, TakingBackAShrinkUnderWayCostsNothing) {
    std::vector<ZoneView> zones{zone(400, 480)};
    zones[0].leaving_kib = 80 * kMib;
    zones[0].still_its_own_kib = zones[0].leaving_kib;
    const Plan p = plan(host(0), zones, kNowMs);
    EXPECT_EQ(granted(p, 0), 80 * kMib);
    EXPECT_EQ(p.waiting_kib, 0U);
}

TEST(Plan, LeavesToStartsAllThatZonesWereNotGivenOfWhatIsFree) {
    std::vector<ZoneView> zones{zone(400, 480), zone(256, 320)};
    zones[0].leaving_kib = 80 * kMib;  // its own: it only stays
    zones[0].still_its_own_kib = zones[0].leaving_kib;
    const Plan p = plan(host(272), zones, kNowMs);
    EXPECT_EQ(granted(p, 0), 80 * kMib);
    EXPECT_EQ(granted(p, 1), 64 * kMib);
    EXPECT_EQ(p.spendable_kib, 200 * kMib);
    EXPECT_EQ(p.left_kib, 136 * kMib);
}

TEST(Plan, WhatIsTakenBackIsNoLongerOnItsWayToOthers) {
    std::vector<ZoneView> zones{zone(400, 480), zone(256, 512), zone(900, 200)};
    zones[0].leaving_kib = 80 * kMib;
    zones[0].still_its_own_kib = zones[0].leaving_kib;
    EXPECT_GE(taken(plan(host(72), zones, kNowMs), 2), 256 * kMib);
}

TEST(Plan, AZoneThatWaitsIsLookedAfterThoughNothingMoves) {
    EXPECT_EQ(plan(host(0), {zone(256, 800)}, kNowMs).look_again_ms, kNowMs + 2000);
}

TEST(Plan, AWishThatIsNotWholePagesIsNeverWaitedFor) {
    std::vector<ZoneView> zones{zone(256, 259), zone(900, 200)};
    zones[0].target_kib += 1;
    zones[0].quick_need_kib += 3;
    zones[0].floor_kib = 262 * kMib;
    const Plan p = plan(host(4000), zones, kNowMs);
    EXPECT_GT(granted(p, 0), 0U);
    EXPECT_EQ(p.waiting_kib, 0U);
    EXPECT_TRUE(p.shrink.empty());
}

TEST(Plan, AZoneOverItsCeilingComesDownByAndBy) {
    const Plan p = plan(host(1000), {zone(1500, 400)}, kNowMs);
    EXPECT_EQ(taken(p, 0), 1500 * kMib / 100 * kSlowShrinkPercent);
}

TEST(Plan, EachChangeHasAReason) {
    const Plan p = plan(host(100), {zone(256, 1000), zone(900, 200)}, kNowMs);
    ASSERT_FALSE(p.grow.empty());
    ASSERT_FALSE(p.shrink.empty());
    EXPECT_NE(p.grow[0].reason.find("must come from other zones"), std::string::npos);
    EXPECT_NE(p.shrink[0].reason.find("other zones wait"), std::string::npos);
}

ZoneView random_zone(std::mt19937& random) {
    const auto any = [&](std::uint64_t most) {
        return std::uniform_int_distribution<std::uint64_t>(0, most)(random);
    };
    ZoneView z = zone(any(1500), any(2000));
    z.floor_kib = any(600) * kMib;
    z.ceiling_kib = any(1600) * kMib;
    z.quick_need_kib = z.must_kib + any(300) * kMib;
    z.slow_need_kib = z.quick_need_kib + any(500) * kMib;
    z.weight = static_cast<unsigned>(1 + any(1000));
    z.stalled = any(3) == 0;
    z.may_change = any(4) != 0;
    z.may_shrink = z.may_change && any(2) != 0;
    z.pending_kib = any(2) == 0 ? any(100) * kMib : 0;
    z.leaving_kib = z.pending_kib == 0 && any(2) == 0 ? any(100) * kMib : 0;
    z.still_its_own_kib = z.leaving_kib;
    if (any(5) == 0) {
        z.pin_kib = any(1500) * kMib;
    }
    return z;
}

// The promises of the header, on any input.
TEST(Plan, KeepsItsPromisesOnAnyInput) {
    std::mt19937 random(20261130);
    for (int round = 0; round < 20'000; ++round) {
        std::vector<ZoneView> zones(1 + random() % 8);
        std::uint64_t pending = 0;
        for (ZoneView& z : zones) {
            z = random_zone(random);
            pending += z.pending_kib;
        }
        HostView h = host(random() % 3000);
        h.promised_kib = random() % 300 * kMib;
        h.start_reserve_kib = random() % 300 * kMib;
        h.wanted_by_starts_kib = random() % 2 * (random() % 300) * kMib;
        const Plan p = plan(h, zones, kNowMs);
        std::uint64_t spent = 0;
        bool beyond_must = false;
        for (const Change& c : p.grow) {
            const ZoneView& z = zones[c.zone];
            const std::uint64_t own = z.leaving_kib;
            spent += c.to_kib - c.from_kib - std::min(own, c.to_kib - c.from_kib);
            beyond_must = beyond_must || c.to_kib > c.from_kib + own + wish_of(z).must_kib;
            ASSERT_GT(c.to_kib, c.from_kib);
            ASSERT_TRUE(zones[c.zone].may_change);
            ASSERT_LE(c.to_kib, zones[c.zone].ceiling_kib);
        }
        if (spent > 0) {
            const std::uint64_t kept = beyond_must ? p.emergency_kib : kEmergencyLeastKib;
            ASSERT_LE(spent + pending + h.promised_kib + kept, h.free_kib);
        }
        if (p.emergency_kib < h.emergency_kib) {
            std::uint64_t wanted = h.wanted_by_starts_kib;
            for (const ZoneView& z : zones) {
                wanted += z.ceiling_kib - std::min(z.ceiling_kib, z.target_kib);
            }
            const std::uint64_t left = h.free_kib - std::min(h.free_kib, pending + h.promised_kib);
            ASSERT_LE(wanted, left + p.emergency_kib);
            ASSERT_GE(p.emergency_kib, kEmergencyLeastKib);
        }
        for (const Change& c : p.shrink) {
            const ZoneView& z = zones[c.zone];
            ASSERT_LT(c.to_kib, c.from_kib);
            ASSERT_TRUE(z.may_shrink);
            ASSERT_GE(c.to_kib, std::min(z.floor_kib, z.ceiling_kib));
            if (c.why == ChangeWhy::reserve) {
                const bool urgent =
                    h.free_kib < h.reserve_kib / 2 + pending + h.promised_kib + spent;
                ASSERT_GE(c.to_kib, urgent ? z.quick_need_kib : z.slow_need_kib);
            }
            if (c.why == ChangeWhy::give || c.why == ChangeWhy::reserve) {
                ASSERT_GE(c.to_kib, z.must_kib);
                ASSERT_FALSE(z.stalled);
            }
        }
    }
}

TEST(LearnedReserve, IsTheWorstBurstAndPartsOfTheNextWithinBounds) {
    Ledger ledger;
    const std::uint64_t host_kib = 10'000 * kMib;
    EXPECT_EQ(learned_reserve_kib(ledger, host_kib), host_kib / 100 * kLearnedReserveMinPercent);
    for (std::size_t i = 0; i < 6; ++i) {
        ZoneView z = zone(256, 200);
        z.burst_kib = (i + 1) * 64 * kMib;
        ledger.put(i, z);
    }
    EXPECT_EQ(learned_reserve_kib(ledger, host_kib), (384 + 320 / 2 + 256 / 4 + 192 / 8) * kMib);
    EXPECT_EQ(learned_reserve_kib(ledger, 1000 * kMib), 100 * kMib);
}

TEST(LearnedReserve, CountsNoBurstThatTheCeilingForbids) {
    Ledger ledger;
    ZoneView z = zone(1000, 900);
    z.burst_kib = 500 * kMib;
    ledger.put(0, z);
    EXPECT_EQ(learned_reserve_kib(ledger, 1000 * kMib), 24 * kMib);
}

TEST(Ledger, IsTheSameWhateverCameBefore) {
    std::mt19937 random(7);
    Ledger lived;
    for (int round = 0; round < 2000; ++round) {
        const Ledger::Slot slot = random() % 12;
        if (random() % 4 == 0) {
            lived.drop(slot);
            continue;
        }
        lived.put(slot, random_zone(random));
        Ledger fresh;
        for (Ledger::Slot s = 0; s < 12; ++s) {
            if (lived.has(s)) {
                fresh.put(s, lived.view(s));
            }
        }
        ASSERT_EQ(lived.size(), fresh.size());
        ASSERT_EQ(lived.pending_kib(), fresh.pending_kib());
        ASSERT_EQ(lived.leaving_kib(), fresh.leaving_kib());
        ASSERT_EQ(lived.moving(), fresh.moving());
        ASSERT_EQ(lived.fading(), fresh.fading());
        ASSERT_EQ(lived.wishing(), fresh.wishing());
        ASSERT_EQ(lived.over_limits(), fresh.over_limits());
        ASSERT_EQ(lived.bursts(), fresh.bursts());
        for (const Keep keep : {Keep::slow, Keep::quick, Keep::must}) {
            ASSERT_EQ(lived.donors(keep), fresh.donors(keep));
        }
    }
}

TEST(FloorForSize, GrowsWithSizeAndStaysBelowIt) {
    std::uint64_t before = 0;
    for (std::uint64_t size_mib = 64; size_mib < 300'000; size_mib += 64) {
        const std::uint64_t floor = floor_for_size_kib(size_mib * kMib);
        EXPECT_GE(floor + 2 * kMib, before) << size_mib;
        EXPECT_LT(floor, size_mib * kMib) << size_mib;
        before = floor;
    }
}

}  // namespace
}  // namespace xenpack
