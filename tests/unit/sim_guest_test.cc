// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/guest.h promises: a workload that fits loses nothing, one that does not loses in
// proportion, and is killed when, and only when, nothing is left.
#include "plugin/sim/guest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "plugin/sim/generate.h"

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kMaxKib = 2048 * kMib;
// Descriptors and hash tables for kMaxKib, and the kernel.
constexpr std::uint64_t kOverheadKib = 32 * kMib + 4 * kMib + 46 * kMib;
// At kMaxKib: 11 page blocks of 2 MiB for each of two zones, and a quarter of that twice more.
constexpr std::uint64_t kLowKib = 55 * kMib;
// What MemAvailable leaves out of what is free: the high watermark, 66 MiB, and 1/256 of all. In
// the lab it left out 75,328 KiB.
constexpr double kReserveKib = 75'448;
constexpr std::int64_t kStepMs = 100;

using Rows = std::vector<TraceRow>;

std::shared_ptr<const Trace> trace_of(Rows rows) {
    return std::make_shared<const Trace>(Trace{"test", "", std::move(rows)});
}

std::shared_ptr<const Trace> steady(const Demand& demand) {
    return trace_of({{0, demand}});
}

GuestConfig config_of(std::uint64_t swap_mib = 0) {
    GuestConfig config;
    config.static_max_kib = kMaxKib;
    config.swap_kib = swap_mib * kMib;
    return config;
}

void run(Guest& guest, std::int64_t ms, std::uint64_t pages_kib, std::int64_t step_ms = kStepMs) {
    for (std::int64_t passed = 0; passed < ms; passed += step_ms) {
        guest.step(step_ms, pages_kib);
    }
}

std::uint64_t most_ease(const Guest& guest) {
    std::uint64_t anon = 0;
    std::uint64_t cache = 0;
    for (const TraceRow& row : guest.trace().rows) {
        anon = std::max(anon, row.demand.anon_kib);
        cache = std::max(cache, row.demand.cache_kib);
    }
    const Guest peak(config_of(), steady({anon, 0, cache, 0, 0}));
    return peak.ease_kib(0);
}

std::vector<std::shared_ptr<const Trace>> every_generator(std::uint64_t seed) {
    std::vector<std::shared_ptr<const Trace>> traces;
    for (Trace trace : {bursts({.seed = seed}), day({.seed = seed}), idle({.seed = seed}), ramp({}),
                        sawtooth({.seed = seed}), training({.seed = seed})}) {
        traces.push_back(std::make_shared<const Trace>(std::move(trace)));
    }
    return traces;
}

TEST(SimGuest, MemTotalIsWhatTheKernelDoesNotNeedForItself) {
    Guest guest(config_of(), steady({}));
    guest.step(kStepMs, 1024 * kMib);
    EXPECT_EQ(guest.overhead_kib(), kOverheadKib);
    EXPECT_EQ(guest.stats().total_kib, 1024 * kMib - kOverheadKib);
    EXPECT_EQ(guest.stats().free_kib, guest.stats().total_kib);
    EXPECT_NEAR(static_cast<double>(guest.stats().free_kib - guest.stats().available_kib),
                kReserveKib, 2);
}

TEST(SimGuest, MemAvailableCountsFilesButForTheLowWatermarkOrHalfOfThem) {
    const auto beside_free = [](std::uint64_t cache_kib) {
        Guest guest(config_of(), steady({0, 0, cache_kib, 0, 0}));
        run(guest, 10'000, 1024 * kMib);
        EXPECT_EQ(guest.stats().cached_kib, cache_kib);
        return static_cast<double>(guest.stats().available_kib) + kReserveKib -
               static_cast<double>(guest.stats().free_kib);
    };
    EXPECT_NEAR(beside_free(400 * kMib), 400.0 * kMib - kLowKib, 2);
    EXPECT_NEAR(beside_free(8 * kMib), 4.0 * kMib, 2);
}

TEST(SimGuest, AWorkloadThatFitsNeverStalls) {
    for (const auto& trace : every_generator(5)) {
        for (const std::int64_t start_ms : {0, 77'000}) {
            GuestConfig config = config_of();
            config.start_at_ms = start_ms;
            Guest guest(config, trace);
            run(guest, 1'300'000, most_ease(guest));
            EXPECT_EQ(guest.stats().stalled_us, 0U) << trace->name;
            EXPECT_EQ(guest.stats().refaults, 0U) << trace->name;
            EXPECT_EQ(guest.stats().worked_ms, 1'300'000) << trace->name;
        }
    }
}

TEST(SimGuest, AWorkloadThatDoesNotFitStalls) {
    for (const auto& trace : every_generator(5)) {
        Guest guest(config_of(), trace);
        run(guest, 1'300'000, most_ease(guest) * 3 / 4);
        EXPECT_GT(guest.stats().stalled_us, 0U) << trace->name;
        EXPECT_LT(guest.stats().worked_ms, 1'300'000) << trace->name;
    }
}

TEST(SimGuest, MissingHotCacheShowsInProportion) {
    const std::uint64_t hot_kib = 400 * kMib;
    const std::uint64_t read_kib_per_s = 100 * kMib;
    for (const double missing : {0.05, 0.2, 0.5, 0.9}) {
        Guest guest(config_of(), steady({100 * kMib, 0, hot_kib, read_kib_per_s, 0}));
        const std::uint64_t size =
            guest.ease_kib(0) - static_cast<std::uint64_t>(missing * static_cast<double>(hot_kib));
        run(guest, 10'000, size);
        const GuestStats before = guest.stats();
        run(guest, 100'000, size);
        const GuestStats& after = guest.stats();
        // Each second of work reads `missing` of 100 MiB from a disk of 200 MiB/s.
        const double cost = missing * 100 / 200;
        EXPECT_NEAR(static_cast<double>(after.stalled_us - before.stalled_us) / 100e6,
                    cost / (1 + cost), 0.001)
            << missing;
        const double worked_s = static_cast<double>(after.worked_ms - before.worked_ms) / 1000;
        EXPECT_NEAR(static_cast<double>(after.refaults - before.refaults) * 4 / worked_s / kMib,
                    missing * 100, 0.2)
            << missing;
        EXPECT_EQ(after.oom_kills, 0U);
        EXPECT_EQ(after.lacks_kib, guest.ease_kib(0) - size);
    }
}

TEST(SimGuest, PsiIsTheStalledTimeOfOneTask) {
    Guest guest(config_of(), steady({100 * kMib, 0, 400 * kMib, 100 * kMib, 0}));
    run(guest, 30'000, guest.ease_kib(0) - 200 * kMib);
    EXPECT_GT(guest.stats().some_us, 1'000'000U);
    EXPECT_EQ(guest.stats().some_us, guest.stats().stalled_us);
    EXPECT_EQ(guest.stats().full_us, guest.stats().some_us);
}

TEST(SimGuest, ReadingForTheFirstTimeIsNoRefault) {
    Guest guest(config_of(), steady({100 * kMib, 0, 400 * kMib, 100 * kMib, 0}));
    run(guest, 1000, guest.ease_kib(0));
    // The disk's pace.
    EXPECT_NEAR(static_cast<double>(guest.stats().cached_kib), 200.0 * kMib, 8.0);
    run(guest, 2000, guest.ease_kib(0));
    EXPECT_EQ(guest.stats().cached_kib, 400 * kMib);
    EXPECT_EQ(guest.stats().refaults, 0U);
    EXPECT_EQ(guest.stats().stalled_us, 0U);
}

TEST(SimGuest, LostCacheIsReadBackOnceThereIsRoomAgain) {
    Guest guest(config_of(), steady({100 * kMib, 0, 400 * kMib, 100 * kMib, 0}));
    const std::uint64_t ease = guest.ease_kib(0);
    run(guest, 5'000, ease);
    run(guest, 1'000, ease - 200 * kMib);
    EXPECT_TRUE(guest.stats().stalls_now);
    const std::uint64_t refaults = guest.stats().refaults;
    guest.step(kStepMs, ease);
    // It still stalls, but size is not what it lacks.
    EXPECT_TRUE(guest.stats().stalls_now);
    EXPECT_EQ(guest.stats().lacks_kib, 0U);
    run(guest, 60'000, ease);
    EXPECT_FALSE(guest.stats().stalls_now);
    EXPECT_NEAR(static_cast<double>(guest.stats().refaults - refaults), 200.0 * kMib / 4, 30.0);
}

TEST(SimGuest, CacheThatWasHotIsHotAgainUnlessItHadToGo) {
    const auto phases = trace_of({{0, {50 * kMib, 0, 300 * kMib, 100 * kMib, 0}},
                                  {10'000, {50 * kMib, 0, 300 * kMib, 100 * kMib, 0}},
                                  {11'000, {50 * kMib, 0, 30 * kMib, 10 * kMib, 0}},
                                  {20'000, {50 * kMib, 0, 30 * kMib, 10 * kMib, 0}},
                                  {21'000, {50 * kMib, 0, 300 * kMib, 100 * kMib, 0}},
                                  {40'000, {50 * kMib, 0, 300 * kMib, 100 * kMib, 0}}});
    Guest kept(config_of(), phases);
    const std::uint64_t ease = kept.ease_kib(0);
    run(kept, 39'000, ease);
    EXPECT_EQ(kept.stats().stalled_us, 0U);

    Guest squeezed(config_of(), phases);
    run(squeezed, 15'000, ease);
    run(squeezed, 3'000, ease - 250 * kMib);
    EXPECT_EQ(squeezed.stats().stalled_us, 0U);
    run(squeezed, 21'000, ease);
    EXPECT_GT(squeezed.stats().stalled_us, 500'000U);
    EXPECT_LE(squeezed.stats().refaults, 250 * kMib / 4 + 8);
}

TEST(SimGuest, AStreamFillsMemoryAndCostsNothing) {
    Guest guest(config_of(), steady({100 * kMib, 50 * kMib, 0, 0, 50 * kMib}));
    const std::uint64_t size = 700 * kMib;
    run(guest, 60'000, size);
    EXPECT_EQ(guest.stats().stalled_us, 0U);
    EXPECT_GT(guest.stats().cached_kib, 450 * kMib);
    EXPECT_LT(guest.stats().free_kib, kLowKib + kMib);
    EXPECT_GT(guest.stats().available_kib, 380 * kMib);
    // And it yields to a workload that grows, and to the balloon.
    EXPECT_GT(guest.can_give_kib(), 380 * kMib);
    run(guest, 5'000, size - guest.can_give_kib());
    EXPECT_EQ(guest.stats().stalled_us, 0U);
    EXPECT_EQ(guest.stats().oom_kills, 0U);
}

TEST(SimGuest, GrowthTakesColdPagesForNothingAndHotOnesAtACost) {
    const auto grow = [](const Demand& before) {
        Demand after = before;
        after.anon_kib = 400 * kMib;
        Guest guest(config_of(),
                    trace_of({{0, before}, {60'000, before}, {60'100, after}, {120'000, after}}));
        run(guest, 60'000, 640 * kMib);
        EXPECT_EQ(guest.stats().stalled_us, 0U);
        // 300 MiB at 1 GiB/s.
        run(guest, 400, 640 * kMib);
        EXPECT_EQ(guest.stats().oom_kills, 0U);
        return guest.stats().stalled_us;
    };
    EXPECT_EQ(grow({100 * kMib, 0, 0, 0, 50 * kMib}), 0U);
    // Some 254 MiB of hot pages at 2 GiB/s: what is free but for the lowest watermark comes first.
    EXPECT_NEAR(static_cast<double>(grow({100 * kMib, 0, 390 * kMib, 0, 0})), 124'000, 5'000);
}

TEST(SimGuest, AnonymousMemoryGrowsNoQuickerThanItCanBeTouched) {
    GuestConfig config = config_of();
    config.alloc_kib_per_s = 100 * kMib;
    Guest guest(config, steady({500 * kMib, 0, 0, 0, 0}));
    run(guest, 1000, kMaxKib);
    EXPECT_NEAR(static_cast<double>(guest.stats().total_kib - guest.stats().free_kib), 100.0 * kMib,
                4.0);
    EXPECT_EQ(guest.stats().committed_kib, 500 * kMib);
    EXPECT_EQ(guest.stats().stalled_us, 0U);
}

TEST(SimGuest, IsKilledBelowSurvivalAndNotAtIt) {
    for (const std::uint64_t swap_mib : {0U, 100U}) {
        const Demand demand{300 * kMib, 20 * kMib, 50 * kMib, 10 * kMib, 0};
        Guest lives(config_of(swap_mib), steady(demand));
        run(lives, 60'000, lives.survival_kib(0));
        EXPECT_EQ(lives.stats().oom_kills, 0U) << swap_mib;
        Guest dies(config_of(swap_mib), steady(demand));
        run(dies, 60'000, dies.survival_kib(0) - 4);
        EXPECT_GT(dies.stats().oom_kills, 0U) << swap_mib;
    }
}

TEST(SimGuest, TheKillFollowsWithinHalfASecondAndFreesEverything) {
    // 100 MiB/s from 100 MiB; memory ends at 300.
    const auto trace = trace_of({{0, {100 * kMib, 0, 0, 0, 0}}, {4000, {500 * kMib, 0, 0, 0, 0}}});
    Guest guest(config_of(), trace);
    const std::uint64_t size = guest.survival_kib(2000);
    std::int64_t stalled_at_ms = 0;
    while (guest.stats().oom_kills == 0) {
        ASSERT_LT(guest.stats().uptime_ms, 10'000);
        guest.step(kStepMs, size);
        if (stalled_at_ms == 0 && guest.stats().stalls_now) {
            stalled_at_ms = guest.stats().uptime_ms;
        }
    }
    EXPECT_NEAR(static_cast<double>(stalled_at_ms), 2000, 200);
    EXPECT_LE(guest.stats().uptime_ms - stalled_at_ms, 500);
    EXPECT_GE(guest.stats().uptime_ms - stalled_at_ms, 100);
    EXPECT_EQ(guest.stats().free_kib, guest.stats().total_kib);

    // Restarted two seconds later, from the beginning of its trace; that time is lost, too.
    const std::int64_t killed_at_ms = guest.stats().uptime_ms;
    const std::uint64_t stalled_us = guest.stats().stalled_us;
    const std::int64_t worked_ms = guest.stats().worked_ms;
    run(guest, 2000, kMaxKib);
    EXPECT_EQ(guest.stats().stalled_us - stalled_us, 2'000'000U);
    EXPECT_EQ(guest.stats().worked_ms, worked_ms);
    run(guest, 1000, kMaxKib);
    EXPECT_EQ(guest.stats().uptime_ms, killed_at_ms + 3000);
    EXPECT_EQ(guest.trace_ms(), 1000);
    EXPECT_LT(guest.stats().some_us, stalled_us + 1);
}

TEST(SimGuest, SwapDelaysTheKill) {
    const auto trace =
        trace_of({{0, {100 * kMib, 0, 0, 0, 0}}, {60'000, {1500 * kMib, 0, 0, 0, 0}}});
    const auto killed_at = [&trace](std::uint64_t swap_mib) {
        Guest guest(config_of(swap_mib), trace);
        while (guest.stats().oom_kills == 0 && guest.stats().uptime_ms < 100'000) {
            guest.step(kStepMs, 400 * kMib);
        }
        return guest.stats().uptime_ms;
    };
    // Each 100 MiB of swap lasts 4.3 s at the pace of this ramp, and the writing takes time.
    EXPECT_GT(killed_at(100), killed_at(0) + 4000);
    EXPECT_GT(killed_at(300), killed_at(100) + 8000);
    EXPECT_LT(killed_at(300), killed_at(100) + 12'000);
}

TEST(SimGuest, WhatSleepsMayBeInSwapAndWhatIsTouchedMayNot) {
    Guest sleeps(config_of(500), steady({400 * kMib, 100 * kMib, 0, 0, 0}));
    run(sleeps, 20'000, sleeps.ease_kib(0) - 250 * kMib);
    const GuestStats settled = sleeps.stats();
    // Down to the lowest watermark, and ease_kib() is made with the next.
    EXPECT_LT(sleeps.stats().swap_free_kib, 262 * kMib);
    run(sleeps, 60'000, sleeps.ease_kib(0) - 250 * kMib);
    EXPECT_EQ(sleeps.stats().stalled_us, settled.stalled_us);
    EXPECT_EQ(sleeps.stats().swap_ins, settled.swap_ins);

    Guest thrashes(config_of(500), steady({400 * kMib, 400 * kMib, 0, 0, 0}));
    run(thrashes, 20'000, thrashes.ease_kib(0) - 250 * kMib);
    const std::uint64_t before = thrashes.stats().swap_ins;
    run(thrashes, 60'000, thrashes.ease_kib(0) - 250 * kMib);
    EXPECT_GT(thrashes.stats().swap_ins - before, 60 * 20 * kMib / 4);
    EXPECT_GT(thrashes.stats().some_us, 20'000'000U);
    EXPECT_EQ(thrashes.stats().oom_kills, 0U);
}

TEST(SimGuest, SwappedPagesThatWakeAreReadAndStayInSwapWhenTheyFallAsleep) {
    const auto demand = [](std::uint64_t active_mib) {
        return Demand{400 * kMib, active_mib * kMib, 0, 0, 0};
    };
    Guest guest(config_of(500), trace_of({{0, demand(100)},
                                          {30'000, demand(100)},
                                          {30'100, demand(300)},
                                          {60'000, demand(300)},
                                          {60'100, demand(0)},
                                          {90'000, demand(0)}}));
    const std::uint64_t ease = guest.ease_kib(0);
    run(guest, 29'000, ease - 250 * kMib);
    const GuestStats asleep = guest.stats();
    const std::uint64_t swapped = asleep.swap_total_kib - asleep.swap_free_kib;
    EXPECT_GT(swapped, 238 * kMib);
    run(guest, 25'000, ease);
    // Two thirds of what slept woke up: that share of what is in swap.
    EXPECT_NEAR(static_cast<double>(guest.stats().swap_ins - asleep.swap_ins) * 4,
                static_cast<double>(swapped) * 2 / 3, 0.05 * static_cast<double>(swapped));

    // Squeezed while all is active; then there is room, and all falls asleep: what has not been
    // read by then stays where it is.
    Guest tired(
        config_of(500),
        trace_of(
            {{0, demand(400)}, {10'000, demand(400)}, {10'100, demand(0)}, {90'000, demand(0)}}));
    while (tired.trace_ms() < 9'950) {
        tired.step(kStepMs, ease - 250 * kMib);
    }
    EXPECT_GT(tired.stats().swap_ins, 0U);
    run(tired, 1'000, ease);
    const GuestStats before = tired.stats();
    EXPECT_GT(before.swap_total_kib - before.swap_free_kib, 100 * kMib);
    run(tired, 20'000, ease);
    EXPECT_EQ(tired.stats().swap_ins, before.swap_ins);
    EXPECT_EQ(tired.stats().swap_free_kib, before.swap_free_kib);
}

TEST(SimGuest, AnonymousMemoryThatIsTouchedWinsAgainstFiles) {
    Guest guest(config_of(500), steady({400 * kMib, 400 * kMib, 200 * kMib, 100 * kMib, 0}));
    const std::uint64_t ease = guest.ease_kib(0);
    run(guest, 20'000, ease - 400 * kMib);
    EXPECT_GT(guest.stats().swap_ins, 0U);
    // Now everything but half of the hot set fits.
    run(guest, 60'000, ease - 100 * kMib);
    EXPECT_EQ(guest.stats().swap_free_kib, guest.stats().swap_total_kib);
    EXPECT_NEAR(static_cast<double>(guest.stats().cached_kib), 100.0 * kMib, 8.0);
    const std::uint64_t swap_ins = guest.stats().swap_ins;
    run(guest, 10'000, ease - 100 * kMib);
    EXPECT_EQ(guest.stats().swap_ins, swap_ins);
}

TEST(SimGuest, TheBrakeHoldsAWorkloadUntilMemoryComes) {
    const Demand demand{500 * kMib, 100 * kMib, 0, 0, 0};
    GuestConfig config = config_of();
    config.brake = true;
    Guest guest(config, steady(demand));
    run(guest, 9'000, guest.survival_kib(0) - 100 * kMib);
    EXPECT_EQ(guest.stats().oom_kills, 0U);
    EXPECT_GT(guest.stats().some_us, 8'000'000U);
    EXPECT_GE(guest.stats().lacks_kib, 100 * kMib);
    // Some more, though not enough, is a reason to go on waiting.
    run(guest, 9'000, guest.survival_kib(0) - 50 * kMib);
    EXPECT_EQ(guest.stats().oom_kills, 0U);
    run(guest, 60'000, guest.ease_kib(0));
    EXPECT_EQ(guest.stats().oom_kills, 0U);
    EXPECT_FALSE(guest.stats().stalls_now);
}

TEST(SimGuest, TheBrakeGivesUpAfterTenSecondsInVain) {
    const auto killed_at = [](bool brake, std::uint64_t static_max_kib, std::uint64_t pages_kib) {
        GuestConfig config;
        config.static_max_kib = static_max_kib;
        config.brake = brake;
        Guest guest(config, steady({500 * kMib, 100 * kMib, 0, 0, 0}));
        while (guest.stats().oom_kills == 0 && guest.stats().uptime_ms < 100'000) {
            guest.step(kStepMs, pages_kib);
        }
        return guest.stats().uptime_ms;
    };
    const std::int64_t without = killed_at(false, kMaxKib, 400 * kMib);
    EXPECT_NEAR(static_cast<double>(killed_at(true, kMaxKib, 400 * kMib) - without), 10'000, 500);
    // At maxmem there is nothing to wait for.
    EXPECT_EQ(killed_at(true, 400 * kMib, 400 * kMib), killed_at(false, 400 * kMib, 400 * kMib));
}

TEST(SimGuest, WhatItLacksIsEnough) {
    const Demand demand{300 * kMib, 20 * kMib, 200 * kMib, 50 * kMib, 0};
    Guest guest(config_of(), steady(demand));
    const std::uint64_t size = guest.ease_kib(0) - 150 * kMib;
    run(guest, 5000, size);
    ASSERT_TRUE(guest.stats().stalls_now);
    const std::uint64_t enough = size + guest.stats().lacks_kib;
    run(guest, 60'000, enough);
    EXPECT_FALSE(guest.stats().stalls_now);
    EXPECT_EQ(guest.stats().lacks_kib, 0U);
}

TEST(SimGuest, TheBalloonGetsCacheAndNeverAnonymousMemory) {
    Guest guest(config_of(), steady({300 * kMib, 20 * kMib, 200 * kMib, 50 * kMib, 0}));
    std::uint64_t size = 1024 * kMib;
    run(guest, 10'000, size);
    for (int i = 0; i < 50; ++i) {
        const std::uint64_t gives = guest.can_give_kib();
        ASSERT_LE(gives, guest.stats().free_kib + guest.stats().cached_kib);
        size -= gives;
        run(guest, 500, size);
    }
    EXPECT_EQ(guest.stats().oom_kills, 0U);
    EXPECT_GT(size, 300 * kMib + kOverheadKib);
    // It went beyond the pages that nobody needs: the hot set suffers.
    EXPECT_LT(guest.stats().cached_kib, 50 * kMib);
    EXPECT_GT(guest.stats().refaults, 0U);
}

TEST(SimGuest, AWorkloadMayBeginLateAndEndForGood) {
    GuestConfig config = config_of();
    config.repeat = false;
    config.idle_until_ms = 5'000;
    config.start_at_ms = 3'000;
    Guest guest(config, trace_of({{0, {}}, {10'000, {100 * kMib, 0, 50 * kMib, kMib, 0}}}));
    run(guest, 5'000, 512 * kMib);
    EXPECT_EQ(guest.stats().worked_ms, 0);
    EXPECT_EQ(guest.trace_ms(), 3'000);
    EXPECT_EQ(guest.stats().committed_kib, 0U);
    run(guest, 5'000, 512 * kMib);
    EXPECT_EQ(guest.stats().worked_ms, 5'000);
    EXPECT_EQ(guest.stats().committed_kib, 80 * kMib);
    run(guest, 60'000, 512 * kMib);
    EXPECT_EQ(guest.stats().worked_ms, 7'000);
    EXPECT_EQ(guest.trace_ms(), 10'000);
    EXPECT_EQ(guest.stats().committed_kib, 0U);
    EXPECT_EQ(guest.stats().cached_kib, 50 * kMib);
    EXPECT_EQ(guest.stats().stalled_us, 0U);
}

TEST(SimGuest, NothingIsWorkedBeyondTheEndOfATrace) {
    GuestConfig config = config_of();
    config.repeat = false;
    Guest guest(config, trace_of({{0, {}}, {1000, {}}}));
    run(guest, 3000, 512 * kMib, 300);
    EXPECT_EQ(guest.stats().worked_ms, 1000);
    EXPECT_EQ(guest.trace_ms(), 1000);
}

TEST(SimGuest, ARepeatedTraceGoesOnAtItsBeginning) {
    Guest guest(config_of(),
                trace_of({{0, {10 * kMib, 0, 0, 0, 0}}, {1000, {500 * kMib, 0, 0, 0, 0}}}));
    run(guest, 900, 1024 * kMib);
    EXPECT_EQ(guest.stats().committed_kib, 451 * kMib);
    guest.step(100, 1024 * kMib);
    EXPECT_EQ(guest.trace_ms(), 0);
    EXPECT_EQ(guest.stats().committed_kib, 10 * kMib);
    run(guest, 300, 1024 * kMib);
    EXPECT_EQ(guest.trace_ms(), 300);
    EXPECT_EQ(guest.stats().worked_ms, 1300);
}

TEST(SimGuest, SamplingFindsWhatIsTouchedAndNotWhatIsHeld) {
    Guest guest(config_of(), steady({300 * kMib, 20 * kMib, 200 * kMib, 50 * kMib, 0}));
    run(guest, 10'000, 1024 * kMib);
    EXPECT_EQ(guest.stats().active_kib, 220 * kMib);
    Guest slow(config_of(), steady({300 * kMib, 20 * kMib, 200 * kMib, kMib, 0}));
    run(slow, 10'000, 1024 * kMib);
    EXPECT_EQ(slow.stats().active_kib, 50 * kMib);
}

TEST(SimGuest, TheLengthOfAStepHardlyMatters) {
    const auto stalled = [](std::int64_t step_ms) {
        Guest guest(config_of(200), std::make_shared<const Trace>(day({.seed = 9})));
        run(guest, 600'000, most_ease(guest) * 3 / 4, step_ms);
        return static_cast<double>(guest.stats().stalled_us) / 1e6;
    };
    EXPECT_GT(stalled(100), 1);
    EXPECT_NEAR(stalled(10) / stalled(100), 1, 0.1);
    EXPECT_NEAR(stalled(500) / stalled(100), 1, 0.1);
}

// Whatever the size does, the figures stay possible and no time is lost or made up.
TEST(SimGuest, FiguresStayPossibleWhateverHappens) {
    std::mt19937_64 random(11);
    for (const auto& trace : every_generator(3)) {
        for (const std::uint64_t swap_mib : {0U, 150U}) {
            GuestConfig config = config_of(swap_mib);
            config.brake = random() % 2 == 0;
            Guest guest(config, trace);
            std::uint64_t size = 300 * kMib;
            std::int64_t run_ms = 0;
            GuestStats before;
            for (int i = 0; i < 10'000; ++i) {
                if (random() % 20 == 0) {
                    size = random() % (1200 * kMib);
                }
                const auto dt_ms = static_cast<std::int64_t>(1 + random() % 300);
                run_ms += dt_ms;
                guest.step(dt_ms, size);
                const GuestStats& now = guest.stats();
                ASSERT_LE(now.available_kib, now.total_kib);
                ASSERT_LE(now.free_kib + now.cached_kib, now.total_kib + 1);
                ASSERT_LE(now.active_kib, now.total_kib);
                ASSERT_LE(now.swap_free_kib, now.swap_total_kib);
                ASSERT_LE(guest.can_give_kib(), now.free_kib + now.cached_kib);
                ASSERT_EQ(now.uptime_ms, run_ms);
                ASSERT_NEAR(
                    static_cast<double>(now.stalled_us) / 1000 + static_cast<double>(now.worked_ms),
                    static_cast<double>(run_ms), 1.01);
                ASSERT_GE(now.some_us, before.some_us);
                ASSERT_GE(now.refaults, before.refaults);
                ASSERT_GE(now.swap_ins, before.swap_ins);
                ASSERT_LE(guest.trace_ms(), trace->length_ms());
                before = now;
            }
        }
    }
}

}  // namespace
}  // namespace xenpack::sim
