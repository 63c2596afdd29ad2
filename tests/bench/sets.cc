// SPDX-License-Identifier: LGPL-2.1-or-later
// What the sets are made of; their sizes are those of small services, so that a run stays short.
#include "tests/bench/sets.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "plugin/sim/generate.h"
#include "watcher/simulate/static_policy.h"

namespace xenpack::bench {
namespace {

constexpr std::uint64_t kSeeds = 6;
constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kSwapKib = 1024 * kMib;

std::shared_ptr<const sim::Trace> shared(sim::Trace trace) {
    return std::make_shared<const sim::Trace>(std::move(trace));
}

// The same kind of trace from different seeds.
template <class Shape>
TraceSet seeded(const std::string& name, sim::Trace (*generate)(const Shape&), Shape shape) {
    TraceSet set{name, {}, 0};
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        shape.seed = seed;
        set.traces.push_back(shared(generate(shape)));
    }
    return set;
}

// A service of the size that virtual machines have, not of the smallest: several peers have a least
// size of 200 to 300 MiB.
sim::Idle idle_service() {
    sim::Idle shape;
    shape.base = {120 * kMib, 20 * kMib, 100 * kMib, kMib, 0};
    shape.job_kib = 80 * kMib;
    shape.job_ms = 2'000;
    return shape;
}

}  // namespace

std::vector<TraceSet> generated_sets() {
    return {seeded("bursts", sim::bursts, sim::Bursts{}), seeded("days", sim::day, sim::Day{}),
            seeded("services", sim::idle, idle_service()),
            seeded("gc-heap", sim::sawtooth, sim::Sawtooth{}),
            seeded("training-jobs", sim::training, sim::Training{})};
}

Expected<std::vector<TraceSet>> recorded_sets(const std::string& folder) {
    std::vector<TraceSet> sets;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (entry.path().extension() != ".trace") {
            continue;
        }
        std::ifstream file(entry.path());
        std::ostringstream text;
        text << file.rdbuf();
        if (!file) {
            return fail("cannot read {}", entry.path().string());
        }
        const std::string name = entry.path().stem().string();
        auto trace = sim::parse_trace(text.str(), name);
        if (!trace) {
            return tl::unexpected(trace.error().during(entry.path().string()));
        }
        sets.push_back({name, {shared(std::move(*trace))}, 0});
    }
    std::sort(sets.begin(), sets.end(),
              [](const TraceSet& a, const TraceSet& b) { return a.name < b.name; });
    return sets;
}

TraceSet mix_of(const std::vector<TraceSet>& sets) {
    TraceSet mix{"mix", {}, 0};
    for (std::size_t round = 0; round < kSeeds; ++round) {
        for (const TraceSet& set : sets) {
            if (round < set.traces.size()) {
                mix.traces.push_back(set.traces[round]);
            }
        }
    }
    return mix;
}

TraceSet with_swap(const TraceSet& set) {
    return {set.name + "+swap", set.traces, kSwapKib};
}

sim::HostConfig host_for(const TraceSet& set, unsigned zones) {
    sim::HostConfig host;
    host.xen_kib = 64 * kMib;
    host.dom0_kib = 512 * kMib;
    host.total_kib = host.xen_kib + host.dom0_kib;
    const auto policy = simulate::make_static_policy();
    for (unsigned zone = 0; zone < zones; ++zone) {
        const sim::Trace& trace = *set.traces[zone % set.traces.size()];
        host.total_kib += sim::Host::start_cost_kib(policy->zone_config(trace.peak_kib()));
    }
    return host;
}

}  // namespace xenpack::bench
