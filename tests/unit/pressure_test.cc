// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/pressure/pressure.h promises: quick to see need, slow to see idleness.
#include "watcher/pressure/pressure.h"

#include <gtest/gtest.h>

#include <vector>

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;

struct Reporter {
    Report last{.heartbeat_s = 30,
                .total_kib = 512 * kMib,
                .free_kib = 4 * kMib,
                .brake_kib = {},
                .some_us = 0,
                .full_us = 0};
    Pressure pressure;
    std::int64_t now_ms = 1'000'000;

    Pressure& says(std::uint64_t used_mib, std::int64_t after_ms = 1000,
                   std::uint64_t stalled_us = 0, ReportWhy why = ReportWhy::change) {
        now_ms += after_ms;
        ++last.sequence;
        last.uptime_ms += static_cast<std::uint64_t>(after_ms);
        last.why = why;
        last.available_kib = last.total_kib - used_mib * kMib;
        if (last.some_us) {
            *last.some_us += stalled_us;
        }
        pressure = observe(pressure, sample_of(last), now_ms);
        return pressure;
    }
};

constexpr DemandRule kRule{16 * kMib, 25};

Demand demand(const Reporter& r, std::int64_t later_ms = 0) {
    return demand_of(r.pressure, kRule, r.now_ms + later_ms);
}

TEST(Demand, EachIsAtLeastTheOneBefore) {
    Reporter r;
    for (const std::uint64_t used : std::vector<std::uint64_t>{200, 300, 290, 40, 41, 480, 30}) {
        r.says(used, 700, used == 300 ? 100'000 : 0);
        const Demand d = demand(r);
        EXPECT_LE(r.pressure.used_kib + kRule.overhead_kib, d.must_kib);
        EXPECT_LE(d.must_kib, d.quick_kib);
        EXPECT_LE(d.quick_kib, d.slow_kib);
    }
}

TEST(MustHave, OfAZoneThatIsNotKnownYetLeavesRoomForABurst) {
    Reporter r;
    r.says(200);
    EXPECT_NEAR(static_cast<double>(demand(r).burst_kib), 32 * kMib, 4);
    EXPECT_EQ(demand(r).must_kib, (200 + 32 + 16) * kMib);
}

TEST(MustHave, LeavesABrakedWorkloadMoreThanItsBrakeKeepsFromIt) {
    Reporter r;
    r.last.brake_kib = 64 * kMib;
    r.says(200);
    EXPECT_GT(demand(r).must_kib, (200 + 64 + 16 + 8) * kMib);
}

TEST(MustHave, AWorkloadHeldByItsBrakeStallsThoughThereIsFreeMemory) {
    Reporter r;
    r.last.brake_kib = 64 * kMib;
    r.last.free_kib = 80 * kMib;
    r.says(440);
    r.says(445, 500, 100'000, ReportWhy::psi);
    EXPECT_TRUE(demand(r).stalled);
    r.last.brake_kib.reset();
    r.says(445, 500, 100'000, ReportWhy::psi);
    EXPECT_FALSE(demand(r).stalled);
}

TEST(MustHave, RemembersTheWorstBurstLongAfterIt) {
    Reporter r;
    r.says(100);
    r.says(100, kStartingMs);
    r.says(190, 300);
    r.says(280, 300);
    for (int i = 0; i < 20; ++i) {
        r.says(100, 1000);
    }
    EXPECT_GT(demand(r).burst_kib, 130 * kMib);
    EXPECT_GT(demand(r).must_kib, (100 + 25 + 16) * kMib);
    EXPECT_LT(demand(r, 10 * kBurstHalfLifeMs).must_kib, (100 + 33 + 16) * kMib);
}

TEST(MustHave, WhatAWorkloadTakesAtItsStartIsNoBurst) {
    Reporter r;
    r.says(100);
    r.says(400, 500);
    EXPECT_LE(demand(r).burst_kib, 32 * kMib);
}

TEST(MustHave, OfASlowRiseIsNoBurst) {
    Reporter r;
    for (std::uint64_t used = 100; used < 300; used += 4) {
        r.says(used, 2000);
    }
    EXPECT_LE(demand(r).burst_kib, 32 * kMib);
}

TEST(SlowDemand, IsUseAndHeadroomAndOverhead) {
    Reporter r;
    r.says(200);
    EXPECT_EQ(demand(r).slow_kib, (200 + 50 + 16) * kMib);
}

TEST(SlowDemand, LeavesASmallZoneTheLeastHeadroom) {
    Reporter r;
    r.says(40);
    EXPECT_EQ(demand(r).slow_kib, (40 + 32 + 16) * kMib);
}

TEST(QuickDemand, RunsAheadOfARise) {
    Reporter r;
    r.says(100);
    r.says(150, 1000);
    EXPECT_GE(demand(r).quick_kib, (150 + 50 + 16) * kMib);
}

TEST(QuickDemand, ARiseThatIsNotHeardOfAgainIsOver) {
    Reporter r;
    r.says(200);
    r.says(300);
    const std::int64_t over_ms = rise_ends_ms(r.pressure) - r.now_ms;
    EXPECT_GT(demand(r, over_ms - 1).step_kib, 0U);
    EXPECT_EQ(demand(r, over_ms).step_kib, 0U);
    EXPECT_LT(demand(r, over_ms).quick_kib, demand(r, over_ms - 1).quick_kib);
}

TEST(QuickDemand, NeverLeadsByMoreThanWhatIsUsed) {
    Reporter r;
    r.says(10);
    r.says(110, 50);
    EXPECT_LE(demand(r).quick_kib, (110 + 110 + 110 / 3 + 16 + 1) * kMib);
}

TEST(QuickDemand, HoldsThePageCacheThatWasMissed) {
    Reporter r;
    r.says(250);
    r.last.refaults += 40 * kMib / 4;
    r.says(250, 1000, 200'000, ReportWhy::psi);
    // It held 258 MiB of cache, and read 40 again.
    EXPECT_GE(demand(r).quick_kib, (250 + 258 + 40 + 16) * kMib);
    EXPECT_LT(demand(r, kCacheHalfLifeMs).quick_kib, (250 + 160 + 16) * kMib);
}

TEST(QuickDemand, IsSlowerToTryLessCacheTheMoreOftenThatWasAMistake) {
    Reporter r;
    const auto miss = [&] {
        r.last.refaults += 40 * kMib / 4;
        r.says(250, 1000, 200'000, ReportWhy::psi);
    };
    r.says(250);
    miss();
    EXPECT_EQ(r.pressure.cache_half_life_ms, kCacheHalfLifeMs);
    r.says(250, kCacheHalfLifeMs);
    miss();
    EXPECT_EQ(r.pressure.cache_half_life_ms, 2 * kCacheHalfLifeMs);
}

TEST(QuickDemand, WhatIsReadAgainWithFreeMemoryAtHandIsNoNeed) {
    Reporter r;
    r.last.free_kib = 200 * kMib;
    r.says(250);
    r.last.refaults += 40 * kMib / 4;
    r.says(250, 1000, 200'000, ReportWhy::psi);
    EXPECT_FALSE(demand(r).stalled);
    EXPECT_LT(demand(r).quick_kib, (250 + 40 + 16) * kMib);
}

TEST(QuickDemand, WhatIsReadAgainIsANeedThoughItDoesNotStallYet) {
    Reporter r;
    r.says(250);
    r.last.refaults += 40 * kMib / 4;
    r.says(250, 2000);
    EXPECT_FALSE(demand(r).stalled);
    EXPECT_GE(demand(r).quick_kib, (250 + 258 + 40 + 16) * kMib);
}

TEST(QuickDemand, AZoneThatReadsNothingAgainAsksForNoMoreCacheThanItHas) {
    Reporter r;
    r.says(250);
    r.last.refaults += 40 * kMib / 4;
    r.says(250, 2000);
    r.last.total_kib = 400 * kMib;
    r.says(250, 20'000);
    EXPECT_LE(demand(r).quick_kib, (400 + 16) * kMib);
}

TEST(QuickDemand, AsksForAStepMoreWhenStalledAndFull) {
    Reporter r;
    r.says(450);
    r.says(450, 1000, 100'000);
    EXPECT_TRUE(demand(r).stalled);
    EXPECT_GE(demand(r).quick_kib, (512 + 16 + 16) * kMib);
}

TEST(QuickDemand, WhatAStallHasShownIsKeptWhenItHasEnded) {
    Reporter r;
    r.says(450);
    r.says(450, 1000, 100'000);
    const std::uint64_t then = demand(r).quick_kib;
    r.last.total_kib += 16 * kMib;
    r.last.free_kib = 80 * kMib;
    r.says(450, 500);
    EXPECT_FALSE(demand(r).stalled);
    EXPECT_NEAR(static_cast<double>(demand(r).quick_kib), static_cast<double>(then), 2 * kMib);
}

TEST(QuickDemand, OneStallIsOneStepHoweverOftenItIsLookedAt) {
    Reporter r;
    r.says(450);
    r.says(450, 1000, 100'000);
    const auto first = demand_of(r.pressure, kRule, r.now_ms).quick_kib;
    EXPECT_LE(demand_of(r.pressure, kRule, r.now_ms + 500).quick_kib, first);
    EXPECT_LE(demand_of(r.pressure, kRule, r.now_ms + 2500).quick_kib, first);
}

TEST(QuickDemand, AStallWithPlentyAvailableAsksForNothing) {
    Reporter r;
    r.says(100);
    r.says(100, 1000, 500'000);
    EXPECT_LE(demand_of(r.pressure, kRule, r.now_ms).quick_kib, (100 + 32 + 16) * kMib);
}

TEST(QuickDemand, AStallIsForgotten) {
    Reporter r;
    r.says(450, 1000, 0, ReportWhy::psi);
    EXPECT_TRUE(demand_of(r.pressure, kRule, r.now_ms).stalled);
    EXPECT_FALSE(demand_of(r.pressure, kRule, r.now_ms + 10'000).stalled);
}

TEST(QuickDemand, SwapInsAreAStallWhereThereIsNoPsi) {
    Reporter r;
    r.last.some_us.reset();
    r.last.full_us.reset();
    r.says(450);
    r.last.swap_ins += 5000;
    r.says(450);
    EXPECT_TRUE(demand_of(r.pressure, kRule, r.now_ms).stalled);
}

TEST(QuickDemand, SwapOccupancyIsNoDemand) {
    Reporter r;
    r.last.swap_total_kib = 1024 * kMib;
    r.last.swap_free_kib = 0;
    r.says(100);
    r.says(100);
    EXPECT_LE(demand_of(r.pressure, kRule, r.now_ms).quick_kib, (100 + 32 + 16) * kMib);
}

TEST(SlowDemand, HoldsAPeakAndFadesByHalves) {
    Reporter r;
    r.says(400);
    r.says(100, 1000);
    const auto need = [&](std::int64_t later_ms) {
        return demand_of(r.pressure, {0, 25}, r.now_ms + later_ms).slow_kib;
    };
    EXPECT_GT(need(0), 480 * kMib);
    EXPECT_NEAR(static_cast<double>(need(kCalmHalfLifeMs)) / kMib, 250 * 1.25, 12);
    EXPECT_NEAR(static_cast<double>(need(20 * kCalmHalfLifeMs)) / kMib, 132, 2);
}

TEST(SlowDemand, DoesNotDependOnHowOftenAQuietZoneReports) {
    Reporter often;
    Reporter seldom;
    often.says(400);
    seldom.says(400);
    often.says(100, 1000);
    seldom.says(100, 1000);
    for (int i = 0; i < 20; ++i) {
        often.says(100, 1000);
    }
    const auto a = demand_of(often.pressure, {0, 25}, often.now_ms).slow_kib;
    const auto b = demand_of(seldom.pressure, {0, 25}, seldom.now_ms + 20'000).slow_kib;
    EXPECT_NEAR(static_cast<double>(a), static_cast<double>(b), 1024);
}

TEST(Observe, ARestartedReporterIsNotAStall) {
    Reporter r;
    r.says(100, 1000, 900'000);
    r.last.sequence = 0;
    r.last.uptime_ms = 0;
    r.last.some_us = 5'000'000;
    r.says(100);
    EXPECT_FALSE(r.pressure.stalled_share);
    EXPECT_EQ(r.pressure.stalled_ms, -1);
}

TEST(Observe, AnotherAgentStartsAnew) {
    Reporter r;
    r.says(400);
    const Sample other{Agent::qubes, 0, 100 * kMib, std::nullopt};
    const Pressure p = observe(r.pressure, other, r.now_ms + 10);
    EXPECT_EQ(p.used_slow_kib, 100 * kMib);
    EXPECT_EQ(p.first_ms, r.now_ms + 10);
}

TEST(StaleAt, IsTwoHeartbeatsAndAGrace) {
    Reporter r;
    r.says(100);
    EXPECT_EQ(stale_at_ms(r.pressure), r.now_ms + 2 * 30'000 + kHeartbeatGraceMs);
}

}  // namespace
}  // namespace xenpack
