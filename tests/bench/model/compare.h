// SPDX-License-Identifier: LGPL-2.1-or-later
// Compare: how far the simulated host is from the real one, in figures, and whether that is near
// enough. Called by model_check with a run of the lab and its replay. Pure; it prints nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/model/replay.h"

namespace xenpack::bench {

// Of one zone, from the beginning of the comparison to the end of its trace in the lab.
struct Distance {
    std::string zone;
    double mean_kib = 0;      // between the zone's sizes, over time
    double mean_percent = 0;  // of its size in the lab
    double largest_kib = 0;
    std::int64_t largest_ms = 0;  // when that was, since the beginning
    double used_mean_kib = 0;     // between MemTotal less MemAvailable of both
    double overhead_lab_kib = 0;  // pages held that MemTotal does not count, at the beginning
    double overhead_model_kib = 0;
    // From when the trace (as it would be without stalls) asks for nine tenths of the most that the
    // workload held to when the zone was last too small for that; 0 where it was never after.
    std::int64_t lag_lab_ms = 0;
    std::int64_t lag_model_ms = 0;
    std::uint64_t stall_lab_ms = 0;
    std::uint64_t stall_model_ms = 0;
    std::uint64_t kills_lab = 0;
    std::uint64_t kills_model = 0;
};

[[nodiscard]] std::vector<Distance> distances(const LabRun& run, const Replay& replay);

// What is near enough; compare.cc says why.
struct Bounds {
    double mean_percent = 0;
    double largest_kib = 0;
    double used_mean_kib = 0;
    double overhead_kib = 0;
    std::int64_t lag_ms = 0;
    double stall_share = 0;  // between the shares of the compared time that were lost
};
[[nodiscard]] Bounds bounds();

struct Finding {
    bool good = false;
    std::string what;  // a promise and the figures that it is judged by
};
[[nodiscard]] std::vector<Finding> judge(const std::vector<Distance>& distances, const LabRun& run,
                                         const Bounds& bounds);

}  // namespace xenpack::bench
