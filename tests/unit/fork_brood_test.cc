// SPDX-License-Identifier: LGPL-2.1-or-later
// All or none: what watcher/fork/brood.h promises.
#include "watcher/fork/brood.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xenpack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Stage = Brood::Stage;

TEST(Brood, BeginsEachOnce) {
    Brood brood(2, Until::ready);
    EXPECT_EQ(brood.next(), 0U);
    brood.enter(0, Stage::building);
    EXPECT_EQ(brood.next(), 1U);
    brood.enter(1, Stage::building);
    EXPECT_EQ(brood.next(), std::nullopt);
    EXPECT_FALSE(brood.settled());
}

TEST(Brood, IsSettledWhenAllAreAsFarAsWasAsked) {
    for (const Until until : {Until::running, Until::ready}) {
        Brood brood(2, until);
        brood.enter(0, Stage::ready);
        brood.enter(1, Stage::running);
        EXPECT_EQ(brood.settled(), until == Until::running);
        brood.enter(1, Stage::ready);
        EXPECT_TRUE(brood.settled());
        EXPECT_THAT(brood.unwanted(), IsEmpty());
    }
}

TEST(Brood, OfOneThatHasFailedNothingStays) {
    Brood brood(4, Until::ready);
    brood.enter(0, Stage::ready);
    brood.enter(1, Stage::running);
    brood.enter(2, Stage::building);
    brood.give_up(Error{"first", 1});
    brood.give_up(Error{"second", 2});
    EXPECT_EQ(brood.failure()->what, "first");
    EXPECT_EQ(brood.next(), std::nullopt) << "no other is begun";
    EXPECT_THAT(brood.unwanted(), ElementsAre(0U, 1U));
    brood.enter(0, Stage::leaving);
    brood.enter(1, Stage::leaving);
    brood.enter(2, Stage::running);
    EXPECT_THAT(brood.unwanted(), ElementsAre(2U)) << "what could not be stopped comes, and goes";
    brood.enter(2, Stage::leaving);
    EXPECT_FALSE(brood.settled());
    for (std::size_t fork = 0; fork < 3; ++fork) {
        brood.enter(fork, Stage::gone);
    }
    EXPECT_TRUE(brood.settled()) << "the one that was never begun counts for nothing";
}

}  // namespace
}  // namespace xenpack
