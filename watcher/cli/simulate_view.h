// SPDX-License-Identifier: LGPL-2.1-or-later
// Views of what a simulation found: a table for a person, JSON for a program. Filled by the command
// simulate. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "watcher/cli/table.h"
#include "watcher/simulate/experiment.h"

namespace xenpack {

struct Simulated {
    std::string policy;
    unsigned zones = 0;  // that were to start; where the most was looked for, so many fit
    simulate::Outcome outcome;
};

struct SimulationView {
    std::uint64_t host_kib = 0;
    std::uint64_t dom0_kib = 0;
    std::int64_t duration_ms = 0;
    double stall_budget = 0;              // share of the zones' time
    bool most = false;                    // the most zones were looked for
    unsigned ceiling = 0;                 // of that search
    std::uint64_t room_kib = 0;           // of the host's memory, for zones
    std::uint64_t largest_start_kib = 0;  // what the zone that takes the most takes as it starts
    std::vector<std::string> workloads;
    std::vector<Simulated> policies;
};

// Whether all zones run, none is killed, and no more time is lost than the budget.
[[nodiscard]] bool fits(const Simulated& simulated, double stall_budget);

[[nodiscard]] std::string render_simulation(const SimulationView& view, const Screen& screen);
[[nodiscard]] nlohmann::json simulation_json(const SimulationView& view);

}  // namespace xenpack
