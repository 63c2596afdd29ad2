// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/pressure/agents.h promises of keys that other agents write.
#include <gtest/gtest.h>

#include "watcher/pressure/agents.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kLimitKib = 1024 * 1024;

TEST(ParseKib, TakesPlainDigitsUpToTheLimit) {
    EXPECT_EQ(parse_kib("1", kLimitKib), 1U);
    EXPECT_EQ(parse_kib("4096", kLimitKib), 4096U);
    EXPECT_EQ(parse_kib("1048576", kLimitKib), kLimitKib);
}

class ParseKibRefuses : public testing::TestWithParam<std::string_view> {};

TEST_P(ParseKibRefuses, EverythingElse) {
    EXPECT_FALSE(parse_kib(GetParam(), kLimitKib));
}

INSTANTIATE_TEST_SUITE_P(GuestWritten, ParseKibRefuses,
                         testing::Values("", "0", "-1", "+1", " 1", "1 ", "a4096", "4096a",
                                         "4096 1024", "4096\n1024", "1048577", "0x10", "1e3",
                                         "99999999999999999999", "18446744073709551616",
                                         "000000000000000000001", std::string_view("1\0", 2)));

TEST(XenGuestAgent, UsedIsTotalWithoutFree) {
    const auto sample = parse_xen_guest_agent("40000", "100000", kLimitKib);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->agent, Agent::xen_guest_agent);
    EXPECT_EQ(sample->used_kib, 60000U);
    EXPECT_EQ(sample->total_kib, 100000U);
}

TEST(XenGuestAgent, RefusesMoreFreeThanTotal) {
    EXPECT_FALSE(parse_xen_guest_agent("100001", "100000", kLimitKib));
}

TEST(XenGuestAgent, RefusesATotalOverTheZonesMaximum) {
    EXPECT_FALSE(parse_xen_guest_agent("1", "1048577", kLimitKib));
}

TEST(Qubes, SaysOnlyWhatIsUsed) {
    const auto sample = parse_qubes("204800", kLimitKib);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->agent, Agent::qubes);
    EXPECT_EQ(sample->used_kib, 204800U);
    EXPECT_EQ(sample->total_kib, 0U);
}

TEST(Qubes, NamesTheKeyItCannotRead) {
    const auto sample = parse_qubes("lots", kLimitKib);
    ASSERT_FALSE(sample);
    EXPECT_NE(sample.error().what.find("memory/meminfo"), std::string::npos);
}

}  // namespace
}  // namespace xenpack
