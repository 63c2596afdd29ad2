// SPDX-License-Identifier: LGPL-2.1-or-later
// How samples become a trace: what is said in derive.h and in xenpack-trace(5).
#include <gtest/gtest.h>

#include "watcher/record/derive.h"

namespace xenpack::record {
namespace {

Sample at(std::int64_t ms) {
    Sample sample;
    sample.at_ms = ms;
    return sample;
}

Sample with_anon(std::int64_t ms, std::uint64_t anon_kib, std::uint64_t kernel_kib) {
    Sample sample = at(ms);
    sample.memory.anon_kib = anon_kib;
    sample.memory.kernel_kib = kernel_kib;
    return sample;
}

Look look(std::int64_t since_ms, bool last, Touched touched) {
    return Look{since_ms, last, touched};
}

TEST(RecordDerive, CountsTheKernelsMemoryAsNeededAndActive) {
    Sample end = with_anon(10'000, 1000, 50);
    end.look = look(0, true, {1000, 200, 0});
    const auto rows = derive_rows({with_anon(0, 1000, 50), end});
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[1].demand.anon_kib, 1050U);
    EXPECT_EQ(rows[1].demand.active_kib, 250U);
}

TEST(RecordDerive, TakesTheShareOfTheSpanThatARowIsIn) {
    std::vector<Sample> samples;
    for (std::int64_t ms = 0; ms <= 30'000; ms += 5'000) {
        samples.push_back(with_anon(ms, 1000, 0));
    }
    samples[2].look = look(0, true, {1000, 900, 0});
    samples[4].look = look(10'000, true, {1000, 100, 0});
    const auto rows = derive_rows(samples);
    EXPECT_EQ(rows[0].demand.active_kib, 900U);
    EXPECT_EQ(rows[1].demand.active_kib, 900U);
    EXPECT_EQ(rows[3].demand.active_kib, 100U);
    // Of the last span, which nobody looked at to its end, the one before must do.
    EXPECT_EQ(rows[6].demand.active_kib, 100U);
}

TEST(RecordDerive, TakesAllAsActiveWhereNothingCouldBeSeen) {
    const auto rows = derive_rows({with_anon(0, 700, 30), with_anon(500, 800, 30)});
    EXPECT_EQ(rows[1].demand.active_kib, 830U);
}

TEST(RecordDerive, TellsReadsFromTheCacheFromThoseFromTheDisk) {
    Sample first = at(0);
    Sample second = at(500);
    second.io = {3000, 1000, 0};
    second.memory.active_file_kib = 5000;
    const auto rows = derive_rows({first, second});
    EXPECT_EQ(rows[1].demand.cache_kib, 2000U);  // no more than was read
    EXPECT_EQ(rows[1].demand.read_kib_per_s, 4000U);
    EXPECT_EQ(rows[1].demand.stream_kib_per_s, 0U);  // what came became cache
}

TEST(RecordDerive, CallsAStreamWhatComesAndIsNotUsedAgain) {
    Sample second = at(1'000);
    second.io = {8000, 8000, 2000};
    const auto rows = derive_rows({at(0), second});
    EXPECT_EQ(rows[1].demand.cache_kib, 0U);
    EXPECT_EQ(rows[1].demand.read_kib_per_s, 0U);
    EXPECT_EQ(rows[1].demand.stream_kib_per_s, 10'000U);
}

TEST(RecordDerive, ForgetsCacheThatWasNotReadForAMinute) {
    std::vector<Sample> samples;
    for (std::int64_t ms = 0; ms <= 200'000; ms += 10'000) {
        Sample sample = at(ms);
        sample.memory.active_file_kib = 4000;
        sample.io.asked_kib = ms == 0 ? 0 : 9000;
        samples.push_back(sample);
    }
    const auto rows = derive_rows(samples);
    EXPECT_EQ(rows[1].demand.cache_kib, 4000U);
    EXPECT_EQ(rows[6].demand.cache_kib, 4000U);
    EXPECT_EQ(rows[7].demand.cache_kib, 0U);
    EXPECT_EQ(rows[20].demand.cache_kib, 0U);
}

TEST(RecordDerive, CountsRefaultedPagesAsUsedAgain) {
    Sample second = at(500);
    second.io = {9000, 3000, 0};
    second.memory.active_file_kib = 1000;
    second.memory.refaulted_kib = 700;
    EXPECT_EQ(derive_rows({at(0), second})[1].demand.cache_kib, 1700U);
}

TEST(RecordDerive, KeepsMappedPagesForAMinuteAndReadsThemByTheShortLook) {
    std::vector<Sample> samples;
    for (std::int64_t ms = 0; ms <= 120'000; ms += 1'000) {
        samples.push_back(at(ms));
    }
    samples[1].look = look(0, false, {0, 0, 300});
    samples[10].look = look(0, true, {0, 0, 800});
    samples[11].look = look(10'000, false, {0, 0, 20});
    const auto rows = derive_rows(samples);
    EXPECT_EQ(rows[0].demand.cache_kib, 800U);
    EXPECT_EQ(rows[5].demand.read_kib_per_s, 300U);
    EXPECT_EQ(rows[50].demand.cache_kib, 800U);
    EXPECT_EQ(rows[50].demand.read_kib_per_s, 20U);
    EXPECT_EQ(rows[70].demand.cache_kib, 20U);
    EXPECT_EQ(rows[100].demand.cache_kib, 0U);
}

TEST(RecordDerive, IsNotLedAstrayByCountersThatFall) {
    Sample first = at(0);
    first.io = {1'000'000, 500'000, 300'000};
    const auto rows = derive_rows({first, at(500)});
    EXPECT_EQ(rows[1].demand.read_kib_per_s, 0U);
    EXPECT_EQ(rows[1].demand.stream_kib_per_s, 0U);
}

TEST(RecordDerive, GivesRowsThatATraceTakes) {
    std::vector<Sample> samples{with_anon(40, 10, 1), with_anon(40, 11, 1), with_anon(600, 12, 1)};
    samples[1].look = look(0, true, {5, 5, 5});
    const auto rows = derive_rows(samples);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].at_ms, 0);
    EXPECT_EQ(rows[1].at_ms, 560);
    EXPECT_TRUE(sim::parse_trace(sim::format_trace({"a", "b", rows}), ""));
}

TEST(RecordDerive, TellsHowLongTheProgramWaited) {
    Sample first = at(0);
    Sample last = at(500);
    EXPECT_FALSE(stalled_us({first, last}));
    first.stalled_us = 100;
    last.stalled_us = 350;
    EXPECT_EQ(stalled_us({first, last}), 250U);
    EXPECT_FALSE(stalled_us({}));
}

}  // namespace
}  // namespace xenpack::record
