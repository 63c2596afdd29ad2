// SPDX-License-Identifier: LGPL-2.1-or-later
// Verdict: what the benchmark's figures say together, against the aims. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/bench/run.h"

namespace xenpack::bench {

// One policy over all sets.
struct Total {
    unsigned zones = 0;
    std::uint64_t kills = 0;  // at equal numbers of zones
    double lost = 0;          // share of all zones' time, at equal numbers
    double held_to_oracle = 0;
    double changes_per_zone_minute = 0;
    std::optional<std::int64_t> grant_p50_ms;  // unset: no zone stalled
    std::optional<std::int64_t> grant_p99_ms;
};

struct Aim {
    std::string_view policy;
    std::string text;
    std::string measured;
    bool met = false;
};

struct Verdict {
    std::vector<Total> totals;  // by contender
    std::size_t best_peer = 0;  // the peer with most zones over all sets
    std::vector<Aim> aims;      // empty where Xenpack's own policy did not run
    // What must not be: fewer zones than the best peer or nine tenths of the oracle's, or a kill
    // that the oracle avoids.
    std::vector<std::string> failures;
};

[[nodiscard]] Verdict judge(const std::vector<SetScores>& sets,
                            const std::vector<Contender>& contenders);

}  // namespace xenpack::bench
