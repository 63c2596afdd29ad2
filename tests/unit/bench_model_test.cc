// SPDX-License-Identifier: LGPL-2.1-or-later
// What tests/bench/model promises: the lab's lines are read whole or refused with the reason, the
// same run is no distance from itself, and what is too far apart is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plugin/sim/host.h"
#include "tests/bench/model/compare.h"

namespace xenpack::bench {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMib = 1024;

std::string zone_line(std::int64_t at_ms, std::uint64_t current_kib, std::int64_t place_ms,
                      std::uint64_t anon_kib, std::uint64_t stall_us = 0) {
    return fmt::format(
        "data zone {} web current={} target={} ms={} anon={} file=0 stall_us={} total=240000 "
        "free={} available=100000 refaults=0 kills=0 held=0 high=0\n",
        at_ms, current_kib, current_kib, place_ms, anon_kib, stall_us, 200'000 - anon_kib);
}

// Twenty seconds of a zone of 300 MiB whose workload grows by 80 MiB and was seen each half second.
std::string lab_text() {
    std::string text =
        "== model on oxenstored\n"
        "data trace web xenpack-trace 1\r\n"
        "data trace web 0 10240 1024 0 0 0\n"
        "data trace web 10000 10240 1024 0 0 0\n"
        "data trace web 12000 92160 1024 0 0 0\n"
        "data trace web 20000 92160 1024 0 0 0\n"
        "data daemon 5000 start_reserve_kib=0 memory_kib=262144 "
        "max_memory_kib=655360\n"
        "ok - something else\n";
    for (std::int64_t ms = 0; ms <= 20'000; ms += 500) {
        text += fmt::format("data host {} total=4000000 free=2000000\n", 7000 + ms);
        text += zone_line(7000 + ms, 300 * kMib, ms, ms < 11'000 ? 10 * kMib : 90 * kMib);
    }
    return text +
           "data followed web ms=20000 stall_us=0 touch_kib_per_s=50000 disk_kib_per_s=0\n"
           "data log xenpackd: web (1): grow\n";
}

// As if the simulated host had done the same.
Replay same(const LabRun& run) {
    Replay replay;
    replay.zones.resize(1);
    for (const LabSample& sample : run.zones[0].samples) {
        const WorkloadSample& inside = run.zones[0].workload_at(sample.at_ms);
        replay.zones[0].push_back({sample.at_ms, sample.current_kib, sample.target_kib,
                                   inside.place_ms, inside.total_kib, inside.available_kib,
                                   inside.stall_us, 0});
    }
    return replay;
}

std::size_t failures(const std::vector<Finding>& findings) {
    return static_cast<std::size_t>(std::count_if(
        findings.begin(), findings.end(), [](const Finding& found) { return !found.good; }));
}

TEST(LabRun, IsReadFromTheLinesOfACase) {
    const auto run = parse_lab_run(lab_text());
    ASSERT_TRUE(run) << run.error().what;
    ASSERT_EQ(run->zones.size(), 1U);
    const LabZone& zone = run->zones[0];
    EXPECT_EQ(zone.name, "web");
    EXPECT_EQ(zone.trace.rows.size(), 4U);
    EXPECT_EQ(zone.samples.size(), 41U);
    EXPECT_EQ(zone.workload.size(), 41U);
    EXPECT_EQ(zone.began_ms(), 7000);
    EXPECT_EQ(zone.at(7600).at_ms, 7500);
    EXPECT_EQ(zone.workload_at(0).at_ms, 7000);
    EXPECT_EQ(run->host_at(9999).free_kib, 2'000'000U);
    EXPECT_EQ(run->max_memory_kib, 640 * kMib);
}

TEST(LabRun, WhatIsNotWholeIsRefusedWithTheReason) {
    const auto refused = [](const std::string& text) {
        const auto run = parse_lab_run(text);
        return run ? "was taken" : run.error().what;
    };
    EXPECT_THAT(refused(""), HasSubstr("are not the results"));
    EXPECT_THAT(refused(lab_text() + "data host 9 total=1\n"), HasSubstr("data host 9 total=1"));
    EXPECT_THAT(refused(lab_text() + "data zone x web current=1 target=1\n"), HasSubstr("line "));
    EXPECT_THAT(refused(lab_text() + "data zone 9 web current=-1 target=1\n"), HasSubstr("line "));
    EXPECT_THAT(refused(lab_text() + "data trace web 3 1\n"), HasSubstr("web: line 6"));
    EXPECT_THAT(refused(lab_text() + "data trace db xenpack-trace 1\ndata trace db 0 0 0 0 0 0\n"),
                HasSubstr("db: there is no sample"));
}

TEST(Replay, TakesFromTheRunWhatTheMachineIs) {
    const auto run = parse_lab_run(lab_text());
    ASSERT_TRUE(run);
    const Machine machine = machine_of(*run);
    EXPECT_EQ(machine.base_kib, std::vector<std::uint64_t>{40'000});
    // No balloon was seen to move, and no disk to be read.
    EXPECT_EQ(machine.balloon_kib_per_s, sim::BalloonConfig{}.kib_per_s);
    EXPECT_EQ(machine.disk_kib_per_s[0], sim::GuestConfig{}.disk_kib_per_s);
}

TEST(Replay, FollowsWhatTheWorkloadDidOnAHostAsLarge) {
    const auto run = parse_lab_run(lab_text());
    ASSERT_TRUE(run);
    const Replay replay = bench::replay(*run, machine_of(*run));
    ASSERT_EQ(replay.zones[0].size(), 41U);
    const ReplaySample& first = replay.zones[0].front();
    const ReplaySample& last = replay.zones[0].back();
    EXPECT_EQ(first.current_kib, 300 * kMib);
    EXPECT_NEAR(static_cast<double>(replay.host.front().free_kib), 2'000'000, 1);
    EXPECT_EQ(last.kills, 0U);
    EXPECT_GE(last.total_kib - last.available_kib,
              first.total_kib - first.available_kib + 79 * kMib);
    EXPECT_GE(last.current_kib, 300 * kMib);
}

TEST(Compare, ARunIsNoDistanceFromItself) {
    const auto run = parse_lab_run(lab_text());
    ASSERT_TRUE(run);
    const std::vector<Distance> apart = distances(*run, same(*run));
    ASSERT_EQ(apart.size(), 1U);
    EXPECT_EQ(apart[0].mean_kib, 0);
    EXPECT_EQ(apart[0].largest_kib, 0);
    EXPECT_EQ(apart[0].used_mean_kib, 0);
    EXPECT_EQ(apart[0].lag_lab_ms, apart[0].lag_model_ms);
    EXPECT_EQ(failures(judge(apart, *run, bounds())), 0U);
}

TEST(Compare, WhatIsTooFarApartIsFound) {
    const auto run = parse_lab_run(lab_text());
    ASSERT_TRUE(run);
    Replay other = same(*run);
    for (std::size_t i = 20; i < other.zones[0].size(); ++i) {
        ReplaySample& sample = other.zones[0][i];
        sample.current_kib += 400 * kMib;
        sample.total_kib += 400 * kMib;
        sample.stall_us = 12'000'000;
        sample.kills = 1;
    }
    const std::vector<Distance> apart = distances(*run, other);
    EXPECT_EQ(apart[0].largest_kib, 400.0 * kMib);
    EXPECT_EQ(apart[0].largest_ms, 10'000);
    EXPECT_NEAR(apart[0].mean_kib, 205 * kMib, 10 * kMib);
    EXPECT_NEAR(apart[0].mean_percent, 68, 4);
    EXPECT_EQ(apart[0].stall_model_ms, 12'000U);
    // All but what the kernel keeps to itself, which is as it was at the beginning; and the lag.
    EXPECT_GE(failures(judge(apart, *run, bounds())), 5U);
}

}  // namespace
}  // namespace xenpack::bench
