// SPDX-License-Identifier: LGPL-2.1-or-later
// fork() for whole machines, seen from the zone: the texts of a wish and its answers, and when a
// call waits, withdraws, returns and fails.
#include "watcher/guest/fork_call.h"

#include <gtest/gtest.h>

#include <map>

namespace xenpack::guest {
namespace {

using Word = CallVerdict::Word;

constexpr char kOld[] = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";
constexpr char kNew[] = "aaaaaaaa-bbbb-cccc-dddd-ffffffffffff";

// ---- texts --------------------------------------------------------------------------------------

TEST(ForkWishText, IsAnIdANumberAndPerhapsAPattern) {
    EXPECT_EQ(parse_wish("a1 3"), (ForkWish{"a1", 3, ""}));
    EXPECT_EQ(parse_wish("x 256 job-%d"), (ForkWish{"x", 256, "job-%d"}));
    EXPECT_EQ(format_wish({"a1", 3, ""}), "a1 3");
    EXPECT_EQ(format_wish({"a1", 3, "job-%d"}), "a1 3 job-%d");
}

TEST(ForkWishText, IsNothingElse) {
    for (const char* text : {"",
                             " ",
                             "a",
                             "a ",
                             "3",
                             "a 0",
                             "a 257",
                             "a 03",
                             "a -1",
                             "a +1",
                             "a 1 ",
                             " a 1",
                             "a  1",
                             "a 1 job",
                             "a 1 job-%d%d",
                             "a 1 %",
                             "a 1 a/%d",
                             "a 1 job-%d x",
                             "a 1\n",
                             "a\t1",
                             "a/b 1",
                             "a 1 --name x",
                             "a 99999999999999999999",
                             "a 1 %d%s"}) {
        EXPECT_FALSE(parse_wish(text)) << text;
    }
    EXPECT_FALSE(parse_wish(std::string(65, 'a') + " 1"));
    EXPECT_FALSE(parse_wish("a 1 " + std::string(63, 'a') + "%d"));
    EXPECT_FALSE(parse_wish(std::string("a 1\0", 4)));
}

TEST(ForkWishText, AnAnswerIsAcceptedRefusedOrAnIndex) {
    EXPECT_EQ(parse_answer("a accepted"), (WishAnswer{"a"}));
    EXPECT_EQ(parse_answer("a refused no room"),
              (WishAnswer{"a", WishAnswer::Word::refused, "no room"}));
    EXPECT_EQ(parse_answer("a not-now no room"),
              (WishAnswer{"a", WishAnswer::Word::not_now, "no room"}));
    EXPECT_EQ(format_answer({"a", WishAnswer::Word::not_now, ""}), "a not-now for no known reason");
    EXPECT_EQ(parse_answer("a 0"), (WishAnswer{"a", WishAnswer::Word::index, "", 0}));
    EXPECT_EQ(parse_answer("a 256"), (WishAnswer{"a", WishAnswer::Word::index, "", 256}));
    EXPECT_EQ(format_answer({"a", WishAnswer::Word::refused, "two\nlines"}), "a refused two lines");
    for (const char* text : {"", "a", "a ", "a accepted ", "a refused", "a refused ", "a not-now",
                             "a not-now ", "a 257", "a 00", "a yes", "accepted"}) {
        EXPECT_FALSE(parse_answer(text)) << text;
    }
}

// ---- the call -----------------------------------------------------------------------------------

TEST(ForkCall, WaitsForAnAnswerAndThenWithdraws) {
    CallState state{"w", 1'000};
    EXPECT_EQ(judge_call({}, state, 1'000).word, Word::wait);
    EXPECT_EQ(judge_call({"older accepted", {}, {}, {}}, state, 10'999).word, Word::wait)
        << "another's answer is none";
    EXPECT_EQ(judge_call({}, state, 11'000).word, Word::withdraw);
    state.withdrawn = true;
    const CallVerdict end = judge_call({}, state, 11'000);
    EXPECT_EQ(end.word, Word::failed);
    EXPECT_NE(end.why.find("xenpackd"), std::string::npos);
}

TEST(ForkCall, AnAnswerThatCameBeforeItWasWithdrawnCounts) {
    CallState state{"w", 0};
    EXPECT_EQ(judge_call({}, state, 10'000).word, Word::withdraw);
    state.withdrawn = true;
    EXPECT_EQ(judge_call({"w accepted", {}, {}, {}}, state, 10'000).word, Word::wait);
    EXPECT_FALSE(state.withdrawn);
    EXPECT_EQ(judge_call({"w accepted", {}, {}, {}}, state, 1'000'000).word, Word::wait)
        << "however long that takes";
}

TEST(ForkCall, AnAnswerThatHasGoneMayComeBackForAWhile) {
    CallState state{"w", 0};
    EXPECT_EQ(judge_call({"w accepted", {}, {}, {}}, state, 20'000).word, Word::wait);
    EXPECT_EQ(judge_call({}, state, 24'000).word, Word::wait);
    EXPECT_EQ(judge_call({}, state, 25'000).word, Word::withdraw);
    state.withdrawn = true;
    EXPECT_EQ(judge_call({}, state, 25'000).why, "the host has given it up");
}

TEST(ForkCall, ARefusalEndsIt) {
    CallState state{"w", 0};
    const CallVerdict end = judge_call({"w refused not here", {}, {}, {}}, state, 1);
    EXPECT_EQ(end.word, Word::failed);
    EXPECT_EQ(end.why, "not here");
    EXPECT_FALSE(end.later);
}

TEST(ForkCall, ARefusalForNowEndsItToo) {
    CallState state{"w", 0};
    const CallVerdict end = judge_call({"w not-now no memory", {}, {}, {}}, state, 1);
    EXPECT_EQ(end.word, Word::failed);
    EXPECT_EQ(end.why, "no memory");
    EXPECT_TRUE(end.later);
}

TEST(ForkCall, InAForkItReturnsOnceThatIsItself) {
    CallState state{"w", 0};
    const std::string generation = kNew;
    EXPECT_EQ(judge_call({{}, generation, "w 2", {}}, state, 1'000'000).word, Word::wait)
        << "and not before";
    EXPECT_EQ(judge_call({{}, generation, "w 2", std::string(kOld) + " ready"}, state, 1).word,
              Word::wait)
        << "what another has said";
    const CallVerdict end = judge_call({{}, generation, "w 2", generation + " ready"}, state, 1);
    EXPECT_EQ(end.word, Word::forked);
    EXPECT_EQ(end.index, 2U);
}

TEST(ForkCall, InAForkItFailsWhereThatIsNotWhatWasWished) {
    CallState state{"w", 0};
    const std::string generation = kNew;
    const std::string ready = generation + " ready";
    EXPECT_EQ(judge_call({{}, generation, {}, ready}, state, 1).word, Word::failed);
    EXPECT_EQ(judge_call({{}, generation, "other 1", ready}, state, 1).word, Word::failed);
    const CallVerdict alone = judge_call({{}, generation, "w refused no memory", ready}, state, 1);
    EXPECT_EQ(alone.word, Word::failed);
    EXPECT_EQ(alone.why, "no other fork could be made: no memory");
    EXPECT_EQ(judge_call({{}, generation, "w 1", generation + " failed a hook"}, state, 1).why,
              "this fork has no identity of its own: a hook");
}

// ---- what stands in the store after it ----------------------------------------------------------

class MemoryNodes : public Nodes {
  public:
    Expected<std::optional<std::string>> read(const std::string& path) override {
        const auto found = nodes.find(path);
        return found == nodes.end() ? std::nullopt : std::optional(found->second);
    }
    Expected<void> write(const std::string& path, std::string_view value) override {
        nodes[path] = value;
        return {};
    }
    std::map<std::string, std::string> nodes;
};

TEST(ForkCall, AWishThatWasRefusedDoesNotStayForWhoListensNext) {
    for (const char* word : {"refused", "not-now"}) {
        MemoryNodes nodes;
        nodes.nodes = {{kForkMePath, "w 2"}, {kForkMeAnswerPath, fmt::format("w {} why", word)}};
        CallState state{"w", 0, false, false, "w 2"};
        EXPECT_EQ(look_at_call(nodes, state, 1)->word, Word::failed);
        EXPECT_EQ(nodes.nodes.at(kForkMePath), "");
    }
}

TEST(ForkCall, AWishThatNobodyAnswersIsTakenBackAndLookedAtOnceMore) {
    MemoryNodes nodes;
    nodes.nodes = {{kForkMePath, "w 2"}};
    CallState state{"w", 0, false, false, "w 2"};
    EXPECT_EQ(look_at_call(nodes, state, 1)->word, Word::wait);
    EXPECT_EQ(nodes.nodes.at(kForkMePath), "w 2");
    EXPECT_EQ(look_at_call(nodes, state, kAnswerPatienceMs)->word, Word::withdraw);
    EXPECT_EQ(nodes.nodes.at(kForkMePath), "");
    EXPECT_TRUE(state.withdrawn);
    EXPECT_EQ(look_at_call(nodes, state, kAnswerPatienceMs)->word, Word::failed);
}

TEST(ForkCall, AnothersWishInItsPlaceIsLeftAlone) {
    MemoryNodes nodes;
    nodes.nodes = {{kForkMePath, "other 1"}};
    CallState state{"w", 0, false, false, "w 2"};
    EXPECT_EQ(look_at_call(nodes, state, kAnswerPatienceMs)->word, Word::withdraw);
    EXPECT_EQ(look_at_call(nodes, state, kAnswerPatienceMs)->word, Word::failed);
    EXPECT_EQ(nodes.nodes.at(kForkMePath), "other 1");
}

TEST(ForkCall, AnAcceptedWishStays) {
    MemoryNodes nodes;
    nodes.nodes = {{kForkMePath, "w 2"}, {kForkMeAnswerPath, "w accepted"}};
    CallState state{"w", 0, false, false, "w 2"};
    EXPECT_EQ(look_at_call(nodes, state, kAnswerPatienceMs)->word, Word::wait);
    EXPECT_EQ(nodes.nodes.at(kForkMePath), "w 2");
}

}  // namespace
}  // namespace xenpack::guest
