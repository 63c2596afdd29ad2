// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/balance/progress.h promises: who follows is left in peace, who does not is found
// out.
#include "watcher/balance/progress.h"

#include <gtest/gtest.h>

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;

TEST(Progress, OneThatArrivesIsAtRest) {
    Progress p = advance({}, 300 * kMib, 200 * kMib, 1000);
    EXPECT_EQ(direction(p, 200 * kMib), Direction::growing);
    p = advance(p, 300 * kMib, 300 * kMib, 2000);
    EXPECT_EQ(direction(p, 300 * kMib), Direction::none);
    EXPECT_FALSE(advance(p, 300 * kMib, 300 * kMib, 100'000).stuck(100'000));
}

TEST(Progress, OneThatMovesSlowlyIsNotStuck) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    for (std::int64_t i = 1; i <= 20; ++i) {
        p = advance(p, 300 * kMib, (500 - static_cast<std::uint64_t>(i) * 3) * kMib, i * 5000);
        EXPECT_FALSE(p.stuck(i * 5000));
    }
}

TEST(Progress, OneThatNeverMovesIsStuckAfterSixSeconds) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    p = advance(p, 300 * kMib, 500 * kMib, kStuckAfterMs - 1);
    EXPECT_FALSE(p.stuck(kStuckAfterMs - 1));
    p = advance(p, 300 * kMib, 500 * kMib, kStuckAfterMs);
    EXPECT_TRUE(p.stuck(kStuckAfterMs));
    EXPECT_EQ(p.stuck_direction, Direction::shrinking);
}

TEST(Progress, APageAtATimeIsNotMovement) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    for (std::int64_t i = 1; i <= 7; ++i) {
        p = advance(p, 300 * kMib, 500 * kMib - static_cast<std::uint64_t>(i) * 4, i * 1000);
    }
    EXPECT_TRUE(p.stuck(7000));
}

TEST(Progress, MovingTheWrongWayIsNotMovement) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    p = advance(p, 300 * kMib, 550 * kMib, 5000);
    p = advance(p, 300 * kMib, 600 * kMib, 7000);
    EXPECT_TRUE(p.stuck(7000));
}

TEST(Progress, OneThatCannotMoveIsNotJudged) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    p = restarted(p, 300 * kMib, 500 * kMib, 60'000);
    p = advance(p, 300 * kMib, 500 * kMib, 60'000 + kStuckAfterMs - 1);
    EXPECT_FALSE(p.stuck(60'000 + kStuckAfterMs - 1));
}

TEST(Progress, ThePenaltyGrowsAndIsForgiven) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    p = advance(p, 300 * kMib, 500 * kMib, 10'000);
    EXPECT_EQ(p.penalty_ms, kPenaltyMs);
    const std::int64_t later = p.stuck_until_ms + 1;
    Progress again = advance(p, 301 * kMib, 500 * kMib, later);
    again = advance(again, 301 * kMib, 500 * kMib, later + kStuckAfterMs);
    EXPECT_EQ(again.penalty_ms, 2 * kPenaltyMs);
    const std::int64_t much_later = again.stuck_until_ms + 3'600'000;
    Progress forgiven = advance(again, 302 * kMib, 500 * kMib, much_later);
    forgiven = advance(forgiven, 302 * kMib, 500 * kMib, much_later + kStuckAfterMs);
    EXPECT_EQ(forgiven.penalty_ms, kPenaltyMs);
}

TEST(Progress, AFewPagesMoreBecomeTheOffset) {
    Progress p = advance({}, 300 * kMib, 303 * kMib, 0);
    EXPECT_EQ(direction(p, 303 * kMib), Direction::shrinking);
    p = advance(p, 300 * kMib, 303 * kMib, kStuckAfterMs);
    EXPECT_FALSE(p.stuck(kStuckAfterMs));
    EXPECT_EQ(direction(p, 303 * kMib), Direction::none);
}

// Stuck at 400 MiB on its way to 500, and told to stay there.
Progress told_to_stay() {
    Progress p = advance({}, 500 * kMib, 400 * kMib, 0);
    p = advance(p, 500 * kMib, 400 * kMib, kStuckAfterMs);
    return advance(p, 400 * kMib, 400 * kMib, kStuckAfterMs);
}

TEST(Progress, OneThatLeavesWhereItWasToldToStayShowsItsOffset) {
    Progress p = told_to_stay();
    EXPECT_TRUE(p.stays);
    p = advance(p, 400 * kMib, 350 * kMib, kStuckAfterMs + 500);
    p = advance(p, 400 * kMib, 300 * kMib, kStuckAfterMs + 1000);
    p = advance(p, 400 * kMib, 300 * kMib, 2 * kStuckAfterMs + 999);
    EXPECT_EQ(p.offset_kib, 0);  // it may still be moving
    p = advance(p, 400 * kMib, 300 * kMib, 2 * kStuckAfterMs + 1000);
    EXPECT_EQ(p.offset_kib, -100 * static_cast<std::int64_t>(kMib));
    EXPECT_FALSE(p.stuck(2 * kStuckAfterMs + 1000));
    p = advance(p, 500 * kMib, 400 * kMib, 2 * kStuckAfterMs + 2000);
    EXPECT_EQ(direction(p, 400 * kMib), Direction::none);
}

TEST(Progress, OneThatTakesMoreThanItWasToldToKeepsNoOffset) {
    Progress p = told_to_stay();
    p = advance(p, 400 * kMib, 500 * kMib, kStuckAfterMs + 500);
    p = advance(p, 400 * kMib, 500 * kMib, 3 * kStuckAfterMs);
    EXPECT_EQ(p.offset_kib, 0);
    EXPECT_TRUE(p.stuck(3 * kStuckAfterMs));
}

TEST(Progress, WhatCouldNotShrinkIsJudgedByItsGrowthAnew) {
    Progress p = advance({}, 300 * kMib, 500 * kMib, 0);
    p = advance(p, 300 * kMib, 500 * kMib, kStuckAfterMs);
    p = advance(p, 700 * kMib, 500 * kMib, kStuckAfterMs + 1);
    p = advance(p, 700 * kMib, 500 * kMib, 2 * kStuckAfterMs + 1);
    EXPECT_EQ(p.stuck_direction, Direction::growing);
    EXPECT_TRUE(p.stuck(2 * kStuckAfterMs + kPenaltyMs));
}

TEST(Progress, TheOffsetCannotCreep) {
    Progress p;
    std::int64_t now_ms = 0;
    for (std::uint64_t i = 1; i <= 10; ++i) {
        now_ms += kStuckAfterMs;
        p = advance(p, 300 * kMib, (300 + 2 * i) * kMib, now_ms);
        now_ms += kStuckAfterMs;
        p = advance(p, 300 * kMib, (300 + 2 * i) * kMib, now_ms);
    }
    EXPECT_LE(p.offset_kib, static_cast<std::int64_t>(kOffsetMaxKib));
}

}  // namespace
}  // namespace xenpack
