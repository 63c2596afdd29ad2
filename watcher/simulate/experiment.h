// SPDX-License-Identifier: LGPL-2.1-or-later
// Experiment: runs one policy on one simulated host with zones that follow traces, in virtual time,
// and measures. Used by `xenpack simulate` and tests/bench. Deterministic by its seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "watcher/simulate/policy.h"

namespace xenpack::simulate {

// Zones start one after another, one to three seconds apart, each at a quiet point of its trace.
// Stall time, memory and target changes are counted from a minute after the last start (at most a
// fifth of the duration: until then caches are cold); refusals from the beginning, kills from 15 s
// after each zone's start.
struct Setup {
    sim::HostConfig host;
    // Zone i follows traces[i % size]. At least one.
    std::vector<std::shared_ptr<const sim::Trace>> traces;
    unsigned zones = 0;
    std::int64_t duration_ms = 600'000;  // after the last start
    std::int64_t step_ms = 100;
    std::uint64_t seed = 1;      // of the zones' phases in their traces and of their start times
    std::uint64_t swap_kib = 0;  // of each zone
    bool sample = false;         // keep `samples` for a drawing
    // For who waits: called once in each second of a run, with how many zones are tried and the
    // share of that run that is over, 0..1.
    std::function<void(unsigned zones, double share)> progress;
};

struct Sample {
    std::int64_t at_ms = 0;
    std::uint64_t free_kib = 0;
    std::vector<std::uint64_t> current_kib;  // by zone
    std::vector<std::uint64_t> target_kib;
    std::vector<std::uint64_t> ease_kib;    // what each would need not to stall
    std::vector<std::uint64_t> stalled_us;  // since the sample before
    std::vector<std::uint64_t> oom_kills;   // since the zone's start
};

struct Outcome {
    unsigned zones_started = 0;
    unsigned zones_refused = 0;    // no room for their start within a minute
    std::uint64_t zone_ms = 0;     // time all zones were running, added up
    std::uint64_t stalled_ms = 0;  // of it lost to memory
    std::uint64_t worked_ms = 0;   // trace time done
    std::uint64_t oom_kills = 0;
    std::uint64_t target_changes = 0;
    double mean_held_kib = 0;  // by all zones, over time
    double mean_ease_kib = 0;  // what they would have needed, over time: the oracle's bill
    // From the start of a stall that more memory would end to the moment its memory has come; one
    // that ended otherwise counts with its whole length. Of the measured time.
    std::vector<std::int64_t> stall_to_grant_ms;
    std::vector<Sample> samples;       // once a second, if asked for
    std::vector<std::size_t> follows;  // by zone that started: which of the traces

    [[nodiscard]] double stalled_share() const {
        return zone_ms == 0 ? 0 : static_cast<double>(stalled_ms) / static_cast<double>(zone_ms);
    }
    [[nodiscard]] double changes_per_zone_minute() const {
        return zone_ms == 0
                   ? 0
                   : static_cast<double>(target_changes) * 60'000 / static_cast<double>(zone_ms);
    }
    // The least of stall_to_grant_ms that at least that share (0..1) of them are not above; nothing
    // where there are none.
    [[nodiscard]] std::optional<std::int64_t> stall_to_grant_percentile_ms(double share) const;
};

[[nodiscard]] Outcome run(const Setup& setup, Policy& policy);

// "At equal stalls": the most zones (up to `most`) for which all start, none is killed, and at most
// `stall_budget` of their time is lost, in every one of `seeds`.
using MakePolicy = std::unique_ptr<Policy> (*)();
struct Capacity {
    unsigned zones = 0;
    Outcome outcome;  // at that number, of the first seed
};
[[nodiscard]] Capacity capacity(Setup setup, MakePolicy make, double stall_budget,
                                const std::vector<std::uint64_t>& seeds, unsigned most);

}  // namespace xenpack::simulate
