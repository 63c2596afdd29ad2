// SPDX-License-Identifier: LGPL-2.1-or-later
// What an experiment promises: starts one after another, counting, and how many zones fit.
#include "watcher/simulate/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "tests/bench/peers/peer.h"

namespace xenpack::simulate {
namespace {

constexpr std::uint64_t kMib = 1024;

std::shared_ptr<const sim::Trace> trace_of(std::vector<sim::TraceRow> rows) {
    return std::make_shared<const sim::Trace>(sim::Trace{"test", "", std::move(rows)});
}

sim::Demand anon(std::uint64_t mib) {
    return {mib * kMib, mib * kMib, 0, 0, 0};
}

// 100 MiB, and for ten seconds of each minute 300.
std::shared_ptr<const sim::Trace> pulse() {
    return trace_of({{0, anon(100)},
                     {30'000, anon(100)},
                     {31'000, anon(300)},
                     {41'000, anon(300)},
                     {41'100, anon(100)},
                     {60'000, anon(100)}});
}

Setup setup_of(std::shared_ptr<const sim::Trace> trace, std::uint64_t host_mib, unsigned zones) {
    Setup setup;
    setup.host.total_kib = host_mib * kMib;
    setup.traces = {std::move(trace)};
    setup.zones = zones;
    setup.duration_ms = 200'000;
    return setup;
}

// Starts zones small, and gives those that stall what they lack after a while.
class Late : public bench::Peer {
  public:
    explicit Late(std::int64_t late_ms) : Peer("late"), late_ms_(late_ms) {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override {
        return start_with(200 * kMib, size_for_peak_kib(peak_kib));
    }
    void step(sim::Host& host, std::int64_t now_ms) override {
        for (const auto& domain : host.domains()) {
            const sim::GuestStats& stats = domain->guest.stats();
            std::int64_t& since_ms = since_ms_[domain->domid];
            if (!stats.stalls_now || stats.lacks_kib == 0) {
                since_ms = now_ms;
            } else if (now_ms - since_ms >= late_ms_) {
                set_target(host, *domain, domain->config.max_memory_kib);
            }
        }
    }

  private:
    std::int64_t late_ms_;
    std::map<std::uint32_t, std::int64_t> since_ms_;
};

// A workload whose cache does not fit: it stalls, and is not killed.
std::shared_ptr<const sim::Trace> reader() {
    return trace_of({{0, {60 * kMib, 60 * kMib, 400 * kMib, 100 * kMib, 0}},
                     {60'000, {60 * kMib, 60 * kMib, 400 * kMib, 100 * kMib, 0}}});
}

TEST(Experiment, StartsAllThatFitAndRefusesTheRest) {
    auto setup = setup_of(pulse(), 0, 5);
    setup.host.total_kib = 3 * sim::Host::start_cost_kib(
                                   make_static_policy()->zone_config(setup.traces[0]->peak_kib()));
    const auto policy = make_static_policy();
    const Outcome outcome = run(setup, *policy);
    EXPECT_EQ(outcome.zones_started, 3U);
    EXPECT_EQ(outcome.zones_refused, 2U);
    EXPECT_EQ(outcome.oom_kills, 0U);
    EXPECT_EQ(outcome.stalled_ms, 0U);
}

TEST(Experiment, TheSameSeedGivesTheSameRun) {
    auto setup = setup_of(reader(), 4000, 4);
    setup.sample = true;
    const auto once = [&] {
        Late policy(500);
        return run(setup, policy);
    };
    const Outcome first = once();
    const Outcome second = once();
    EXPECT_EQ(first.stalled_ms, second.stalled_ms);
    EXPECT_EQ(first.stall_to_grant_ms, second.stall_to_grant_ms);
    ASSERT_EQ(first.samples.size(), second.samples.size());
    EXPECT_EQ(first.samples.back().current_kib, second.samples.back().current_kib);
}

TEST(Experiment, AnotherSeedPutsZonesElsewhereInTheirTraces) {
    auto setup = setup_of(pulse(), 4000, 4);
    setup.sample = true;
    std::vector<std::vector<std::uint64_t>> seen;
    for (setup.seed = 1; setup.seed <= 2; ++setup.seed) {
        const auto policy = make_static_policy();
        seen.emplace_back();
        for (const Sample& sample : run(setup, *policy).samples) {
            seen.back().push_back(
                std::accumulate(sample.ease_kib.begin(), sample.ease_kib.end(), std::uint64_t{0}));
        }
    }
    EXPECT_NE(seen[0], seen[1]);
}

TEST(Experiment, CountsTimeOfAllZonesAfterTheWarmUp) {
    const auto setup = setup_of(pulse(), 4000, 4);
    const auto policy = make_static_policy();
    const Outcome outcome = run(setup, *policy);
    // A fifth of 200 s is the warm-up.
    EXPECT_NEAR(static_cast<double>(outcome.zone_ms), 4.0 * 160'000, 4 * 200);
    EXPECT_NEAR(static_cast<double>(outcome.worked_ms), 4.0 * 160'000, 4 * 1'000);
    EXPECT_GT(outcome.mean_held_kib, outcome.mean_ease_kib);
}

TEST(Experiment, AStallThatNobodyEndsCountsWithItsWholeLength) {
    const auto setup = setup_of(reader(), 4000, 1);
    Late never(1'000'000'000);
    const Outcome outcome = run(setup, never);
    ASSERT_FALSE(outcome.stall_to_grant_ms.empty());
    EXPECT_GE(*std::max_element(outcome.stall_to_grant_ms.begin(), outcome.stall_to_grant_ms.end()),
              150'000);
    EXPECT_GT(outcome.stalled_share(), 0.1);
}

TEST(Experiment, AGrantEndsAStallWhenItsMemoryHasCome) {
    // Once the cache has shrunk and the zone with it, each return of the demand stalls anew.
    class Squeezing : public Late {
      public:
        Squeezing() : Late(3'000) {}
        void step(sim::Host& host, std::int64_t now_ms) override {
            Late::step(host, now_ms);
            if (now_ms % 50'000 == 0) {
                for (const auto& domain : host.domains()) {
                    set_target(host, *domain, 200 * kMib);
                }
            }
        }
    };
    const auto setup = setup_of(reader(), 4000, 1);
    Squeezing policy;
    const Outcome outcome = run(setup, policy);
    ASSERT_GE(outcome.stall_to_grant_ms.size(), 2U);
    const std::int64_t longest_ms =
        *std::max_element(outcome.stall_to_grant_ms.begin(), outcome.stall_to_grant_ms.end());
    EXPECT_GE(longest_ms, 3'000);
    EXPECT_LE(longest_ms, 5'000);
}

TEST(Experiment, PercentileIsTheValueAtItsRank) {
    const auto of = [](std::vector<std::int64_t> values, double share) {
        Outcome outcome;
        outcome.stall_to_grant_ms = std::move(values);
        return outcome.stall_to_grant_percentile_ms(share);
    };
    EXPECT_EQ(of({}, 0.5), std::nullopt);
    EXPECT_EQ(of({7}, 0.99), 7);
    EXPECT_EQ(of({4, 1, 3, 2}, 0.5), 2);
    EXPECT_EQ(of({4, 1, 3, 2}, 0.99), 4);
    EXPECT_EQ(of({4, 1, 3, 2}, 0), 1);
}

TEST(Experiment, CapacityIsTheMostThatFits) {
    for (const unsigned zones : {1U, 2U, 3U, 7U, 8U}) {
        auto setup = setup_of(pulse(), 0, 0);
        setup.host.total_kib = zones * sim::Host::start_cost_kib(make_static_policy()->zone_config(
                                           setup.traces[0]->peak_kib()));
        const Capacity found = capacity(setup, make_static_policy, 0.01, {1, 2}, 50);
        EXPECT_EQ(found.zones, zones);
        EXPECT_EQ(found.outcome.zones_started, zones);
    }
}

TEST(Experiment, CapacityIsZeroWhereNotOneFitsAndAtMostTheMost) {
    EXPECT_EQ(capacity(setup_of(pulse(), 100, 0), make_static_policy, 0.01, {1}, 50).zones, 0U);
    EXPECT_EQ(capacity(setup_of(pulse(), 100'000, 0), make_static_policy, 0.01, {1}, 5).zones, 5U);
}

TEST(Experiment, SamplesEachSecondEachZone) {
    auto setup = setup_of(pulse(), 4000, 2);
    setup.sample = true;
    const auto policy = make_static_policy();
    const Outcome outcome = run(setup, *policy);
    ASSERT_GT(outcome.samples.size(), 200U);
    for (std::size_t at = 1; at < outcome.samples.size(); ++at) {
        EXPECT_EQ(outcome.samples[at].at_ms - outcome.samples[at - 1].at_ms, 1'000);
    }
    EXPECT_EQ(outcome.samples.back().current_kib.size(), 2U);
    EXPECT_EQ(outcome.samples.back().ease_kib.size(), 2U);
}

}  // namespace
}  // namespace xenpack::simulate
