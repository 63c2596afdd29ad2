// SPDX-License-Identifier: LGPL-2.1-or-later
// Forking's rules and texts: what follows from what is seen, and that nothing lets a template's
// frozen workload run in a fork which has no identity.
#include "watcher/guest/forking.h"

#include <gtest/gtest.h>

#include <string>

namespace xenpack::guest {
namespace {

constexpr char kParent[] = "11111111-2222-3333-4444-555555555555";
constexpr char kChild[] = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee";

ForkKept quiesced(const std::string& generation = "") {
    ForkKept kept;
    kept.token = "t1";
    kept.quiesce = Outcome::done;
    kept.quiesced_in = generation;
    if (!generation.empty()) {
        kept.generation = generation;
        kept.identity = Outcome::done;
    }
    return kept;
}

ForkKept with_identity(ForkKept kept, const std::string& generation, Outcome outcome) {
    kept.generation = generation;
    kept.identity = outcome;
    kept.identity_why = outcome == Outcome::failed ? "a hook" : "";
    return kept;
}

TEST(Forking, AZoneThatIsNoForkAndIsNotAskedDoesNothing) {
    EXPECT_EQ(next_step({}, {}), ForkStep::none);
    EXPECT_FALSE(quiesced_answer({}, {}));
    EXPECT_FALSE(fork_answer({}, {}));
}

TEST(Forking, QuiescesOnceForAToken) {
    const ForkSeen asked{"t1", {}};
    EXPECT_EQ(next_step(asked, {}), ForkStep::quiesce);
    EXPECT_EQ(next_step(asked, quiesced()), ForkStep::none);
    EXPECT_EQ(quiesced_answer(asked, quiesced()), "t1 ok");
}

TEST(Forking, AQuiesceThatWasBrokenOffIsDoneAgainOrTakenBack) {
    ForkKept kept = quiesced();
    kept.quiesce = Outcome::pending;
    EXPECT_EQ(next_step({"t1", {}}, kept), ForkStep::quiesce);
    EXPECT_FALSE(quiesced_answer({"t1", {}}, kept));
    EXPECT_EQ(next_step({}, kept), ForkStep::resume);
}

TEST(Forking, AFailedQuiesceIsSaidAndNotRepeated) {
    ForkKept kept = quiesced();
    kept.quiesce = Outcome::failed;
    kept.quiesce_why = "hook x ended with status 1";
    EXPECT_EQ(next_step({"t1", {}}, kept), ForkStep::none);
    EXPECT_EQ(quiesced_answer({"t1", {}}, kept), "t1 failed hook x ended with status 1");
    EXPECT_EQ(next_step({}, kept), ForkStep::resume);
}

TEST(Forking, TakenBackInTheSameDomainItGoesOn) {
    EXPECT_EQ(next_step({}, quiesced()), ForkStep::resume);
    EXPECT_EQ(next_step({{}, kParent}, quiesced(kParent)), ForkStep::resume);
}

TEST(Forking, AnotherTokenIsForAnotherQuiesce) {
    EXPECT_EQ(next_step({"t2", {}}, quiesced()), ForkStep::resume);
    EXPECT_FALSE(quiesced_answer({"t2", {}}, quiesced()));
}

TEST(Forking, AForkGetsItsIdentityBeforeAnythingIsThawed) {
    for (const ForkSeen& seen :
         {ForkSeen{{}, kChild}, ForkSeen{"t1", kChild}, ForkSeen{"t2", kChild}}) {
        EXPECT_EQ(next_step(seen, quiesced()), ForkStep::identity);
        EXPECT_EQ(next_step(seen, quiesced(kParent)), ForkStep::identity);
        const auto pending = with_identity(quiesced(), kChild, Outcome::pending);
        EXPECT_EQ(next_step(seen, pending), ForkStep::identity);
        const auto given = with_identity(quiesced(), kChild, Outcome::done);
        EXPECT_EQ(next_step(seen, given), ForkStep::thaw);
        EXPECT_FALSE(fork_answer(seen, given)) << "the workload is frozen still";
    }
}

TEST(Forking, AForkIsReadyWhenItsWorkloadRuns) {
    const ForkSeen seen{{}, kChild};
    const auto kept = with_identity({}, kChild, Outcome::done);
    EXPECT_EQ(next_step(seen, kept), ForkStep::none);
    EXPECT_EQ(fork_answer(seen, kept), std::string(kChild) + " ready");
}

TEST(Forking, WithoutIdentityNothingIsEverThawed) {
    const auto kept = with_identity(quiesced(), kChild, Outcome::failed);
    for (const ForkSeen& seen :
         {ForkSeen{{}, kChild}, ForkSeen{"t1", kChild}, ForkSeen{"t2", kChild}}) {
        EXPECT_EQ(next_step(seen, kept), ForkStep::none);
        EXPECT_EQ(fork_answer(seen, kept), std::string(kChild) + " failed a hook");
    }
}

TEST(Forking, AFailedIdentityIsTriedAgainByTheNextStart) {
    const auto kept = started_anew(with_identity(quiesced(), kChild, Outcome::failed));
    EXPECT_EQ(next_step({{}, kChild}, kept), ForkStep::identity);
    EXPECT_EQ(kept.token, "t1");
    const auto given = with_identity(quiesced(), kChild, Outcome::done);
    EXPECT_EQ(started_anew(given), given);
}

TEST(Forking, AForkMayBecomeATemplateItself) {
    const ForkKept kept = with_identity({}, kChild, Outcome::done);
    EXPECT_EQ(next_step({"t9", kChild}, kept), ForkStep::quiesce);
    EXPECT_EQ(next_step({"t1", kChild}, quiesced(kChild)), ForkStep::none);
}

TEST(ForkText, WhatIsKeptComesBackTheSame) {
    for (const ForkKept& kept : {ForkKept{}, quiesced(), quiesced(kParent),
                                 with_identity(quiesced(kParent), kChild, Outcome::failed),
                                 with_identity({}, kChild, Outcome::done)}) {
        EXPECT_EQ(parse_kept(format_kept(kept)), kept);
    }
}

TEST(ForkText, DamagedRecordsAreRefused) {
    const std::string good = format_kept(quiesced(kParent));
    ASSERT_TRUE(parse_kept(good));
    for (std::size_t size = 0; size < good.size(); ++size) {
        EXPECT_FALSE(parse_kept(good.substr(0, size))) << size;
    }
    EXPECT_FALSE(parse_kept(good + "\n"));
    auto nonsense = quiesced();
    nonsense.quiesce = Outcome::failed;  // with no sentence
    EXPECT_FALSE(parse_kept(format_kept(nonsense)));
    nonsense = quiesced();
    nonsense.generation = "x";
    EXPECT_FALSE(parse_kept(format_kept(nonsense)));
}

TEST(ForkText, WordsAndGenerationsAreStrict) {
    EXPECT_TRUE(is_word("job-1.a_B"));
    EXPECT_TRUE(is_word(std::string(64, 'a')));
    for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"),
                                   std::string("a/b"), std::string("a\n"), std::string("\0", 1)}) {
        EXPECT_FALSE(is_word(bad)) << bad;
    }
    EXPECT_TRUE(is_generation(kChild));
    for (const std::string bad :
         {"", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeee", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeeee",
          "AAAAAAAA-bbbb-cccc-dddd-eeeeeeeeeeee", "aaaaaaaaabbbb-cccc-dddd-eeeeeeeeeeee",
          "gaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"}) {
        EXPECT_FALSE(is_generation(bad)) << bad;
    }
    EXPECT_TRUE(is_address("192.0.2.7/24 192.0.2.1"));
    EXPECT_FALSE(is_address("192.0.2.7\n"));
}

TEST(ForkText, ASeedIs64HexadecimalDigits) {
    std::array<std::uint8_t, kSeedBytes> seed{};
    EXPECT_TRUE(parse_seed(std::string(62, '0') + "fA", seed));
    EXPECT_EQ(seed[31], 0xfa);
    const std::array<std::uint8_t, kSeedBytes> zero{};
    for (const std::string& bad : {std::string(), std::string(63, 'a'), std::string(65, 'a'),
                                   std::string(63, 'a') + "g", std::string(63, 'a') + "\n"}) {
        EXPECT_FALSE(parse_seed(bad, seed)) << bad;
        EXPECT_EQ(seed, zero) << bad;
    }
}

TEST(ForkText, AMachineIdIsTheGenerationWithoutDashes) {
    EXPECT_EQ(machine_id_of(kChild), "aaaaaaaabbbbccccddddeeeeeeeeeeee\n");
}

TEST(ForkText, ASentenceIsOneBoundedLine) {
    EXPECT_EQ(as_sentence("a\nb\x80"), "a b ");
    EXPECT_EQ(as_sentence(std::string(1000, 'x')).size(), kSentenceMaxBytes);
    EXPECT_FALSE(as_sentence("").empty());
}

}  // namespace
}  // namespace xenpack::guest
