// SPDX-License-Identifier: LGPL-2.1-or-later
// Each set and policy is a job of its own; jobs share nothing but the traces, which nobody changes.
#include "tests/bench/run.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

namespace xenpack::bench {
namespace {

void in_parallel(std::size_t jobs, const std::function<void(std::size_t)>& job) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (std::size_t each = next++; each < jobs; each = next++) {
            job(each);
        }
    };
    std::vector<std::thread> threads;
    for (unsigned more = 1; more < std::max(1U, std::thread::hardware_concurrency()); ++more) {
        threads.emplace_back(work);
    }
    work();
    for (std::thread& thread : threads) {
        thread.join();
    }
}

void add(simulate::Outcome& sum, const simulate::Outcome& more, double share) {
    sum.zones_started += more.zones_started;
    sum.zones_refused += more.zones_refused;
    sum.zone_ms += more.zone_ms;
    sum.stalled_ms += more.stalled_ms;
    sum.worked_ms += more.worked_ms;
    sum.oom_kills += more.oom_kills;
    sum.target_changes += more.target_changes;
    sum.mean_held_kib += share * more.mean_held_kib;
    sum.mean_ease_kib += share * more.mean_ease_kib;
    sum.stall_to_grant_ms.insert(sum.stall_to_grant_ms.end(), more.stall_to_grant_ms.begin(),
                                 more.stall_to_grant_ms.end());
}

}  // namespace

simulate::Setup setup_for(const TraceSet& set, const Effort& effort) {
    simulate::Setup setup;
    setup.host = host_for(set, effort.static_zones);
    setup.traces = set.traces;
    setup.swap_kib = set.swap_kib;
    setup.duration_ms = effort.duration_ms;
    return setup;
}

std::vector<SetScores> run_all(const std::vector<TraceSet>& sets,
                               const std::vector<Contender>& contenders, const Effort& effort) {
    std::vector<SetScores> all;
    for (const TraceSet& set : sets) {
        all.push_back({set.name, host_for(set, effort.static_zones), 0,
                       std::vector<Score>(contenders.size())});
    }
    const std::size_t jobs = sets.size() * contenders.size();
    in_parallel(jobs, [&](std::size_t job) {
        const std::size_t set = job / contenders.size();
        const std::size_t who = job % contenders.size();
        all[set].scores[who].zones =
            simulate::capacity(setup_for(sets[set], effort), contenders[who].make,
                               effort.stall_budget, effort.seeds, effort.most_zones)
                .zones;
    });
    for (SetScores& set : all) {
        for (std::size_t who = 0; who < contenders.size(); ++who) {
            if (contenders[who].role == Role::peer) {
                set.equal_zones = std::max(set.equal_zones, set.scores[who].zones);
            }
        }
    }
    in_parallel(jobs, [&](std::size_t job) {
        const std::size_t set = job / contenders.size();
        const std::size_t who = job % contenders.size();
        simulate::Setup setup = setup_for(sets[set], effort);
        setup.zones = all[set].equal_zones;
        for (const std::uint64_t seed : effort.seeds) {
            setup.seed = seed;
            const auto policy = contenders[who].make();
            add(all[set].scores[who].equal, simulate::run(setup, *policy),
                1.0 / static_cast<double>(effort.seeds.size()));
        }
    });
    for (SetScores& set : all) {
        for (std::size_t who = 0; who < contenders.size(); ++who) {
            const double oracle_kib = set.scores[who].equal.mean_held_kib;
            if (contenders[who].role != Role::oracle || oracle_kib <= 0) {
                continue;
            }
            for (Score& score : set.scores) {
                score.held_to_oracle = score.equal.mean_held_kib / oracle_kib;
            }
        }
    }
    return all;
}

}  // namespace xenpack::bench
