// SPDX-License-Identifier: LGPL-2.1-or-later
// Workloads: the kinds and their scaling. Pure.
#include "watcher/simulate/workloads.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plugin/sim/generate.h"
#include "watcher/config/config.h"

namespace xenpack::simulate {
namespace {

constexpr std::uint64_t kLeastPeakKib = 4 * 1024;
constexpr std::uint64_t kMostPeakKib = std::uint64_t{1} << 34;  // 16 TiB

template <class Shape>
sim::Trace made(sim::Trace (*generator)(const Shape&), std::uint64_t seed) {
    Shape shape;
    if constexpr (requires { shape.seed; }) {
        shape.seed = seed;
    }
    return generator(shape);
}

struct Made {
    Kind kind;
    sim::Trace (*make)(std::uint64_t seed) = nullptr;
};

constexpr std::array<Made, 6> kMade = {{
    {{"bursts", "a service that now and then needs much more"},
     [](std::uint64_t seed) { return made(&sim::bursts, seed); }},
    {{"day", "least at night, most at midday"},
     [](std::uint64_t seed) { return made(&sim::day, seed); }},
    {{"idle", "hardly anything, and something small once a minute"},
     [](std::uint64_t seed) { return made(&sim::idle, seed); }},
    {{"ramp", "even growth, and then it stays"},
     [](std::uint64_t seed) { return made(&sim::ramp, seed); }},
    {{"sawtooth", "a heap that is collected, and given back"},
     [](std::uint64_t seed) { return made(&sim::sawtooth, seed); }},
    {{"training", "epochs of many short workers, and checkpoints"},
     [](std::uint64_t seed) { return made(&sim::training, seed); }},
}};

std::uint64_t scaled(std::uint64_t kib, double by) {
    return static_cast<std::uint64_t>(std::floor(static_cast<double>(kib) * by));
}

void scale_to(sim::Trace& trace, std::uint64_t peak_kib) {
    const double by = static_cast<double>(peak_kib) / static_cast<double>(trace.peak_kib());
    for (sim::TraceRow& row : trace.rows) {
        sim::Demand& demand = row.demand;
        // The sum is rounded, not its parts, so that the peak is what was asked for.
        const auto sum_kib = static_cast<std::uint64_t>(
            std::llround(static_cast<double>(demand.anon_kib + demand.cache_kib) * by));
        demand.cache_kib = scaled(demand.cache_kib, by);
        demand.anon_kib = sum_kib - std::min(sum_kib, demand.cache_kib);
        demand.active_kib = std::min(demand.anon_kib, scaled(demand.active_kib, by));
        demand.read_kib_per_s = scaled(demand.read_kib_per_s, by);
        demand.stream_kib_per_s = scaled(demand.stream_kib_per_s, by);
    }
}

}  // namespace

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = [] {
        std::vector<Kind> list;
        list.reserve(kMade.size());
        for (const Made& each : kMade) {
            list.push_back(each.kind);
        }
        return list;
    }();
    return all;
}

std::optional<Expected<Generator>> parse_generator(std::string_view word) {
    const std::string_view name = word.substr(0, word.find(':'));
    const auto found = std::find_if(kMade.begin(), kMade.end(),
                                    [name](const Made& each) { return each.kind.name == name; });
    if (found == kMade.end()) {
        return std::nullopt;
    }
    Generator generator{found->kind.name, std::nullopt};
    if (name.size() == word.size()) {
        return generator;
    }
    const auto size = parse_size_kib(word.substr(name.size() + 1));
    if (!size) {
        return tl::unexpected<Error>(size.error().during(word));
    }
    if (*size < kLeastPeakKib || *size > kMostPeakKib) {
        return Expected<Generator>(fail("{}: a size from 4M to 16T is needed", word));
    }
    generator.peak_kib = *size;
    return generator;
}

sim::Trace generate(const Generator& generator, std::uint64_t seed) {
    const auto found = std::find_if(kMade.begin(), kMade.end(), [&](const Made& each) {
        return each.kind.name == generator.kind;
    });
    sim::Trace trace = found == kMade.end() ? sim::Trace{} : found->make(seed);
    if (generator.peak_kib && trace.peak_kib() > 0) {
        scale_to(trace, *generator.peak_kib);
    }
    return trace;
}

}  // namespace xenpack::simulate
