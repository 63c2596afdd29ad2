// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/generate.h promises: every trace is a valid one, of the shape that was asked for,
// and a seed decides it.
#include "plugin/sim/generate.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;

std::uint64_t most_anon(const Trace& trace) {
    std::uint64_t most = 0;
    for (const TraceRow& row : trace.rows) {
        most = std::max(most, row.demand.anon_kib);
    }
    return most;
}

std::uint64_t least_anon(const Trace& trace) {
    std::uint64_t least = trace.rows.front().demand.anon_kib;
    for (const TraceRow& row : trace.rows) {
        least = std::min(least, row.demand.anon_kib);
    }
    return least;
}

// Text that parse_trace accepts, or why it does not.
std::string verdict(const Trace& trace) {
    const auto again = parse_trace(format_trace(trace), "");
    if (!again) {
        return again.error().what;
    }
    return again->rows.size() == trace.rows.size() ? "valid" : "rows were lost";
}

TEST(SimGenerate, EveryTraceIsValid) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        EXPECT_EQ(verdict(bursts({.seed = seed})), "valid");
        EXPECT_EQ(verdict(day({.seed = seed})), "valid");
        EXPECT_EQ(verdict(idle({.seed = seed})), "valid");
        EXPECT_EQ(verdict(sawtooth({.seed = seed})), "valid");
        EXPECT_EQ(verdict(training({.seed = seed})), "valid");
    }
    EXPECT_EQ(verdict(ramp({})), "valid");
}

TEST(SimGenerate, AbsurdShapesStillGiveValidTraces) {
    EXPECT_EQ(verdict(bursts({.length_ms = 0})), "valid");
    EXPECT_EQ(verdict(bursts({.length_ms = 5000, .rate_kib_per_s = 0, .hold_ms = 0, .gap_ms = 0})),
              "valid");
    EXPECT_EQ(verdict(day({.length_ms = 10, .uneven_percent = 900})), "valid");
    EXPECT_EQ(verdict(day({.length_ms = 0})), "valid");
    EXPECT_EQ(verdict(idle({.length_ms = 0, .job_ms = -5, .period_ms = 0})), "valid");
    EXPECT_EQ(verdict(ramp({.length_ms = 0, .begin_ms = 0, .end_ms = -7})), "valid");
    EXPECT_EQ(verdict(sawtooth({.length_ms = 1000,
                                .live_kib = 9 * kMib,
                                .heap_kib = 1,
                                .rate_kib_per_s = 0,
                                .collect_ms = 0})),
              "valid");
    EXPECT_EQ(verdict(training({.epochs = 0})), "valid");
    EXPECT_EQ(verdict(training({.epoch_ms = 0, .checkpoint_ms = 0, .workers = 200})), "valid");
}

TEST(SimGenerate, TheSeedDecides) {
    EXPECT_EQ(format_trace(bursts({.seed = 3})), format_trace(bursts({.seed = 3})));
    EXPECT_NE(format_trace(bursts({.seed = 3})), format_trace(bursts({.seed = 4})));
    EXPECT_NE(format_trace(day({.seed = 3})), format_trace(day({.seed = 4})));
    EXPECT_NE(format_trace(idle({.seed = 3})), format_trace(idle({.seed = 4})));
    EXPECT_NE(format_trace(sawtooth({.seed = 3})), format_trace(sawtooth({.seed = 4})));
    EXPECT_NE(format_trace(training({.seed = 3})), format_trace(training({.seed = 4})));
}

TEST(SimGenerate, BurstsAreOfTheirSizeAndRateAndNotRegular) {
    const Bursts shape{.length_ms = 3'600'000};
    const Trace trace = bursts(shape);
    EXPECT_GE(most_anon(trace), shape.base.anon_kib + shape.burst_kib);
    EXPECT_LE(most_anon(trace), shape.base.anon_kib + 2 * (shape.burst_kib + shape.burst_kib / 2));
    EXPECT_EQ(least_anon(trace), shape.base.anon_kib);
    std::vector<std::int64_t> starts;
    for (std::size_t i = 1; i < trace.rows.size(); ++i) {
        const TraceRow& from = trace.rows[i - 1];
        const TraceRow& to = trace.rows[i];
        if (to.demand.anon_kib > from.demand.anon_kib) {
            const std::uint64_t grown = to.demand.anon_kib - from.demand.anon_kib;
            const auto ms = static_cast<std::uint64_t>(to.at_ms - from.at_ms);
            EXPECT_LE(grown * 1000 / ms, shape.rate_kib_per_s * 101 / 100) << from.at_ms;
            starts.push_back(from.at_ms);
        }
    }
    // About one a minute, between half a minute and one and a half.
    EXPECT_GT(starts.size(), 45U);
    EXPECT_LT(starts.size(), 80U);
    std::int64_t shortest = shape.length_ms;
    std::int64_t longest = 0;
    for (std::size_t i = 1; i < starts.size(); ++i) {
        shortest = std::min(shortest, starts[i] - starts[i - 1]);
        longest = std::max(longest, starts[i] - starts[i - 1]);
    }
    EXPECT_GE(shortest, 30'000);
    EXPECT_LE(longest, 90'000);
    EXPECT_GT(longest - shortest, 20'000);
}

TEST(SimGenerate, ADayIsLeastAtMidnightAndMostAtNoon) {
    const Day shape{.length_ms = 86'400};
    const Trace trace = day(shape);
    EXPECT_EQ(trace.length_ms(), shape.length_ms);
    EXPECT_EQ(trace.at(0).anon_kib, shape.night.anon_kib);
    EXPECT_EQ(trace.at(shape.length_ms).anon_kib, shape.night.anon_kib);
    const std::uint64_t noon = trace.at(shape.length_ms / 2).anon_kib;
    EXPECT_GT(noon, shape.noon.anon_kib * 9 / 10);
    EXPECT_LE(most_anon(trace), shape.noon.anon_kib);
    const Trace even = day({.length_ms = 86'400, .uneven_percent = 0});
    EXPECT_EQ(even.at(43'200).anon_kib, shape.noon.anon_kib);
    EXPECT_EQ(even.at(21'600).anon_kib, (shape.noon.anon_kib + shape.night.anon_kib) / 2);
    for (std::int64_t ms = 900; ms <= 43'200; ms += 900) {
        EXPECT_GE(even.at(ms).anon_kib, even.at(ms - 900).anon_kib);
    }
}

TEST(SimGenerate, AnIdleServiceHardlyWakes) {
    const Idle shape;
    const Trace trace = idle(shape);
    EXPECT_EQ(least_anon(trace), shape.base.anon_kib);
    EXPECT_GT(most_anon(trace), shape.base.anon_kib);
    EXPECT_LE(most_anon(trace), shape.base.anon_kib + shape.job_kib * 3 / 2);
    unsigned busy = 0;
    for (std::int64_t ms = 0; ms < shape.length_ms; ms += 10) {
        busy += trace.at(ms).anon_kib > shape.base.anon_kib ? 1U : 0U;
    }
    EXPECT_GT(busy, 9 * 40U);
    EXPECT_LT(busy, 11 * 50U);
}

TEST(SimGenerate, ARampIsEven) {
    const Ramp shape;
    const Trace trace = ramp(shape);
    EXPECT_EQ(trace.at(shape.begin_ms).anon_kib, shape.from.anon_kib);
    EXPECT_EQ(trace.at(40'000).anon_kib, (shape.from.anon_kib + shape.to.anon_kib) / 2);
    EXPECT_EQ(trace.at(shape.end_ms).anon_kib, shape.to.anon_kib);
    EXPECT_EQ(trace.length_ms(), shape.length_ms);
}

TEST(SimGenerate, ACollectedHeapGrowsSlowlyAndFallsAtOnce) {
    const Sawtooth shape;
    const Trace trace = sawtooth(shape);
    EXPECT_EQ(most_anon(trace), shape.heap_kib);
    EXPECT_GE(least_anon(trace), shape.live_kib * 9 / 10);
    for (std::size_t i = 1; i < trace.rows.size(); ++i) {
        const TraceRow& from = trace.rows[i - 1];
        const TraceRow& to = trace.rows[i];
        if (to.demand.anon_kib < from.demand.anon_kib) {
            EXPECT_EQ(from.demand.anon_kib, shape.heap_kib);
            EXPECT_EQ(to.at_ms - from.at_ms, shape.collect_ms);
        } else {
            EXPECT_GT(to.at_ms - from.at_ms, 3000);
        }
    }
    EXPECT_GE(trace.length_ms(), shape.length_ms);
}

TEST(SimGenerate, WorkersOfATrainingJobComeAndGoAndRestAtCheckpoints) {
    const Training shape;
    const Trace trace = training(shape);
    EXPECT_EQ(trace.length_ms(), shape.epochs * shape.epoch_ms);
    EXPECT_EQ(least_anon(trace), shape.main_kib);
    EXPECT_GT(most_anon(trace), shape.main_kib + 3 * shape.worker_kib);
    EXPECT_LE(most_anon(trace), shape.main_kib + shape.workers * shape.worker_kib * 3 / 2);
    for (unsigned epoch = 1; epoch <= shape.epochs; ++epoch) {
        const std::int64_t checkpoint_ms = epoch * shape.epoch_ms - shape.checkpoint_ms;
        const Demand demand = trace.at(checkpoint_ms + shape.checkpoint_ms / 2);
        EXPECT_EQ(demand.anon_kib, shape.main_kib);
    }
}

TEST(SimGenerate, ACheckpointIsWrittenInItsWholeTimeAndNotBefore) {
    const Training shape;
    const Trace trace = training(shape);
    for (unsigned epoch = 1; epoch <= shape.epochs; ++epoch) {
        const std::int64_t checkpoint_ms = epoch * shape.epoch_ms - shape.checkpoint_ms;
        EXPECT_EQ(trace.at(checkpoint_ms - 1).stream_kib_per_s, shape.data_kib_per_s);
        EXPECT_EQ(trace.at(checkpoint_ms + 1).stream_kib_per_s, shape.checkpoint_kib_per_s);
        EXPECT_EQ(trace.at(epoch * shape.epoch_ms - 1).stream_kib_per_s,
                  shape.checkpoint_kib_per_s);
    }
}

}  // namespace
}  // namespace xenpack::sim
