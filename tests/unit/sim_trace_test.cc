// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/trace.h promises: what a text may say, what is refused and where, and what a
// workload asks for between two rows.
#include "plugin/sim/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xenpack::sim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kHead = "xenpack-trace 1\n";

Expected<Trace> parse(std::string_view rows) {
    return parse_trace(std::string(kHead) + std::string(rows), "given");
}

std::string refusal(std::string_view rows) {
    const auto trace = parse(rows);
    return trace ? "accepted" : trace.error().what;
}

TEST(SimTrace, ReadsRowsNameAndOrigin) {
    const auto trace = parse(
        "# name: sort\n# origin: recorded, GNU sort\n# columns: t_ms and so on\n\n"
        "0 1200 800 300 0 0\n  500\t91204 88000  24000 60000 12000 \n");
    ASSERT_TRUE(trace) << trace.error().what;
    EXPECT_EQ(trace->name, "sort");
    EXPECT_EQ(trace->origin, "recorded, GNU sort");
    ASSERT_EQ(trace->rows.size(), 2U);
    EXPECT_EQ(trace->rows[1].at_ms, 500);
    const Demand& demand = trace->rows[1].demand;
    EXPECT_EQ(demand.anon_kib, 91204U);
    EXPECT_EQ(demand.active_kib, 88000U);
    EXPECT_EQ(demand.cache_kib, 24000U);
    EXPECT_EQ(demand.read_kib_per_s, 60000U);
    EXPECT_EQ(demand.stream_kib_per_s, 12000U);
    EXPECT_EQ(trace->length_ms(), 500);
    EXPECT_EQ(trace->peak_kib(), 91204U + 24000U);
}

TEST(SimTrace, TakesTheGivenNameWhereTheTextNamesNone) {
    EXPECT_EQ(parse("0 1 1 1 1 1")->name, "given");
    EXPECT_EQ(parse("# name:\n0 1 1 1 1 1")->name, "given");
}

TEST(SimTrace, RefusesWhatIsNoTrace) {
    EXPECT_THAT(parse_trace("", "x").error().what, StartsWith("line 1: "));
    EXPECT_THAT(parse_trace("0 1 1 1 1 1\n", "x").error().what, StartsWith("line 1: "));
    EXPECT_THAT(parse_trace("xenpack-trace 2\n0 1 1 1 1 1\n", "x").error().what,
                HasSubstr("xenpack-trace 1"));
    EXPECT_THAT(refusal("# name: x\n"), HasSubstr("no row"));
}

TEST(SimTrace, RefusesNegativeNumbersAndFractions) {
    EXPECT_THAT(refusal("0 1 1 1 1 1\n5 -1 0 0 0 0\n"), StartsWith("line 3: anon_kib"));
    EXPECT_THAT(refusal("0 1 1 1.5 0 0\n"), StartsWith("line 2: cache_kib"));
    EXPECT_THAT(refusal("0 1 1 +1 0 0\n"), StartsWith("line 2: cache_kib"));
    EXPECT_THAT(refusal("0 1 1 0x1 0 0\n"), StartsWith("line 2: cache_kib"));
    EXPECT_THAT(refusal("-1 1 1 1 0 0\n"), StartsWith("line 2: t_ms"));
}

TEST(SimTrace, RefusesNumbersTooLargeToBeAddedUp) {
    EXPECT_EQ(refusal("0 1099511627776 0 0 0 0\n"), "accepted");
    EXPECT_THAT(refusal("0 1099511627777 0 0 0 0\n"), HasSubstr("anon_kib is over"));
    EXPECT_THAT(refusal("0 99999999999999999999999 0 0 0 0\n"), HasSubstr("anon_kib is over"));
    EXPECT_THAT(refusal("0 1 1 1 1 1\n1099511627777 1 1 1 1 1\n"), HasSubstr("t_ms is over"));
}

TEST(SimTrace, RefusesARowOfTooFewOrTooManyNumbers) {
    EXPECT_THAT(refusal("0 1 1 1 1\n"), HasSubstr("stream_kib_s is missing"));
    EXPECT_THAT(refusal("0 1 1 1 1 1 1\n"), HasSubstr("more than 6"));
}

TEST(SimTrace, RefusesTimesThatDoNotAscendFromZero) {
    EXPECT_THAT(refusal("1 1 1 1 1 1\n"), HasSubstr("must be at 0 ms"));
    EXPECT_THAT(refusal("0 1 1 1 1 1\n10 1 1 1 1 1\n10 1 1 1 1 1\n"), StartsWith("line 4: "));
    EXPECT_THAT(refusal("0 1 1 1 1 1\n10 1 1 1 1 1\n9 1 1 1 1 1\n"), HasSubstr("not later"));
}

TEST(SimTrace, RefusesMoreActiveMemoryThanThereIs) {
    EXPECT_THAT(refusal("0 100 101 0 0 0\n"), HasSubstr("active_kib"));
}

TEST(SimTrace, RefusesMoreRowsThanTheMost) {
    std::string rows;
    for (std::size_t i = 0; i <= kTraceMaxRows; ++i) {
        rows += std::to_string(i) + " 0 0 0 0 0\n";
    }
    EXPECT_THAT(refusal(rows), HasSubstr("more than 1000000 rows"));
}

TEST(SimTrace, ChangesEvenlyBetweenRowsAndStaysBeyondThem) {
    const auto trace = parse("0 0 0 1000 0 0\n100 1000 500 0 0 0\n200 1000 500 0 0 0\n");
    ASSERT_TRUE(trace) << trace.error().what;
    EXPECT_EQ(trace->at(-5).cache_kib, 1000U);
    EXPECT_EQ(trace->at(0).anon_kib, 0U);
    EXPECT_EQ(trace->at(25).anon_kib, 250U);
    EXPECT_EQ(trace->at(25).active_kib, 125U);
    EXPECT_EQ(trace->at(1).active_kib, 5U);
    EXPECT_EQ(parse("0 0 0 0 0 0\n3 5 0 0 0 0\n")->at(1).anon_kib, 2U);
    EXPECT_EQ(parse("0 0 0 0 0 0\n3 5 0 0 0 0\n")->at(2).anon_kib, 3U);
    EXPECT_EQ(trace->at(25).cache_kib, 750U);
    EXPECT_EQ(trace->at(100).anon_kib, 1000U);
    EXPECT_EQ(trace->at(150).cache_kib, 0U);
    EXPECT_EQ(trace->at(1'000'000).active_kib, 500U);
}

TEST(SimTrace, ARememberedRowChangesNoAnswer) {
    const auto trace =
        parse("0 0 0 0 0 0\n10 90 0 0 0 0\n11 7 0 0 0 0\n40 80 0 0 0 0\n90 3 0 0 0 0\n");
    ASSERT_TRUE(trace) << trace.error().what;
    for (std::size_t remembered = 0; remembered < 8; ++remembered) {
        for (std::int64_t ms = -1; ms < 100; ++ms) {
            std::size_t row = remembered;
            EXPECT_EQ(trace->at(ms, row).anon_kib, trace->at(ms).anon_kib) << ms;
            EXPECT_EQ(trace->at(ms + 1, row).anon_kib, trace->at(ms + 1).anon_kib) << ms;
        }
    }
}

TEST(SimTrace, IsReadBackAsItWasWritten) {
    const auto trace = parse("# origin: by hand\n0 5 4 3 2 1\n7 50 40 30 20 10\n");
    ASSERT_TRUE(trace) << trace.error().what;
    const std::string text = format_trace(*trace);
    const auto again = parse_trace(text, "other");
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(again->name, "given");
    EXPECT_EQ(again->origin, "by hand");
    EXPECT_EQ(format_trace(*again), text);
    EXPECT_THAT(text, HasSubstr("\n7 50 40 30 20 10\n"));
}

TEST(SimTrace, ANameOfTwoLinesCannotForgeARow) {
    Trace trace{"a\n9 9 9 9 9 9", "b\n# name: c", {{0, {1, 1, 1, 1, 1}}}};
    const auto again = parse_trace(format_trace(trace), "other");
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(again->rows.size(), 1U);
    EXPECT_EQ(again->name, "a 9 9 9 9 9 9");
    EXPECT_EQ(again->origin, "b # name: c");
}

}  // namespace
}  // namespace xenpack::sim
