// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/balloon_driver.h promises: the habits of Linux' balloon driver, the bad ones too.
#include "plugin/sim/balloon_driver.h"

#include <gtest/gtest.h>

#include <vector>

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;
constexpr std::int64_t kStepMs = 100;
constexpr std::int64_t kHourMs = 3'600'000;

// A driver that is up, with what it sees.
struct Bench {
    explicit Bench(BalloonConfig config = {}) : driver(config) {
        while (now_ms < config.boot_ms) {
            step();
        }
    }
    std::int64_t step() {
        now_ms += kStepMs;
        const std::int64_t change =
            driver.step(now_ms, kStepMs, current_kib, target_kib, can_give_kib, may_take_kib);
        current_kib = static_cast<std::uint64_t>(static_cast<std::int64_t>(current_kib) + change);
        return change;
    }
    void run(std::int64_t ms) {
        for (const std::int64_t end = now_ms + ms; now_ms < end;) {
            step();
        }
    }
    // How long until something moves, at most `most_ms`.
    std::int64_t moves_within(std::int64_t most_ms) {
        const std::int64_t begin = now_ms;
        while (now_ms - begin < most_ms) {
            if (step() != 0) {
                break;
            }
        }
        return now_ms - begin;
    }

    std::int64_t now_ms = 0;
    std::uint64_t current_kib = 512 * kMib;
    std::uint64_t target_kib = 512 * kMib;
    std::uint64_t can_give_kib = kPlenty;
    std::uint64_t may_take_kib = kPlenty;
    BalloonDriver driver;
};

TEST(SimBalloon, FollowsItsTargetBothWays) {
    Bench bench;
    bench.target_kib = 300 * kMib;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 300 * kMib);
    bench.target_kib = 700 * kMib;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 700 * kMib);
}

TEST(SimBalloon, MovesNoQuickerThanItCan) {
    BalloonConfig config;
    config.kib_per_s = 100 * kMib;
    Bench bench(config);
    bench.target_kib = 312 * kMib;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 412 * kMib);
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 312 * kMib);
}

TEST(SimBalloon, ABatchMoves512Pages) {
    BalloonConfig config;
    config.kib_per_s = 4 * kMib;
    Bench bench(config);
    bench.target_kib = 512 * kMib - 2 * kBalloonBatchKib - 4;
    std::vector<std::int64_t> moves;
    for (int i = 0; i < 30; ++i) {
        if (const std::int64_t change = bench.step(); change != 0) {
            moves.push_back(change);
        }
    }
    EXPECT_EQ(moves, (std::vector<std::int64_t>{-2048, -2048, -4}));
}

TEST(SimBalloon, MovesWholePages) {
    Bench bench;
    bench.target_kib = 300 * kMib + 3;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 300 * kMib);
    bench.can_give_kib = 10;
    bench.target_kib = 200 * kMib;
    bench.step();
    EXPECT_EQ(bench.current_kib, 300 * kMib - 8);
}

TEST(SimBalloon, TakesWhatThereIsAndTriesAgainAfterTwoSeconds) {
    Bench bench;
    bench.may_take_kib = 10 * kMib;
    bench.target_kib = 600 * kMib;
    EXPECT_EQ(bench.step(), 10 * 1024);
    bench.may_take_kib = kPlenty;
    EXPECT_EQ(bench.moves_within(10'000), 2000);
}

TEST(SimBalloon, WaitsTwoFourEightSecondsAndThenGivesUp) {
    Bench bench;
    bench.may_take_kib = 0;
    bench.target_kib = 600 * kMib;
    bench.step();
    const std::int64_t first_failure_ms = bench.now_ms;
    while (!bench.driver.asleep(bench.now_ms)) {
        ASSERT_EQ(bench.step(), 0);
        ASSERT_LT(bench.now_ms, 60'000);
    }
    EXPECT_EQ(bench.now_ms - first_failure_ms, 14'000);
}

TEST(SimBalloon, MemoryThatComesBeforeItGivesUpIsTaken) {
    for (const std::int64_t wait_ms : {1'000, 5'000, 13'000}) {
        Bench bench;
        bench.may_take_kib = 0;
        bench.target_kib = 600 * kMib;
        bench.run(wait_ms);
        bench.may_take_kib = kPlenty;
        bench.run(14'000 - wait_ms + 1000);
        EXPECT_EQ(bench.current_kib, 600 * kMib) << wait_ms;
    }
}

TEST(SimBalloon, AsleepItMissesMemoryForAnHour) {
    Bench bench;
    bench.may_take_kib = 0;
    bench.target_kib = 600 * kMib;
    bench.run(15'000);
    ASSERT_TRUE(bench.driver.asleep(bench.now_ms));
    bench.may_take_kib = kPlenty;
    const std::int64_t slept_ms = bench.moves_within(2 * kHourMs);
    EXPECT_GT(slept_ms, kHourMs - 2000);
    EXPECT_LE(slept_ms, kHourMs);
}

TEST(SimBalloon, TheSameTargetDoesNotWakeItButAPageMoreDoes) {
    Bench bench;
    bench.may_take_kib = 0;
    bench.target_kib = 600 * kMib;
    bench.run(15'000);
    bench.may_take_kib = kPlenty;
    bench.target_kib = 600 * kMib;
    bench.run(60'000);
    EXPECT_EQ(bench.current_kib, 512 * kMib);
    bench.target_kib = 600 * kMib + 4;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 600 * kMib + 4);
    EXPECT_FALSE(bench.driver.asleep(bench.now_ms));
}

TEST(SimBalloon, AChangedTargetEndsAWait) {
    Bench bench;
    bench.can_give_kib = 0;
    bench.target_kib = 300 * kMib;
    bench.run(500);
    bench.target_kib = 520 * kMib;
    EXPECT_EQ(bench.step(), 8 * 1024);
}

TEST(SimBalloon, SuccessForgivesFailures) {
    Bench bench;
    bench.target_kib = 2000 * kMib;
    // A little each time it tries: never four failures in a row.
    for (int i = 0; i < 100; ++i) {
        bench.may_take_kib = 4;
        bench.run(1000);
    }
    EXPECT_FALSE(bench.driver.asleep(bench.now_ms));
    EXPECT_EQ(bench.current_kib, 512 * kMib + 50 * 4);
}

TEST(SimBalloon, NothingFollowsBeforeTheDriverIsUp) {
    BalloonConfig config;
    config.boot_ms = 3'000;
    BalloonDriver driver(config);
    for (std::int64_t now_ms = 10'100; now_ms < 13'000; now_ms += 100) {
        EXPECT_EQ(driver.step(now_ms, 100, 512 * kMib, 256 * kMib, kPlenty, kPlenty), 0) << now_ms;
        EXPECT_FALSE(driver.booted());
    }
    EXPECT_LT(driver.step(13'000, 100, 512 * kMib, 256 * kMib, kPlenty, kPlenty), 0);
    EXPECT_TRUE(driver.booted());
}

TEST(SimBalloon, ADeadOneNeverFollows) {
    BalloonConfig config;
    config.dead = true;
    Bench bench(config);
    bench.target_kib = 300 * kMib;
    bench.run(60'000);
    EXPECT_EQ(bench.current_kib, 512 * kMib);
}

TEST(SimBalloon, SettlesOffItsTargetByItsOffset) {
    BalloonConfig config;
    config.offset_kib = -68 * 1024;
    Bench bench(config);
    bench.target_kib = 600 * kMib;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 532 * kMib);
    bench.target_kib = 10 * kMib;
    bench.run(1000);
    EXPECT_EQ(bench.current_kib, 0U);
}

}  // namespace
}  // namespace xenpack::sim
