// SPDX-License-Identifier: LGPL-2.1-or-later
// qmemman's rules against the figures that Qubes OS' own tests expect (qubes/tests/qmemman.py).
#include <gtest/gtest.h>

#include "tests/bench/peers/qmemman.h"

namespace xenpack::bench::qmemman {
namespace {

constexpr std::uint64_t mb(double value) {
    return static_cast<std::uint64_t>(value * 1024 * 1024);
}

View domain(std::uint32_t id, std::optional<double> used_mb, double most_mb, double actual_mb) {
    View view;
    view.id = id;
    if (used_mb) {
        view.used = mb(*used_mb);
    }
    view.most = mb(most_mb);
    view.actual = mb(actual_mb);
    view.is_dom0 = id == 0;
    return view;
}

// The six domains of its tests; the first may be below its preference.
std::vector<View> six(double dom0_actual_mb) {
    return {domain(0, 1024, 4096, dom0_actual_mb), domain(1, 1024, 4096, 1536),
            domain(2, 4096, 4096, 4096),           domain(3, std::nullopt, 4096, 4096),
            domain(4, 1536, 4096, 1536),           domain(5, 512, 1024, 768)};
}

TEST(BenchQmemman, TakesOnlyDigitsForAReport) {
    EXPECT_EQ(parse_meminfo("4096"), 4096U * 1024);
    for (const char* text : {"", "a4096", "4096a", "4096 1024", "4096\n1024"}) {
        EXPECT_EQ(parse_meminfo(text), std::nullopt) << text;
    }
}

TEST(BenchQmemman, PrefersThreeTenthsMoreThanIsUsed) {
    EXPECT_EQ(preferred(domain(10, 1024, 4096, 0)), mb(1331.2));
    EXPECT_EQ(preferred(domain(10, 5000, 4096, 0)), mb(4096));
    EXPECT_EQ(preferred(domain(0, 1024, 4096, 0)), mb(1681.2));
    EXPECT_EQ(preferred(domain(0, 5000, 4096, 0)), mb(4096));
    EXPECT_EQ(needed(domain(10, 1024, 4096, 1024)), static_cast<std::int64_t>(mb(307.2)));
    EXPECT_EQ(needed(domain(10, 1024, 4096, 2024)), -static_cast<std::int64_t>(mb(692.800001)));
}

TEST(BenchQmemman, FreesForAStartInProportionToSurplus) {
    std::vector<View> views = {domain(0, 1024, 4096, 1736), domain(1, 1024, 4096, 1536),
                               domain(2, 4096, 4096, 4096), domain(3, std::nullopt, 4096, 4096)};
    EXPECT_TRUE(balloon(mb(400), views).empty());
    views[1].used = mb(512);
    const std::vector<Request> expected = {{0, 1794242737}, {1, 1196296014}};
    EXPECT_EQ(balloon(mb(400), views), expected);
}

TEST(BenchQmemman, HandsOutAllThereIs) {
    const std::vector<Request> expected = {
        {0, 3068708976}, {1, 2548378128}, {2, 4294967296}, {4, 3537898734}, {5, 1073741824}};
    EXPECT_EQ(share_plenty(six(1736), static_cast<double>(mb(4096))), expected);
}

TEST(BenchQmemman, InAShortageOnlyDonorsMoveAtFirst) {
    const std::vector<Request> expected = {{1, 1395864371}, {5, 697932185}};
    EXPECT_EQ(balance(static_cast<std::int64_t>(mb(50)), six(768)), expected);
}

}  // namespace
}  // namespace xenpack::bench::qmemman
