// SPDX-License-Identifier: LGPL-2.1-or-later
// Run: every policy on every trace set, on all processors. Prints nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/peers/all.h"
#include "tests/bench/sets.h"

namespace xenpack::bench {

struct Effort {
    std::int64_t duration_ms = 600'000;
    std::vector<std::uint64_t> seeds = {1, 2, 3};
    // Of all zones' time, so much may be lost to memory where it is asked how many fit.
    double stall_budget = 0.01;
    // The host of each set holds so many zones at the sizes of their peaks.
    unsigned static_zones = 12;
    unsigned most_zones = 96;
};

// One policy on one set.
struct Score {
    unsigned zones = 0;         // at equal stalls
    simulate::Outcome equal;    // at one equal number of zones, all seeds added up
    double held_to_oracle = 0;  // memory, at that number; 0: the oracle held none
};

struct SetScores {
    std::string set;
    sim::HostConfig host;
    unsigned equal_zones = 0;   // the most that any peer fits
    std::vector<Score> scores;  // by contender
};

[[nodiscard]] std::vector<SetScores> run_all(const std::vector<TraceSet>& sets,
                                             const std::vector<Contender>& contenders,
                                             const Effort& effort);

[[nodiscard]] simulate::Setup setup_for(const TraceSet& set, const Effort& effort);

}  // namespace xenpack::bench
