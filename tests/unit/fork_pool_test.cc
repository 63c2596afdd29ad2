// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/fork/pool.h promises: never more than the most, never fewer made than can be, and a
// failure that repeats itself is tried ever more rarely.
#include "watcher/fork/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xenpack {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kNow = 1'000'000;

PoolPlan plan(const PoolRule& rule, const PoolSeen& seen, const PoolTrouble& trouble = {}) {
    return plan_pool(rule, seen, trouble, kNow);
}

TEST(Pool, MakesWhatIsMissing) {
    EXPECT_EQ(plan({4, {}}, {}).make, 4U);
    EXPECT_EQ(plan({4, {}}, {.standing = 1, .making = 2}).make, 1U);
    EXPECT_EQ(plan({4, {}}, {.standing = 2, .making = 2}).make, 0U);
    EXPECT_EQ(plan({4, {}}, {.standing = 4, .taken = 100}).make, 0U);
    EXPECT_EQ(plan({0, {}}, {}).make, 0U);
    EXPECT_EQ(plan({4, {}}, {}).why_not, "");
}

TEST(Pool, MakesAFewAtOnce) {
    EXPECT_EQ(plan({100, {}}, {}).make, kPoolMostMaking);
    EXPECT_EQ(plan({100, {}}, {.making = kPoolMostMaking - 1}).make, 1U);
    EXPECT_EQ(plan({100, {}}, {.making = kPoolMostMaking}).make, 0U);
    EXPECT_EQ(plan({100, {}}, {.making = kPoolMostMaking}).why_not, "") << "it is about to be full";
}

TEST(Pool, MakesOneMoreForEachWhoWaits) {
    EXPECT_EQ(plan({0, {}}, {.takers = 2}).make, 2U);
    EXPECT_EQ(plan({4, {}}, {.making = 4, .takers = 3}).make, 3U);
}

TEST(Pool, TheMostBoundsAllThatThereAre) {
    EXPECT_EQ(plan({4, 6}, {.standing = 1, .taken = 3}).make, 2U);
    const PoolPlan full = plan({4, 6}, {.standing = 1, .making = 1, .taken = 4});
    EXPECT_EQ(full.make, 0U);
    EXPECT_THAT(full.why_not, HasSubstr("there are 6, and there may be no more"));
    EXPECT_EQ(plan({4, 6}, {.standing = 2, .taken = 4}).give_up, 0U);
}

TEST(Pool, GivesUpWhatStandsTooMuch) {
    EXPECT_EQ(plan({2, {}}, {.standing = 5}).give_up, 3U);
    EXPECT_EQ(plan({2, {}}, {.standing = 5, .takers = 2}).give_up, 1U);
    EXPECT_EQ(plan({0, {}}, {.standing = 2, .no_template = "none"}).give_up, 2U);
    EXPECT_EQ(plan({3, 3}, {.standing = 3, .taken = 2}).give_up, 2U) << "the most was lowered";
    EXPECT_EQ(plan({3, 3}, {.standing = 1, .taken = 9}).give_up, 1U) << "the taken ones stay";
}

TEST(Pool, ThoseThatAreHeldAreThereAndGoFirst) {
    EXPECT_EQ(plan({4, {}}, {.standing = 1, .held = 2}).make, 1U);
    EXPECT_EQ(plan({1, {}}, {.held = 1, .takers = 1}).make, 1U) << "whichever comes first";
    EXPECT_EQ(plan({1, 1}, {.held = 1, .takers = 1}).make, 0U);
    EXPECT_EQ(plan({1, {}}, {.standing = 1, .held = 2}).give_up, 2U);
    EXPECT_EQ(plan({0, {}}, {.held = 1, .takers = 1}).give_up, 0U);
    EXPECT_EQ(plan({3, 3}, {.standing = 1, .held = 2, .taken = 2}).give_up, 2U);
}

TEST(Pool, WithoutATemplateItWaits) {
    const PoolPlan waits = plan({2, {}}, {.no_template = "there is no template x"});
    EXPECT_EQ(waits.make, 0U);
    EXPECT_EQ(waits.why_not, "there is no template x");
    EXPECT_EQ(plan({2, {}}, {.standing = 2, .no_template = "none"}).why_not, "")
        << "it lacks nothing";
}

TEST(Pool, ThatOneComesToBeEndsTheTroubleUnlessOthersHaveDied) {
    PoolTrouble trouble = after_failure({}, "no", true, kNow);
    EXPECT_EQ(after_success(trouble).failures, 0U);
    trouble = after_success(after_death(trouble, "dead", kNow));
    EXPECT_EQ(trouble.failures, 2U);
    EXPECT_EQ(trouble.why, "dead");
    trouble = after_success(after_failure(trouble, "no", true, kNow));
    EXPECT_EQ(trouble.failures, 3U);
    EXPECT_EQ(trouble.died_ms, kNow);
}

TEST(Pool, AFailureThatRepeatsItselfIsTriedEverMoreRarely) {
    PoolTrouble trouble;
    std::int64_t now_ms = kNow;
    std::int64_t last_wait_ms = 0;
    for (int i = 0; i < 100; ++i) {
        trouble = after_failure(trouble, "no", false, now_ms);
        const std::int64_t wait_ms = trouble.again_ms - now_ms;
        EXPECT_GE(wait_ms, kPoolAgainMs);
        EXPECT_TRUE(wait_ms > last_wait_ms || wait_ms == kPoolAgainMostMs);
        EXPECT_LE(wait_ms, kPoolAgainMostMs);
        last_wait_ms = wait_ms;
        const PoolPlan waits = plan_pool({2, {}}, {}, trouble, now_ms);
        EXPECT_EQ(waits.make, 0U);
        EXPECT_EQ(waits.why_not, "no");
        now_ms = trouble.again_ms;
        EXPECT_EQ(plan_pool({2, {}}, {}, trouble, now_ms).make, 1U) << "one shows whether it works";
        EXPECT_EQ(plan_pool({2, {}}, {.making = 1}, trouble, now_ms).make, 0U);
    }
    EXPECT_EQ(last_wait_ms, kPoolAgainMostMs);
}

TEST(Pool, WhatMayHaveEndedTheCauseEndsTheWaitButNotItsGrowth) {
    PoolTrouble trouble = after_failure({}, "no", true, kNow);
    trouble = after_failure(trouble, "no", true, kNow);
    EXPECT_TRUE(trouble.lacks_memory);
    trouble = try_again_now(trouble);
    EXPECT_EQ(plan({2, {}}, {}, trouble).make, 1U);
    trouble = after_failure(trouble, "no", true, kNow);
    EXPECT_EQ(trouble.again_ms - kNow, 4 * kPoolAgainMs);
}

void expect_sound(const PoolRule& rule, const PoolSeen& seen) {
    const PoolPlan p = plan(rule, seen);
    const std::size_t stand = seen.standing + seen.held;
    const std::size_t all = stand + seen.making + seen.taken;
    const std::size_t needed = rule.ready + seen.takers;
    EXPECT_TRUE(p.make == 0 || all + p.make <= rule.most.value());
    EXPECT_TRUE(p.make == 0 || p.give_up == 0);
    EXPECT_LE(p.give_up, stand);
    EXPECT_LE(stand + seen.making + p.make, std::max(stand + seen.making, needed));
    EXPECT_TRUE(all + p.make >= rule.most.value() || p.make > 0 || stand + seen.making >= needed);
}

TEST(Pool, NoCountLeadsOverTheMostOrUnderWhatIsNeeded) {
    constexpr std::size_t kBelow = 4;
    for (std::size_t n = 0; n < kBelow * kBelow * kBelow * kBelow * kBelow; ++n) {
        std::size_t rest = n;
        const auto next = [&] { return std::exchange(rest, rest / kBelow) % kBelow; };
        const PoolSeen seen{.standing = next(),
                            .held = next(),
                            .making = next(),
                            .taken = next(),
                            .takers = next()};
        for (std::size_t ready = 0; ready < kBelow; ++ready) {
            for (std::size_t most = 0; most < 6; ++most) {
                expect_sound({ready, most}, seen);
                if (HasFailure()) {
                    return;
                }
            }
        }
    }
}

}  // namespace
}  // namespace xenpack
