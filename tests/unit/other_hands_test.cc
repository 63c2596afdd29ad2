// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/zones/other_hands.h promises: a person is told from a balancer, and known ones are
// named.
#include "watcher/zones/other_hands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/http_client_fixture.h"

namespace xenpack {
namespace {

using Verdict = OtherHands::Verdict;

TEST(OtherHands, OnceIsAPerson) {
    OtherHands hands;
    EXPECT_EQ(hands.note(1'000), Verdict::person);
    EXPECT_EQ(hands.note(2'000), Verdict::nothing) << "who corrects a slip is no balancer";
    EXPECT_FALSE(hands.balancer(2'000));
    EXPECT_EQ(hands.note(2'000 + kBalancerWithinMs), Verdict::person) << "another day";
}

TEST(OtherHands, AgainAndAgainIsABalancerAndSaidOnce) {
    OtherHands hands;
    EXPECT_EQ(hands.note(1'000), Verdict::person);
    EXPECT_EQ(hands.note(11'000), Verdict::nothing);
    EXPECT_EQ(hands.note(21'000), Verdict::balancer);
    EXPECT_EQ(hands.note(31'000), Verdict::nothing);
    EXPECT_TRUE(hands.balancer(31'000 + kBalancerShownMs - 1));
    EXPECT_FALSE(hands.balancer(31'000 + kBalancerShownMs));
}

TEST(OtherHands, ABalancerThatHasGoneAndComesBackIsSaidAgain) {
    OtherHands hands;
    for (const std::int64_t at_ms : {1'000, 2'000, 3'000}) {
        hands.note(at_ms);
    }
    const std::int64_t later_ms = 3'000 + 2 * kBalancerShownMs;
    EXPECT_EQ(hands.note(later_ms), Verdict::person);
    EXPECT_EQ(hands.note(later_ms + 1), Verdict::nothing);
    EXPECT_EQ(hands.note(later_ms + 2), Verdict::balancer);
}

class ProcTest : public ::testing::Test {
  protected:
    void process(const std::string& pid, const std::string& name, const std::string& arguments) {
        std::filesystem::create_directory(proc_ / pid);
        std::ofstream(proc_ / (pid + "/comm")) << name << '\n';
        std::ofstream(proc_ / (pid + "/cmdline")) << arguments;
    }
    testing::TemporaryDirectory directory_;
    const testing::TemporaryDirectory& proc_ = directory_;
    std::string path_ = directory_ / "";
};

TEST_F(ProcTest, NamesTheBalancersThatAreKnown) {
    process("900", "libvirtd", "");
    process("812", "qmemman", "");
    process("1", "systemd", "");
    process("self", "qubesd", "");
    process(std::to_string(getpid()), "xenpackd", "");
    EXPECT_EQ(known_balancers(path_), "qmemman (process 812), libvirtd (process 900)");
}

TEST_F(ProcTest, IsEmptyWhereNoneIsKnown) {
    process("7", "bash", "");
    std::filesystem::create_directory(directory_ / "8");  // it has just ended
    EXPECT_EQ(known_balancers(path_), "");
    EXPECT_EQ(known_balancers("/nowhere"), "");
}

TEST_F(ProcTest, SeesAnXlThatStartsADomainAndNoOther) {
    using namespace std::string_literals;
    process("5", "xl", "xl\0list\0"s);
    process("6", "bash", "xl\0create\0"s);
    EXPECT_FALSE(xl_is_starting(path_));
    process("7", "xl", "xl\0-v\0create\0web.cfg\0"s);
    EXPECT_TRUE(xl_is_starting(path_));
}

}  // namespace
}  // namespace xenpack
