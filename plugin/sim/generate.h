// SPDX-License-Identifier: LGPL-2.1-or-later
// Generate: traces that nobody recorded, from a few figures and a seed. Called by experiments,
// benchmarks and tests. Pure: the same shape gives the same trace, on any machine.
//
// Times in ms, sizes in KiB, rates in KiB a second. A figure said to vary is drawn evenly from half
// to one and a half of it. The trace's origin says how it was made.
#pragma once

#include <cstdint>

#include "plugin/sim/trace.h"

namespace xenpack::sim {

// A service that now and then needs much more, at random intervals.
struct Bursts {
    std::uint64_t seed = 1;
    std::int64_t length_ms = 600'000;
    Demand base = {60 * 1024, 30 * 1024, 60 * 1024, 20 * 1024, 0};
    std::uint64_t burst_kib = 300 * 1024;       // varies
    std::uint64_t rate_kib_per_s = 200 * 1024;  // how quickly a burst allocates
    std::int64_t hold_ms = 8'000;               // how long it keeps it; varies
    std::int64_t gap_ms = 60'000;               // from one's start to the next; varies
};
[[nodiscard]] Trace bursts(const Bursts& shape);

// A day from midnight to midnight, in length_ms: least at night, most at midday, and uneven.
struct Day {
    std::uint64_t seed = 1;
    std::int64_t length_ms = 600'000;
    Demand night = {100 * 1024, 20 * 1024, 40 * 1024, 1024, 0};
    Demand noon = {600 * 1024, 400 * 1024, 300 * 1024, 60 * 1024, 2 * 1024};
    unsigned uneven_percent = 5;  // by how much each row may be off the even curve; at most 50
};
[[nodiscard]] Trace day(const Day& shape);

// Hardly anything, and something small once a period (a cron job, a health check).
struct Idle {
    std::uint64_t seed = 1;
    std::int64_t length_ms = 600'000;
    Demand base = {40 * 1024, 6 * 1024, 30 * 1024, 1024, 0};
    std::uint64_t job_kib = 8 * 1024;  // varies
    std::int64_t job_ms = 400;
    std::int64_t period_ms = 60'000;
};
[[nodiscard]] Trace idle(const Idle& shape);

// Even growth (or shrinking) from one demand to another, and then it stays.
struct Ramp {
    std::int64_t length_ms = 120'000;
    std::int64_t begin_ms = 10'000;
    std::int64_t end_ms = 70'000;
    Demand from = {50 * 1024, 20 * 1024, 20 * 1024, 1024, 0};
    Demand to = {550 * 1024, 300 * 1024, 20 * 1024, 1024, 0};
};
[[nodiscard]] Trace ramp(const Ramp& shape);

// The heap of a runtime that collects garbage and gives what is free back to the kernel.
struct Sawtooth {
    std::uint64_t seed = 1;
    std::int64_t length_ms = 600'000;
    std::uint64_t live_kib = 150 * 1024;       // left by a collection; varies by a tenth
    std::uint64_t heap_kib = 500 * 1024;       // at which it collects
    std::uint64_t rate_kib_per_s = 60 * 1024;  // of garbage made; varies
    std::int64_t collect_ms = 200;
    std::uint64_t cache_kib = 80 * 1024;  // the program's own files
    std::uint64_t read_kib_per_s = 4 * 1024;
};
[[nodiscard]] Trace sawtooth(const Sawtooth& shape);

// A training job: a main process, and in each epoch many short workers that prepare its data; data
// is read as a stream; each epoch ends with a checkpoint, in which no worker runs.
struct Training {
    std::uint64_t seed = 1;
    unsigned epochs = 12;
    std::int64_t epoch_ms = 40'000;
    std::int64_t checkpoint_ms = 6'000;
    std::uint64_t main_kib = 250 * 1024;
    unsigned workers = 24;                 // in an epoch
    std::uint64_t worker_kib = 60 * 1024;  // varies
    std::int64_t worker_ms = 5'000;        // varies
    std::uint64_t data_kib_per_s = 30 * 1024;
    std::uint64_t checkpoint_kib_per_s = 100 * 1024;
};
[[nodiscard]] Trace training(const Training& shape);

}  // namespace xenpack::sim
