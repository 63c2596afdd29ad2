// SPDX-License-Identifier: LGPL-2.1-or-later
// The brake's limit and when it is lifted: the promises of brake.h, on zones made of numbers.
#include "watcher/guest/brake.h"

#include <gtest/gtest.h>

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kMib = 1024;

// A zone of 256 MiB unless grown: 20 MiB are used outside the group, the rest is the group's or
// free or cache outside of the group. margin is 16 MiB.
struct Zone {
    std::uint64_t total_mib = 256;
    std::uint64_t usage_mib = 100;
    std::uint64_t cache_mib = 0;
    std::uint64_t now_ms = 1000;
    std::uint64_t high_events = 0;
    Ceiling ceiling = Ceiling::room;

    [[nodiscard]] Brake::Look look() const {
        Brake::Look look;
        look.now_ms = now_ms;
        look.memory.total_kib = total_mib * kMib;
        look.memory.free_kib = (total_mib - 20 - usage_mib - cache_mib) * kMib;
        look.memory.available_kib = look.memory.free_kib + cache_mib * kMib;
        look.usage_before_kib = usage_mib * kMib;
        look.usage_after_kib = usage_mib * kMib;
        look.high_events = high_events;
        look.ceiling = ceiling;
        return look;
    }

    // The group allocates up to the limit and is slowed: the kernel counts.
    void push(const Brake& brake) {
        usage_mib = brake.limit_kib().value_or(0) / kMib + 1;
        ++high_events;
    }

    // Slowed all the time, looked at ten times a second, for this long; the state at the end.
    BrakeState slowed_for(Brake& brake, std::uint64_t ms) {
        const std::uint64_t end_ms = now_ms + ms;
        while (now_ms < end_ms) {
            now_ms += 100;
            ++high_events;
            brake.look(look());
        }
        return brake.state();
    }
};

Brake armed(const Zone& zone) {
    Brake brake(std::nullopt);
    EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
    return brake;
}

Brake holding(Zone& zone) {
    Brake brake = armed(zone);
    zone.push(brake);
    zone.now_ms += 100;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::holding);
    return brake;
}

TEST(Brake, LimitIsWhatTheZoneHasLessTheMargin) {
    EXPECT_EQ(armed(Zone{}).limit_kib(), (256 - 20 - 16) * kMib);
}

TEST(Brake, MarginOfALargeZoneIsASixteenth) {
    Zone zone;
    zone.total_mib = 1024;
    EXPECT_EQ(armed(zone).limit_kib(), (1024 - 20 - 64) * kMib);
}

TEST(Brake, AtRestItDoesNotBind) {
    const Zone zone;
    EXPECT_GT(armed(zone).limit_kib(), zone.usage_mib * kMib + 100 * kMib);
}

TEST(Brake, TheGroupsOwnAllocationsDoNotMoveTheLimit) {
    Zone zone;
    Brake brake = armed(zone);
    const auto limit = brake.limit_kib();
    for (zone.usage_mib = 100; zone.usage_mib < 230; ++zone.usage_mib) {
        zone.now_ms += 100;
        brake.look(zone.look());
        EXPECT_EQ(brake.limit_kib(), limit);
    }
}

TEST(Brake, LimitFollowsTheBalloonBothWays) {
    Zone zone;
    Brake brake = armed(zone);
    zone.total_mib = 300;
    brake.look(zone.look());
    EXPECT_EQ(brake.limit_kib(), (300 - 20) * kMib - 300 * kMib / 16);
    zone.total_mib = 200;
    brake.look(zone.look());
    EXPECT_EQ(brake.limit_kib(), (200 - 20 - 16) * kMib);
}

TEST(Brake, CacheOutsideIsCountedByHalf) {
    Zone zone;
    zone.cache_mib = 40;
    EXPECT_EQ(armed(zone).limit_kib(), (256 - 20 - 40 + 20 - 16) * kMib);
}

TEST(Brake, MuchCacheOfTheGroupPutsTheLimitOutOfReach) {
    Zone zone;
    zone.usage_mib = 230;  // 100 of them cache: the zone is full, but of what can be dropped
    Brake::Look look = zone.look();
    look.memory.available_kib += 100 * kMib;
    Brake brake(std::nullopt);
    brake.look(look);
    EXPECT_GT(brake.limit_kib(), 256 * kMib);
}

TEST(Brake, AvailableBelowFreeIsTakenAtItsWord) {
    Zone zone;
    Brake::Look look = zone.look();
    look.memory.available_kib -= 10 * kMib;
    Brake brake(std::nullopt);
    brake.look(look);
    EXPECT_EQ(brake.limit_kib(), (256 - 20 - 16 - 10) * kMib);
}

TEST(Brake, SmallMovesLeaveTheLimitAlone) {
    Zone zone;
    Brake brake = armed(zone);
    Brake::Look look = zone.look();
    look.usage_before_kib = look.usage_after_kib += kMib - 1;
    brake.look(look);
    EXPECT_EQ(brake.limit_kib(), (256 - 20 - 16) * kMib);
    look.usage_before_kib = look.usage_after_kib += 1;
    brake.look(look);
    EXPECT_EQ(brake.limit_kib(), (256 - 20 - 16 + 1) * kMib);
}

// A reporter that has to wait for the processor reads what belongs together at different times.
TEST(Brake, WhatTheGroupTookWhileItWasLookedAtIsNotCountedTwice) {
    Zone zone;
    Brake::Look look = zone.look();  // before it took 80 MiB
    look.usage_after_kib += 80 * kMib;
    Brake brake(std::nullopt);
    brake.look(look);
    EXPECT_EQ(brake.limit_kib(), (256 - 20 - 16) * kMib);
}

TEST(Brake, WhatTheGroupGaveWhileItWasLookedAtIsNotCountedTwice) {
    Zone zone;
    Brake::Look look = zone.look();
    look.usage_before_kib += 80 * kMib;
    Brake brake(std::nullopt);
    brake.look(look);
    EXPECT_EQ(brake.limit_kib(), (256 - 20 - 16) * kMib);
}

TEST(Brake, LimitIsNeverUnderSevenEighthsOfTheUsage) {
    Zone zone;
    zone.usage_mib = 80;
    Brake::Look look = zone.look();
    look.memory.free_kib = 0;
    look.memory.available_kib = 0;
    Brake brake(std::nullopt);
    brake.look(look);
    EXPECT_EQ(brake.limit_kib(), 70 * kMib);
}

TEST(Brake, AnOwnLowerLimitIsNotRaised) {
    Brake brake(150 * kMib);
    brake.look(Zone{}.look());
    EXPECT_EQ(brake.limit_kib(), 150 * kMib);
}

TEST(Brake, HoldsWhenTheKernelSlowsTheGroup) {
    Zone zone;
    EXPECT_TRUE(holding(zone).limit_kib());
}

TEST(Brake, CountsOfBeforeTheBrakeAreNotTakenForHolding) {
    Zone zone;
    zone.high_events = 1000;
    Brake brake = armed(zone);
    zone.now_ms += 100;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
}

TEST(Brake, ArmedAgainWhenNobodyIsSlowedAnyMore) {
    Zone zone;
    Brake brake = holding(zone);
    zone.now_ms += kHeldWindowMs;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::holding);
    zone.now_ms += 1;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
    EXPECT_TRUE(brake.limit_kib());
}

TEST(Brake, FullButAtRestStaysBrakedForEver) {
    Zone zone;
    Brake brake = armed(zone);
    zone.usage_mib = 235;
    for (int minute = 0; minute < 60; ++minute) {
        zone.now_ms += 60'000;
        EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
        EXPECT_TRUE(brake.limit_kib());
    }
}

TEST(Brake, LiftedWhenNoMemoryCameInTime) {
    Zone zone;
    Brake brake = holding(zone);
    EXPECT_EQ(zone.slowed_for(brake, kBrakeDeadlineMs - 100), BrakeState::holding);
    EXPECT_EQ(zone.slowed_for(brake, 100), BrakeState::lifted_in_vain);
    EXPECT_FALSE(brake.limit_kib());
}

TEST(Brake, StaysLiftedWhileNothingChanges) {
    Zone zone;
    Brake brake = holding(zone);
    zone.slowed_for(brake, kBrakeDeadlineMs);
    EXPECT_EQ(zone.slowed_for(brake, 60'000), BrakeState::lifted_in_vain);
    EXPECT_FALSE(brake.limit_kib());
}

TEST(Brake, GrowthStartsTheDeadlineAnew) {
    Zone zone;
    Brake brake = holding(zone);
    EXPECT_EQ(zone.slowed_for(brake, 9'000), BrakeState::holding);
    zone.total_mib += 4;
    EXPECT_EQ(zone.slowed_for(brake, 9'000), BrakeState::holding);
    EXPECT_EQ(zone.slowed_for(brake, 2'000), BrakeState::lifted_in_vain);
}

TEST(Brake, ShrinkingIsNotGrowth) {
    Zone zone;
    Brake brake = holding(zone);
    EXPECT_EQ(zone.slowed_for(brake, 5'000), BrakeState::holding);
    zone.total_mib -= 1;
    EXPECT_EQ(zone.slowed_for(brake, 5'100), BrakeState::lifted_in_vain);
}

TEST(Brake, GrowthRaisesTheLimitOfAHeldGroup) {
    Zone zone;
    Brake brake = holding(zone);
    const std::uint64_t before = brake.limit_kib().value_or(0);
    zone.total_mib += 8;
    zone.now_ms += 100;
    brake.look(zone.look());
    EXPECT_GE(brake.limit_kib(), before + 7 * kMib);
}

TEST(Brake, BrakesAgainWhenMemoryCameAfterAll) {
    Zone zone;
    Brake brake = holding(zone);
    zone.slowed_for(brake, kBrakeDeadlineMs);
    zone.now_ms += 100;
    zone.total_mib += 4;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
    EXPECT_TRUE(brake.limit_kib());
}

TEST(Brake, BrakesAgainWhenTheWorkloadGaveWay) {
    Zone zone;
    Brake brake = holding(zone);
    zone.slowed_for(brake, kBrakeDeadlineMs);
    zone.now_ms += 100;
    zone.usage_mib = 256 - 20 - 31;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::lifted_in_vain);
    zone.usage_mib = 256 - 20 - 32;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
}

TEST(Brake, NoBrakeAtTheCeiling) {
    Zone zone;
    zone.ceiling = Ceiling::reached;
    Brake brake(std::nullopt);
    EXPECT_EQ(brake.look(zone.look()), BrakeState::lifted_at_ceiling);
    EXPECT_FALSE(brake.limit_kib());
}

TEST(Brake, AtTheCeilingItWaitsForMemoryOnItsWay) {
    Zone zone;
    Brake brake = holding(zone);
    zone.total_mib += 4;
    zone.ceiling = Ceiling::reached;
    EXPECT_EQ(zone.slowed_for(brake, kCeilingSettleMs), BrakeState::holding);
    EXPECT_EQ(zone.slowed_for(brake, 100), BrakeState::lifted_at_ceiling);
    EXPECT_FALSE(brake.limit_kib());
}

TEST(Brake, BrakesAgainBelowTheCeiling) {
    Zone zone;
    zone.ceiling = Ceiling::reached;
    Brake brake(std::nullopt);
    brake.look(zone.look());
    zone.ceiling = Ceiling::unknown;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::lifted_at_ceiling);
    zone.ceiling = Ceiling::room;
    EXPECT_EQ(brake.look(zone.look()), BrakeState::armed);
    EXPECT_TRUE(brake.limit_kib());
}

TEST(Brake, WithoutKnowingTheCeilingTheDeadlineHolds) {
    Zone zone;
    zone.ceiling = Ceiling::unknown;
    Brake brake = holding(zone);
    EXPECT_EQ(zone.slowed_for(brake, kBrakeDeadlineMs), BrakeState::lifted_in_vain);
}

TEST(Ceiling, IsReachedWithinAMib) {
    EXPECT_EQ(ceiling_of(262144, 262144), Ceiling::reached);
    EXPECT_EQ(ceiling_of(262144 - 1024, 262144), Ceiling::reached);
    EXPECT_EQ(ceiling_of(262144 - 1025, 262144), Ceiling::room);
    EXPECT_EQ(ceiling_of(300000, 262144), Ceiling::reached);
}

TEST(Ceiling, IsUnknownWithoutEitherKey) {
    EXPECT_EQ(ceiling_of(std::nullopt, 262144), Ceiling::unknown);
    EXPECT_EQ(ceiling_of(262144, std::nullopt), Ceiling::unknown);
}

}  // namespace
}  // namespace xenpack::guest
