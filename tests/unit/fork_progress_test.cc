// SPDX-License-Identifier: LGPL-2.1-or-later
// What is made of what guests answer, and of their silence: watcher/fork/progress.h.
#include "watcher/fork/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace xenpack {
namespace {

using ::testing::HasSubstr;
using Word = GuestAnswer::Word;

constexpr const char* kGeneration = "01234567-89ab-cdef-0123-456789abcdef";

TEST(ForkProgress, OnlyAnAnswerToTheVeryRequestCounts) {
    EXPECT_EQ(parse_quiesced("token ok", "token").word, Word::good);
    EXPECT_EQ(parse_ready(std::string(kGeneration) + " ready", kGeneration).word, Word::good);
    for (const char* untrusted :
         {"", "ok", "token", "token ", "token ok ", "token okay", "token  ok", "tokenok",
          "other ok", "token ready", "TOKEN ok", "token failed", "token ok\n"}) {
        EXPECT_EQ(parse_quiesced(untrusted, "token").word, Word::none) << untrusted;
    }
    EXPECT_EQ(parse_quiesced(" ok", "").word, Word::none);
}

TEST(ForkProgress, AFailureIsOneLineThatNoGuestCanSteerATerminalWith) {
    const auto failed =
        parse_quiesced("token failed a hook\n\x1b[2J" + std::string(5000, 'x'), "token");
    EXPECT_EQ(failed.word, Word::failed);
    EXPECT_THAT(failed.why, HasSubstr("a hook  [2J"));
    EXPECT_LT(failed.why.size(), 300U);
    EXPECT_NE(parse_quiesced("token failed ", "token").why, "");
}

TEST(ForkProgress, WaitsUntilTheDeadline) {
    Patience patience{1'000};
    EXPECT_EQ(judge_ready({}, patience, 50), std::nullopt);
    EXPECT_EQ(patience.deadline_ms, 1'050);
    EXPECT_EQ(judge_ready({}, patience, 1'049), std::nullopt);
    const auto late = judge_ready({}, patience, 1'050);
    ASSERT_TRUE(late);
    EXPECT_EQ(late->error().code, ETIMEDOUT);
    EXPECT_THAT(late->error().what, HasSubstr("within 1.0 s: is xenpack-guest running in it?"));
}

TEST(ForkProgress, TimeInWhichItIsPausedDoesNotCount) {
    Patience patience{1'000};
    Seen paused;
    paused.paused = true;
    EXPECT_EQ(judge_ready(paused, patience, 0), std::nullopt);
    EXPECT_EQ(patience.deadline_ms, std::nullopt);
    EXPECT_EQ(judge_ready({}, patience, 5'000), std::nullopt);
    EXPECT_EQ(patience.deadline_ms, 6'000);
    EXPECT_EQ(judge_ready(paused, patience, 7'000), std::nullopt);
    EXPECT_EQ(judge_ready({}, patience, 8'000), std::nullopt);
}

TEST(ForkProgress, SaysWhatHasBecomeOfIt) {
    Patience patience{1'000};
    Seen seen;
    seen.answer = {Word::good, {}};
    EXPECT_TRUE(judge_quiet(seen, patience, 0)->has_value());
    seen.answer = {Word::failed, "no room"};
    EXPECT_THAT(judge_quiet(seen, patience, 0)->error().what, HasSubstr("no room"));
    EXPECT_EQ(judge_quiet(seen, patience, 0)->error().code, EREMOTEIO);
    seen.stopped = 3;
    EXPECT_THAT(judge_ready(seen, patience, 0)->error().what, HasSubstr("shut down (crash)"));
    seen.there = false;
    EXPECT_THAT(judge_ready(seen, patience, 0)->error().what, HasSubstr("has gone"));
}

TEST(ForkProgress, NamesEndsAndForks) {
    EXPECT_EQ(shutdown_name(0), "poweroff");
    EXPECT_EQ(shutdown_name(-1), "reason -1");
    EXPECT_EQ(shutdown_name(9), "reason 9");
    EXPECT_TRUE(is_suspend(2));
    EXPECT_FALSE(is_suspend(3));
    EXPECT_EQ(forks_sentence({"a"}), "1 fork lives: a");
    EXPECT_EQ(forks_sentence({"a", "b", "c"}), "3 forks live: a, b, c");
    EXPECT_EQ(forks_sentence({"a", "b", "c", "d", "e", "f", "g"}),
              "7 forks live: a, b, c, d, e and 2 more");
}

}  // namespace
}  // namespace xenpack
