// SPDX-License-Identifier: LGPL-2.1-or-later
// Who is held and who goes on: what watcher/fork/guard.h promises, case by case, and on a host of a
// model where forks write as they like within the bound that is given.
#include "watcher/fork/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace xenpack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kMib = 1024;
// What one processor can take until the next look.
constexpr std::uint64_t kBurst = kDirtyKibPerMs * (kGuardLookMs + kGuardLateMs);

GuardFork idle(std::uint64_t private_mib, std::uint64_t size_mib) {
    GuardFork fork;
    fork.private_kib = private_mib * kMib;
    fork.size_kib = size_mib * kMib;
    return fork;
}
GuardFork growing(std::uint64_t private_mib, std::uint64_t size_mib, std::uint64_t growth_mib = 1) {
    GuardFork fork = idle(private_mib, size_mib);
    fork.grows = true;
    fork.growth_kib = growth_mib * kMib;
    return fork;
}
GuardFork held(std::uint64_t private_mib, std::uint64_t size_mib, std::int64_t since_ms) {
    GuardFork fork = idle(private_mib, size_mib);
    fork.runs = false;
    fork.held = true;
    fork.waits_since_ms = since_ms;
    return fork;
}
GuardView host(std::uint64_t spendable_kib, std::vector<GuardFork> forks, unsigned cpus = 4) {
    GuardView view;
    view.floor_kib = 72 * kMib;
    view.free_kib = view.floor_kib + spendable_kib;
    view.cpus = cpus;
    view.forks = std::move(forks);
    return view;
}

TEST(ForkGuard, WhereThereIsEnoughForAllNothingIsDoneAndNoTimerIsNeeded) {
    const GuardPlan plan = guard(host(200 * kMib, {growing(10, 100), growing(10, 100)}));
    EXPECT_THAT(plan.hold, IsEmpty());
    EXPECT_EQ(plan.wanted_kib, 0U);
    EXPECT_EQ(plan.lacking_kib, 0U);
    EXPECT_EQ(plan.look_in_ms, std::nullopt);
    EXPECT_EQ(guard(host(0, {})).look_in_ms, std::nullopt);
}

TEST(ForkGuard, AQuietHostNeedsNoTimerThoughForksArePromisedMoreThanThereIs) {
    const GuardPlan plan = guard(host(1024 * kMib, std::vector(100, idle(10, 256))));
    EXPECT_GT(plan.lacking_kib, 0U);
    EXPECT_EQ(plan.look_in_ms, std::nullopt);
    EXPECT_THAT(plan.hold, IsEmpty());
    EXPECT_EQ(plan.wanted_kib, 0U) << "nobody wants any";
}

TEST(ForkGuard, WhoGrowsIsLookedAtTheSoonerTheLessThereIs) {
    const auto in_ms = [](std::uint64_t spendable_mib) {
        return guard(host(spendable_mib * kMib, std::vector(8, growing(10, 2048)))).look_in_ms;
    };
    EXPECT_EQ(in_ms(90), kGuardLookMs);
    EXPECT_EQ(in_ms(4 * 50), 4 * kGuardLookMs);
    EXPECT_EQ(in_ms(2000), 32 * kGuardLookMs);
    EXPECT_EQ(in_ms(9000), kGuardSlowLookMs);
}

TEST(ForkGuard, BelowTheUpperMarkAQuietHostIsLookedAtToo) {
    const GuardPlan plan = guard(host(4 * kBurst, std::vector(8, idle(10, 256))));
    EXPECT_THAT(plan.hold, IsEmpty());
    EXPECT_EQ(plan.look_in_ms, kGuardLookMs);
}

TEST(ForkGuard, WhereLooksComeLateThoseThatGrowAreHeldSooner) {
    GuardView view = host(4 * kBurst, {idle(10, 2048), growing(10, 2048), growing(10, 2048)});
    EXPECT_THAT(guard(view).hold, IsEmpty());
    view.late_ms = kGuardLateMs + 4 * kGuardLookMs;
    EXPECT_THAT(guard(view).hold, ElementsAre(2U)) << "two of them could take all there is";
    view.late_ms = 10 * kGuardLatestMs;
    EXPECT_THAT(guard(view).hold, ElementsAre(2U, 1U));
    view.forks = std::vector(4, idle(10, 2048));
    EXPECT_THAT(guard(view).hold, IsEmpty()) << "who does not grow is not held for that";
}

TEST(ForkGuard, WhereLooksComeLateOneForWhichThereIsAllItLacksGoesOn) {
    GuardView view = host(4 * kBurst, {growing(10, 12), growing(10, 2048)});
    view.late_ms = kGuardLatestMs;
    EXPECT_THAT(guard(view).hold, ElementsAre(1U));
}

TEST(ForkGuard, ThoseThatGrowMostAreHeldFirst) {
    const std::vector<GuardFork> forks{idle(10, 2048), growing(10, 2048, 3), growing(10, 2048, 9),
                                       growing(600, 2048, 5)};
    // Not enough for all four to be their own size; nor for turns: 1448 is lacked at the least.
    EXPECT_THAT(guard(host(4 * kBurst, forks)).hold, IsEmpty());
    EXPECT_THAT(guard(host(4 * kBurst - 4, forks)).hold, ElementsAre(2U));
    EXPECT_THAT(guard(host(2 * kBurst, forks)).hold, ElementsAre(2U, 1U));
    EXPECT_THAT(guard(host(1 * kBurst, forks)).hold, ElementsAre(2U, 1U, 0U))
        << "the nearest to its end is the last";
    EXPECT_THAT(guard(host(kBurst - 4, forks)).hold, ElementsAre(2U, 3U, 1U, 0U))
        << "none, where there is no room even for one";
}

TEST(ForkGuard, AHostsProcessorsBoundWhatManyForksCanTake) {
    EXPECT_THAT(guard(host(2 * kBurst, std::vector(50, idle(10, 256)), 2)).hold, IsEmpty());
    GuardFork wide = idle(10, 256);
    wide.vcpus = 3;
    EXPECT_THAT(guard(host(2 * kBurst, {wide}, 4)).hold, ElementsAre(0U));
    EXPECT_THAT(guard(host(3 * kBurst, {wide}, 4)).hold, IsEmpty());
}

TEST(ForkGuard, OneThatLacksLittleNeedsLittleRoom) {
    EXPECT_THAT(guard(host(3 * kMib, {growing(97, 100)})).hold, IsEmpty());
    EXPECT_THAT(guard(host(3 * kMib, {held(97, 100, 5)})).let_go, ElementsAre(0U));
    EXPECT_THAT(guard(host(2 * kMib, {growing(97, 100)})).hold, ElementsAre(0U));
}

TEST(ForkGuard, WhereThereIsEnoughForOneAtATimeOneHasItsTurn) {
    const std::vector<GuardFork> forks{growing(100, 400), growing(200, 400), idle(5, 400)};
    EXPECT_THAT(guard(host(500 * kMib, forks)).hold, IsEmpty());
    EXPECT_THAT(guard(host(230 * kMib, forks)).hold, ElementsAre(0U)) << "the idle one runs on";
    const std::vector<GuardFork> next{held(100, 400, 1), idle(5, 400)};
    EXPECT_THAT(guard(host(430 * kMib, next)).let_go, ElementsAre(0U));
}

TEST(ForkGuard, WhatZonesCouldGiveCountsForTurnsAndNotForRoom) {
    GuardView view = host(4 * kBurst, {growing(100, 400), growing(200, 400)});
    view.could_come_kib = 400 * kMib;
    EXPECT_THAT(guard(view).hold, IsEmpty());
    EXPECT_GT(guard(view).wanted_kib, 0U);
    view.could_come_kib = 130 * kMib;
    EXPECT_THAT(guard(view).hold, ElementsAre(0U));
    view.free_kib = view.floor_kib + kMib;
    view.could_come_kib = 4096 * kMib;
    EXPECT_THAT(guard(view).hold, ElementsAre(1U, 0U));
}

TEST(ForkGuard, TheLongestHeldGoesFirstAndNoneBeforeIt) {
    const std::vector<GuardFork> forks{held(10, 2048, 30), held(10, 2048, 10), held(10, 2048, 20)};
    EXPECT_THAT(guard(host(kBurst - 4, forks)).let_go, IsEmpty());
    EXPECT_THAT(guard(host(2 * kBurst, forks)).let_go, ElementsAre(1U));
    EXPECT_EQ(guard(host(2 * kBurst, forks)).waiting, 2U);
    EXPECT_THAT(guard(host(4 * kBurst, forks)).let_go, ElementsAre(1U, 2U));
    EXPECT_THAT(guard(host(8192 * kMib, forks)).let_go, ElementsAre(1U, 2U, 0U));
}

TEST(ForkGuard, WhatIsAskedOfZonesIsEnoughForTheNextThatWaits) {
    for (const std::int64_t late_ms : {kGuardLateMs, 10 * kGuardLateMs, kGuardLatestMs}) {
        for (std::uint64_t spendable = 0; spendable <= 300; ++spendable) {
            GuardView view = host(spendable * kMib, {idle(40, 128), held(2, 128, 1)});
            view.late_ms = late_ms;
            view.could_come_kib = 400 * kMib;
            const GuardPlan plan = guard(view);
            if (plan.let_go.empty()) {
                view.free_kib = view.floor_kib + plan.wanted_by_waiting_kib;
                EXPECT_THAT(guard(view).let_go, ElementsAre(1U)) << spendable << ", " << late_ms;
                EXPECT_GE(plan.wanted_kib, plan.wanted_by_waiting_kib);
            }
        }
    }
}

TEST(ForkGuard, ItWaitsForTwiceTheRoomUnlessSoMuchCanNeverBeHad) {
    GuardView view = host(2 * kBurst - 4, {held(10, 2048, 1), held(10, 2048, 2)});
    view.could_come_kib = 4 * kMib;
    EXPECT_THAT(guard(view).let_go, IsEmpty()) << "it would be held again";
    EXPECT_EQ(guard(view).wanted_by_first_kib, 2 * kBurst);
    view.could_come_kib = 0;
    EXPECT_THAT(guard(view).let_go, ElementsAre(0U));
    EXPECT_EQ(guard(view).wanted_by_first_kib, kBurst);
}

TEST(ForkGuard, WhenNoneGoesOnItIsSaidWhoWouldBeNext) {
    const std::vector<GuardFork> forks{held(10, 2048, 30), held(10, 2048, 10), idle(5, 2048)};
    EXPECT_EQ(guard(host(kBurst - 4, forks)).stands_first, 1U);
    EXPECT_EQ(guard(host(kBurst, forks)).stands_first, std::nullopt);
    EXPECT_EQ(guard(host(kBurst - 4, {idle(5, 2048)})).stands_first, std::nullopt);
}

TEST(ForkGuard, WhatThoseThatGrowWantIsNotWantedByThoseThatWait) {
    const GuardPlan grow = guard(host(4 * kBurst, {growing(10, 2048), growing(10, 2048)}));
    EXPECT_EQ(grow.wanted_kib, 2 * kGuardStepKib + 2 * kBurst);
    EXPECT_EQ(grow.wanted_by_waiting_kib, 0U);
    EXPECT_EQ(grow.wanted_by_first_kib, kBurst) << "so that one of them runs on";
    const GuardPlan wait = guard(host(0, {held(10, 2048, 1), held(2040, 2048, 2)}));
    EXPECT_EQ(wait.wanted_by_waiting_kib, kGuardStepKib + 8 * kMib);
    EXPECT_EQ(wait.wanted_kib, wait.wanted_by_waiting_kib);
}

TEST(ForkGuard, OneThatStarvedIsFedWhenItMayGoOnAndHeldUntilThen) {
    GuardFork starved = idle(10, 2048);
    starved.starved = true;
    GuardPlan plan = guard(host(0, {starved}));
    EXPECT_THAT(plan.hold, ElementsAre(0U)) << "its other processors run";
    EXPECT_THAT(plan.feed, IsEmpty());
    EXPECT_GT(plan.wanted_kib, 0U);
    EXPECT_EQ(plan.look_in_ms, kGuardWaitLookMs) << "what comes back may come untold";
    plan = guard(host(400 * kMib, {starved}));
    EXPECT_THAT(plan.hold, IsEmpty());
    EXPECT_THAT(plan.feed, ElementsAre(0U));
    starved.runs = false;
    starved.held = true;
    plan = guard(host(400 * kMib, {starved}));
    EXPECT_THAT(plan.feed, ElementsAre(0U));
    EXPECT_THAT(plan.let_go, ElementsAre(0U));
}

TEST(ForkGuard, WhomSomebodyElseHasPausedIsLeftAlone) {
    GuardFork paused = growing(10, 2048);
    paused.runs = false;
    const GuardPlan plan = guard(host(0, {paused}));
    EXPECT_THAT(plan.hold, IsEmpty());
    EXPECT_THAT(plan.let_go, IsEmpty());
    EXPECT_EQ(plan.waiting, 0U);
    EXPECT_EQ(plan.wanted_kib, 0U);
}

// ---- a host of a model --------------------------------------------------------------------------

constexpr std::uint64_t kVirqKib = 64 * kMib;

struct Writer {
    GuardFork fork;
    std::uint64_t needs_kib = 0;  // it ends when it has written that much
    std::int64_t rests_until_ms = 0;
    std::int64_t last_grew_ms = -1'000'000;
    std::uint64_t seen_kib = 0;  // at the last look
    bool ended = false;
};

class Model {
  public:
    Model(unsigned seed, unsigned cpus) : random_(seed), cpus_(cpus) {}

    std::uint64_t draw(std::uint64_t from, std::uint64_t to) {
        return std::uniform_int_distribution<std::uint64_t>(from, to)(random_);
    }
    void add(std::uint64_t size_mib, std::uint64_t needs_mib, unsigned vcpus) {
        Writer writer;
        writer.fork = idle(2, size_mib);
        writer.fork.vcpus = vcpus;
        writer.needs_kib = needs_mib * kMib;
        writers.push_back(writer);
    }
    [[nodiscard]] bool all_ended() const {
        return std::ranges::all_of(writers, [](const Writer& each) { return each.ended; });
    }

    // A millisecond: each processor of the host writes for one fork at most.
    void pass_ms() {
        ++now_ms;
        std::uint64_t left_kib = cpus_ * kDirtyKibPerMs;
        const std::size_t first = draw(0, writers.size() - 1);
        for (std::size_t i = 0; i < writers.size(); ++i) {
            Writer& writer = writers[(first + i) % writers.size()];
            if (writer.ended || !writer.fork.runs || now_ms < writer.rests_until_ms) {
                continue;
            }
            std::uint64_t kib = std::min({writer.fork.vcpus * kDirtyKibPerMs, left_kib,
                                          writer.needs_kib - writer.fork.private_kib});
            ran_out = ran_out || kib >= free_kib;
            kib = std::min(kib, free_kib);
            left_kib -= kib;
            free_kib -= kib;
            writer.fork.private_kib += kib;
            if (draw(0, 400) == 0) {
                writer.rests_until_ms = now_ms + static_cast<std::int64_t>(draw(1, rests_most_ms));
            }
            if (writer.fork.private_kib == writer.needs_kib) {
                free_kib += writer.fork.private_kib;
                writer.fork.private_kib = 0;
                writer.ended = true;
                look_at_ms = std::min(look_at_ms, now_ms + 1);  // an event tells
            }
        }
        least_free_kib = std::min(least_free_kib, free_kib);
        if (free_kib <= kVirqKib && !virq_said) {
            virq_said = true;
            look_at_ms = std::min(look_at_ms, now_ms + 5);
        }
        if (now_ms >= look_at_ms) {
            look();
        }
    }
    // Says whether all have ended within the time.
    bool run(std::int64_t most_ms) {
        for (const std::int64_t end_ms = now_ms + most_ms; now_ms < end_ms && !all_ended();) {
            pass_ms();
        }
        return all_ended();
    }

    void look() {
        GuardView view;
        view.free_kib = free_kib;
        view.floor_kib = floor_kib;
        view.cpus = cpus_;
        std::vector<Writer*> seen;
        for (Writer& writer : writers) {
            if (writer.ended) {
                continue;
            }
            GuardFork& fork = writer.fork;
            fork.growth_kib = fork.private_kib - std::min(fork.private_kib, writer.seen_kib);
            writer.last_grew_ms = fork.growth_kib > 0 ? now_ms : writer.last_grew_ms;
            writer.seen_kib = fork.private_kib;
            fork.grows = now_ms - writer.last_grew_ms < 1'000;
            seen.push_back(&writer);
            view.forks.push_back(fork);
        }
        const GuardPlan plan = guard(view);
        for (const std::size_t i : plan.hold) {
            seen[i]->fork.runs = false;
            seen[i]->fork.held = true;
            seen[i]->fork.waits_since_ms = now_ms;
            ++holds;
        }
        for (const std::size_t i : plan.let_go) {
            seen[i]->fork.runs = true;
            seen[i]->fork.held = false;
            seen[i]->last_grew_ms = now_ms;
        }
        virq_said = free_kib <= kVirqKib;
        // As late as may be.
        look_at_ms = plan.look_in_ms ? now_ms + *plan.look_in_ms +
                                           static_cast<std::int64_t>(draw(0, kGuardLateMs))
                                     : std::numeric_limits<std::int64_t>::max();
    }

    std::vector<Writer> writers;
    std::uint64_t free_kib = 0;
    std::uint64_t floor_kib = 72 * kMib;
    std::uint64_t least_free_kib = ~std::uint64_t{0};
    std::int64_t now_ms = 0;
    std::int64_t look_at_ms = 1;
    unsigned holds = 0;
    bool ran_out = false;
    std::uint64_t rests_most_ms = 3'000;
    bool virq_said = false;

  private:
    std::mt19937 random_;
    unsigned cpus_;
};

// Forks that are together far above what there is, a hog that goes, and then there is enough.
TEST(ForkGuardModel, MemoryNeverRunsOutAndAllEndOnceAHogHasGone) {
    unsigned holds = 0;
    for (unsigned seed = 0; seed < 100; ++seed) {
        Model model(seed, 1 + seed % 5);
        const std::size_t forks = model.draw(2, 12);
        std::uint64_t needs_kib = 0;
        for (std::size_t i = 0; i < forks; ++i) {
            const std::uint64_t size_mib = model.draw(64, 2048);
            model.add(size_mib, model.draw(size_mib / 2, size_mib),
                      static_cast<unsigned>(model.draw(1, 3)));
            needs_kib += model.writers.back().needs_kib;
        }
        model.free_kib = model.floor_kib + model.draw(needs_kib / 8, needs_kib);
        const bool alone = model.run(20'000);
        EXPECT_FALSE(model.ran_out) << "seed " << seed;
        EXPECT_GT(model.least_free_kib, 0U) << "seed " << seed;
        if (!alone) {
            model.free_kib += needs_kib;  // the hog's
        }
        EXPECT_TRUE(model.run(60'000)) << "seed " << seed;
        EXPECT_FALSE(model.ran_out) << "seed " << seed;
        holds += model.holds;
    }
    EXPECT_GT(holds, 60U) << "else nothing has been tried";
}

// Too little for all at once; but each fits while the others are small.
TEST(ForkGuardModel, AllEndInTurnWhereEachFitsAlone) {
    for (unsigned seed = 0; seed < 100; ++seed) {
        Model model(1000 + seed, 1 + seed % 4);
        model.rests_most_ms = 900;  // who rests for longer is not known to want more
        const std::size_t forks = model.draw(2, 10);
        std::uint64_t largest_kib = 0;
        for (std::size_t i = 0; i < forks; ++i) {
            const std::uint64_t size_mib = model.draw(64, 1024);
            model.add(size_mib, size_mib, static_cast<unsigned>(model.draw(1, 2)));
            largest_kib = std::max(largest_kib, model.writers.back().needs_kib);
        }
        model.free_kib = model.floor_kib + largest_kib;
        ASSERT_TRUE(model.run(120'000)) << "seed " << seed;
        EXPECT_FALSE(model.ran_out) << "seed " << seed;
    }
}

}  // namespace
}  // namespace xenpack
