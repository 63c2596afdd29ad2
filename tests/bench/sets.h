// SPDX-License-Identifier: LGPL-2.1-or-later
// Trace sets: what the zones of a benchmark's host do, and the host that fits them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugin/sim/host.h"
#include "watcher/error.h"

namespace xenpack::bench {

struct TraceSet {
    std::string name;
    std::vector<std::shared_ptr<const sim::Trace>> traces;  // zone i follows traces[i % size]
    std::uint64_t swap_kib = 0;                             // of each zone
};

// Made from figures and seeds.
[[nodiscard]] std::vector<TraceSet> generated_sets();
// One for each file NAME.trace in the folder, by name; empty where there is no such folder.
[[nodiscard]] Expected<std::vector<TraceSet>> recorded_sets(const std::string& folder);
// Zones of all sets in turn.
[[nodiscard]] TraceSet mix_of(const std::vector<TraceSet>& sets);
// The same zones with a swap disk each, as some of the peers ask for.
[[nodiscard]] TraceSet with_swap(const TraceSet& set);

// A host that holds just so many zones of the set, each at the size of its peak.
[[nodiscard]] sim::HostConfig host_for(const TraceSet& set, unsigned zones);

}  // namespace xenpack::bench
