// SPDX-License-Identifier: LGPL-2.1-or-later
// The simulated host is made so that it has as much free memory as the lab's had, then stepped from
// sample to sample. Called by model_check.
#include "tests/bench/model/replay.h"

#include <algorithm>
#include <memory>

#include "watcher/kib.h"
#include "watcher/simulate/xenpack_policy.h"

namespace xenpack::bench {
namespace {

// As experiments have it.
constexpr std::int64_t kStepMs = 100;
// So long a trace is quiet at its beginning.
constexpr std::int64_t kQuietMs = 8'000;

// A balloon's speed at a time is that of so long before and after it.
constexpr std::int64_t kAroundMs = 2'000;
// So far from its target a balloon has work for the whole time between two samples.
constexpr std::uint64_t kFarKib = 4 * 1024;

// How far balloons moved, and the time of it, while they were on their way.
struct Movement {
    std::uint64_t kib = 0;
    std::int64_t ms = 0;

    void add(const Movement& more) {
        kib += more.kib;
        ms += more.ms;
    }
    [[nodiscard]] std::uint64_t kib_per_s() const {
        return ms > 0 ? kib * 1000 / static_cast<std::uint64_t>(ms) : 0;
    }
};

// Between two lab times.
Movement movement(const LabZone& zone, std::int64_t from_ms, std::int64_t to_ms) {
    Movement sum;
    for (std::size_t i = 0; i + 1 < zone.samples.size(); ++i) {
        const LabSample& from = zone.samples[i];
        const LabSample& to = zone.samples[i + 1];
        const std::uint64_t way = apart(from.current_kib, to.current_kib);
        if (from.at_ms >= from_ms && to.at_ms <= to_ms && way > 0 &&
            apart(to.current_kib, to.target_kib) >= kFarKib &&
            apart(from.current_kib, from.target_kib) >= kFarKib) {
            sum.add({way, to.at_ms - from.at_ms});
        }
    }
    return sum;
}

std::uint64_t balloon_rate(const LabRun& run) {
    Movement sum;
    for (const LabZone& zone : run.zones) {
        sum.add(movement(zone, 0, zone.samples.back().at_ms));
    }
    return sum.kib_per_s();
}

// What the workload held at each place of its trace, on top of what its guest does. What it could
// not do for want of time is in it, what it could not do for want of memory is not: there the trace
// stood still.
std::shared_ptr<const sim::Trace> done_of(const LabZone& zone, std::uint64_t base_kib) {
    auto done = std::make_shared<sim::Trace>();
    done->name = zone.name;
    const auto add = [&](std::int64_t place_ms, std::uint64_t anon_kib, std::uint64_t file_kib) {
        sim::Demand demand = zone.trace.at(place_ms);
        demand.anon_kib = anon_kib + base_kib;
        demand.active_kib = std::min(demand.active_kib, anon_kib);
        demand.cache_kib = std::min(demand.cache_kib, file_kib);
        done->rows.push_back({place_ms, demand});
    };
    add(0, zone.workload.front().anon_kib, zone.workload.front().file_kib);
    for (const WorkloadSample& sample : zone.workload) {
        if (sample.place_ms > done->rows.back().at_ms) {
            add(sample.place_ms, sample.anon_kib, sample.file_kib);
        }
    }
    return done;
}

sim::DomainConfig domain_config(const LabRun& run, const Machine& machine, std::size_t zone) {
    sim::DomainConfig config;
    config.memory_kib = run.zones[zone].at(begin_ms(run)).current_kib;
    config.max_memory_kib = run.max_memory_kib;
    config.balloon.boot_ms = 0;
    config.balloon.kib_per_s = machine.balloon_kib_per_s;
    config.guest.brake = true;
    config.guest.repeat = false;
    config.guest.start_at_ms = begin_ms(run) - run.zones[zone].began_ms();
    config.guest.disk_kib_per_s = machine.disk_kib_per_s[zone];
    return config;
}

ReplaySample sample_of(const sim::Domain& domain, std::int64_t at_ms) {
    const sim::GuestStats& stats = domain.guest.stats();
    return {at_ms,           domain.current_kib,  domain.target_kib, domain.guest.trace_ms(),
            stats.total_kib, stats.available_kib, stats.some_us,     stats.oom_kills};
}

std::int64_t end_ms(const LabRun& run) {
    std::int64_t end = 0;
    for (const LabZone& zone : run.zones) {
        end = std::max(end, zone.samples.back().at_ms);
    }
    return end;
}

sim::HostConfig host_config(const LabRun& run, const std::vector<sim::DomainConfig>& zones) {
    const HostSample& host = run.host_at(begin_ms(run));
    std::uint64_t used_kib = host.total_kib - host.free_kib;
    for (const sim::DomainConfig& zone : zones) {
        used_kib -= std::min(used_kib, sim::Host::start_cost_kib(zone));
    }
    return {.total_kib = host.total_kib, .xen_kib = 0, .dom0_kib = used_kib};
}

}  // namespace

std::uint64_t base_kib(const LabZone& zone) {
    std::vector<std::uint64_t> seen;
    for (const WorkloadSample& each : zone.workload) {
        if (each.place_ms <= kQuietMs) {
            const std::uint64_t known = each.free_kib + each.anon_kib + each.file_kib;
            seen.push_back(each.total_kib - std::min(each.total_kib, known));
        }
    }
    if (seen.empty()) {
        return 0;
    }
    const auto half = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
    std::nth_element(seen.begin(), half, seen.end());
    return *half;
}

std::int64_t begin_ms(const LabRun& run) {
    std::int64_t begin = 0;
    for (const LabZone& zone : run.zones) {
        begin = std::max(begin, zone.began_ms());
    }
    return begin;
}

Machine machine_of(const LabRun& run) {
    const auto seen_or = [](std::uint64_t seen, std::uint64_t otherwise) {
        return seen > 0 ? seen : otherwise;
    };
    const sim::GuestConfig by_default;
    Machine machine;
    machine.balloon_kib_per_s = seen_or(balloon_rate(run), sim::BalloonConfig{}.kib_per_s);
    for (const LabZone& zone : run.zones) {
        machine.base_kib.push_back(base_kib(zone));
        machine.disk_kib_per_s.push_back(seen_or(zone.disk_kib_per_s, by_default.disk_kib_per_s));
    }
    return machine;
}

Replay replay(const LabRun& run, const Machine& machine) {
    std::vector<sim::DomainConfig> configs;
    for (std::size_t i = 0; i < run.zones.size(); ++i) {
        configs.push_back(domain_config(run, machine, i));
    }
    Config config;
    config.start_reserve = {run.start_reserve_kib, {}};
    const auto policy = simulate::make_xenpack_policy(config, true);
    sim::Host host(host_config(run, configs));
    for (std::size_t i = 0; i < configs.size(); ++i) {
        const auto trace = done_of(run.zones[i], machine.base_kib[i]);
        policy->zone_started(*host.create(configs[i], trace), 0);
    }
    Replay done;
    done.zones.resize(configs.size());
    std::vector<std::size_t> next(configs.size(), 0);
    const std::int64_t begin = begin_ms(run);
    for (const std::int64_t end = end_ms(run); begin + host.now_ms() <= end;) {
        policy->step(host, host.now_ms());
        for (std::size_t i = 0; i < configs.size(); ++i) {
            const std::int64_t at_ms = begin + host.now_ms();
            const Movement seen = movement(run.zones[i], at_ms - kAroundMs, at_ms + kAroundMs);
            host.domains()[i]->balloon.set_speed(seen.kib > 0 ? seen.kib_per_s()
                                                              : machine.balloon_kib_per_s);
        }
        host.step(kStepMs);
        const std::int64_t lab_ms = begin + host.now_ms();
        done.host.push_back({lab_ms, host.config().total_kib, host.free_kib()});
        for (std::size_t i = 0; i < configs.size(); ++i) {
            const std::vector<LabSample>& samples = run.zones[i].samples;
            for (; next[i] < samples.size() && samples[next[i]].at_ms <= lab_ms; ++next[i]) {
                if (samples[next[i]].at_ms >= begin) {
                    done.zones[i].push_back(sample_of(*host.domains()[i], samples[next[i]].at_ms));
                }
            }
        }
    }
    return done;
}

}  // namespace xenpack::bench
