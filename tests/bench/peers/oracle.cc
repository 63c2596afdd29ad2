// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading ahead, and the division of what there is.
#include "tests/bench/peers/oracle.h"

#include <tuple>

namespace xenpack::bench::oracle {
namespace {

// A donor gives in one step and the zone in need takes in the next one; balloons move some 100 MiB
// in each.
constexpr std::int64_t kNowMs = 500;
// So far ahead memory is given that nobody needs sooner.
constexpr std::int64_t kSoonMs = 3'000;
// Cache that is needed again within so long is kept, if nobody else needs its memory.
constexpr std::size_t kKeepS = 60;
// Sizes are of this grain, and at least so much over the need.
constexpr std::uint64_t kGrainKib = 1'024;

struct Seen {
    std::uint64_t anon_kib = 0;
    std::int64_t anon_ms = 0;  // where it is the most
    std::uint64_t all_kib = 0;
    std::int64_t all_ms = 0;
};

// The most within a part of the trace. Between two rows all is even, so that the rows and the ends
// are enough.
void look(const sim::Trace& trace, std::int64_t from_ms, std::int64_t to_ms, Seen& seen) {
    const auto at = [&seen](const sim::Demand& demand, std::int64_t ms) {
        if (demand.anon_kib >= seen.anon_kib) {
            seen.anon_kib = demand.anon_kib;
            seen.anon_ms = ms;
        }
        if (demand.anon_kib + demand.cache_kib >= seen.all_kib) {
            seen.all_kib = demand.anon_kib + demand.cache_kib;
            seen.all_ms = ms;
        }
    };
    at(trace.at(from_ms), from_ms);
    at(trace.at(to_ms), to_ms);
    auto row = std::upper_bound(
        trace.rows.begin(), trace.rows.end(), from_ms,
        [](std::int64_t ms, const sim::TraceRow& each) { return ms < each.at_ms; });
    for (; row != trace.rows.end() && row->at_ms < to_ms; ++row) {
        at(row->demand, row->at_ms);
    }
}

// The same for what lies ahead; at its end the trace begins anew.
Peak ahead(const sim::Guest& guest, std::int64_t for_ms) {
    Seen seen;
    const std::int64_t length = guest.trace().length_ms();
    const std::int64_t from = guest.trace_ms();
    if (from + for_ms <= length || length <= 0) {
        look(guest.trace(), from, from + for_ms, seen);
    } else {
        look(guest.trace(), from, length, seen);
        look(guest.trace(), 0, std::min(length, from + for_ms - length), seen);
    }
    const std::uint64_t survival_kib = guest.survival_kib(seen.anon_ms);
    if (guest.stats().swap_total_kib == 0) {
        return {survival_kib, guest.ease_kib(seen.all_ms)};
    }
    // With swap a zone lives with less, but crawls if what it touches all the time is not there.
    const sim::Demand demand = guest.trace().at(seen.anon_ms);
    const std::uint64_t can_wait_kib = demand.cache_kib + demand.anon_kib - demand.active_kib;
    return {std::max(survival_kib, guest.ease_kib(seen.anon_ms) - can_wait_kib),
            guest.ease_kib(seen.all_ms)};
}

std::uint64_t with_margin(std::uint64_t kib, std::uint64_t most_kib) {
    return std::min(most_kib, (kib / kGrainKib + 2) * kGrainKib);
}

}  // namespace

std::uint64_t Oracle::cache_later_kib(const sim::Guest& guest) {
    const sim::Trace& trace = guest.trace();
    std::vector<std::uint64_t>& most = cache_kib_[&trace];
    if (most.empty()) {
        most.resize(static_cast<std::size_t>(trace.length_ms() / 1000) + 1);
        for (std::size_t second = 0; second < most.size(); ++second) {
            most[second] = trace.at(static_cast<std::int64_t>(second) * 1000).cache_kib;
        }
        for (const sim::TraceRow& row : trace.rows) {
            std::uint64_t& kib = most[static_cast<std::size_t>(row.at_ms / 1000)];
            kib = std::max(kib, row.demand.cache_kib);
        }
    }
    const auto now = static_cast<std::size_t>(guest.trace_ms() / 1000);
    std::uint64_t kib = 0;
    for (std::size_t later = 0; later < std::min(kKeepS, most.size()); ++later) {
        kib = std::max(kib, most[(now + later) % most.size()]);
    }
    return kib;
}

Need Oracle::need_of(const sim::Domain& domain) {
    const sim::Guest& guest = domain.guest;
    const std::uint64_t most_kib = domain.config.max_memory_kib;
    Need need;
    need.id = domain.domid;
    need.holds_kib = domain.current_kib;
    for (const bool first : {true, false}) {
        const Peak peak = ahead(guest, first ? kNowMs : kSoonMs);
        (first ? need.now : need.soon) = {with_margin(peak.survival_kib, most_kib),
                                          with_margin(peak.ease_kib, most_kib)};
    }
    // What its balloon cannot take away is not to be counted on.
    const std::uint64_t stays_kib =
        domain.current_kib - std::min(domain.current_kib, guest.can_give_kib());
    need.now.survival_kib = std::max(need.now.survival_kib, stays_kib);
    need.now.ease_kib = std::max(need.now.ease_kib, stays_kib);
    // Only what is there can be kept.
    const sim::Demand demand = guest.trace().at(guest.trace_ms());
    const std::uint64_t kept_kib = std::min(cache_later_kib(guest), guest.stats().cached_kib);
    const std::uint64_t beyond_kib = kept_kib - std::min(kept_kib, demand.cache_kib);
    need.keep_kib = with_margin(need.now.ease_kib + beyond_kib, most_kib);
    need.reads_per_s = static_cast<double>(demand.read_kib_per_s) /
                       static_cast<double>(std::max<std::uint64_t>(1, demand.cache_kib));
    return need;
}

std::map<std::uint32_t, std::uint64_t> divide(std::vector<Need> needs, std::uint64_t memory_kib) {
    std::map<std::uint32_t, std::uint64_t> sizes;
    const auto give = [&](std::uint32_t id, std::uint64_t up_to_kib) {
        std::uint64_t& size_kib = sizes[id];
        const std::uint64_t more_kib =
            std::min(memory_kib, up_to_kib - std::min(up_to_kib, size_kib));
        size_kib += more_kib;
        memory_kib -= more_kib;
    };
    // Life first. Where there is not enough for all, those who need least beyond what they hold: so
    // the fewest are killed, and none for memory that nobody can take away from its holder.
    std::sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) {
        const auto missing = [](const Need& need) {
            return need.now.survival_kib - std::min(need.now.survival_kib, need.holds_kib);
        };
        return std::tuple(missing(a), a.id) < std::tuple(missing(b), b.id);
    });
    for (const Need& need : needs) {
        give(need.id, need.now.survival_kib);
    }
    // Then cache, that which is read most first.
    std::sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) {
        return std::tuple(-a.reads_per_s, a.id) < std::tuple(-b.reads_per_s, b.id);
    });
    for (const Need& need : needs) {
        give(need.id, need.now.ease_kib);
    }
    for (const Need& need : needs) {
        give(need.id, need.soon.survival_kib);
    }
    for (const Need& need : needs) {
        give(need.id, need.soon.ease_kib);
    }
    for (const Need& need : needs) {
        give(need.id, need.keep_kib);
    }
    return sizes;
}

// As little as a kernel boots in; its workload's need is seen before it begins.
sim::DomainConfig Oracle::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    return start_with(48 * kMibKib + full_kib / 64, full_kib);
}

void Oracle::zone_started(const sim::Domain&, std::int64_t) {
    start_kib_ = 0;
}

void Oracle::step(sim::Host& host, std::int64_t now_ms) {
    if (!tick_.due(now_ms)) {
        return;
    }
    std::vector<Need> needs;
    std::uint64_t memory_kib = host.free_kib();
    for (const auto& domain : host.domains()) {
        needs.push_back(need_of(*domain));
        memory_kib += domain->current_kib;
    }
    memory_kib -= std::min(memory_kib, start_kib_);
    const auto sizes_kib = divide(needs, memory_kib);
    // What is free goes to those whose life depends on it before anybody's ease.
    std::map<std::uint32_t, std::uint64_t> lives_kib = sizes_kib;
    for (const Need& need : needs) {
        lives_kib[need.id] = std::min(sizes_kib.at(need.id), need.now.survival_kib);
        const sim::Domain* domain = host.find(need.id);
        if (domain->target_kib >= lives_kib[need.id]) {
            lives_kib[need.id] = std::min(sizes_kib.at(need.id), domain->target_kib);
        }
    }
    move_towards(host, lives_kib, start_kib_);
    move_towards(host, sizes_kib, start_kib_);
}

bool Oracle::make_room(sim::Host& host, std::uint64_t cost_kib) {
    start_kib_ = cost_kib;
    return spare_kib(host, 0) >= cost_kib;
}

}  // namespace xenpack::bench::oracle
