// SPDX-License-Identifier: LGPL-2.1-or-later
// What the peers share: what a guest uses, and setting a target.
#include "tests/bench/peers/peer.h"

namespace xenpack::bench {

std::uint64_t used_without_cache_kib(const sim::Domain& domain) {
    const sim::GuestStats& stats = domain.guest.stats();
    const std::uint64_t spare_kib = stats.free_kib + stats.cached_kib;
    const std::uint64_t in_memory_kib =
        domain.current_kib - std::min(domain.current_kib, spare_kib);
    return in_memory_kib + stats.swap_total_kib - stats.swap_free_kib;
}

void Peer::set_target(sim::Host& host, sim::Domain& domain, std::uint64_t target_kib) {
    const std::uint64_t page_kib = target_kib / 4 * 4;
    if (page_kib == domain.target_kib) {
        return;
    }
    host.set_target(domain, page_kib, false);
    ++changes_;
}

std::uint64_t spare_kib(const sim::Host& host, std::uint64_t keep_free_kib) {
    std::uint64_t taken_kib = keep_free_kib;
    for (const auto& domain : host.domains()) {
        taken_kib += domain->target_kib - std::min(domain->target_kib, domain->current_kib);
    }
    return host.free_kib() - std::min(host.free_kib(), taken_kib);
}

void Peer::move_towards(sim::Host& host, const std::map<std::uint32_t, std::uint64_t>& sizes_kib,
                        std::uint64_t keep_free_kib) {
    std::uint64_t wanted_kib = 0;
    for (const auto& [id, size_kib] : sizes_kib) {
        sim::Domain* domain = host.find(id);
        if (domain == nullptr) {
            continue;
        }
        if (size_kib < domain->target_kib) {
            set_target(host, *domain, size_kib);
        } else {
            wanted_kib += size_kib - domain->target_kib;
        }
    }
    if (wanted_kib == 0) {
        return;
    }
    const std::uint64_t there_kib = std::min(wanted_kib, spare_kib(host, keep_free_kib));
    const double share = static_cast<double>(there_kib) / static_cast<double>(wanted_kib);
    for (const auto& [id, size_kib] : sizes_kib) {
        sim::Domain* domain = host.find(id);
        if (domain != nullptr && size_kib > domain->target_kib) {
            const double more_kib = share * static_cast<double>(size_kib - domain->target_kib);
            set_target(host, *domain, domain->target_kib + static_cast<std::uint64_t>(more_kib));
        }
    }
}

sim::DomainConfig Peer::start_with(std::uint64_t memory_kib, std::uint64_t max_memory_kib) {
    sim::DomainConfig config;
    config.max_memory_kib = max_memory_kib / 4 * 4;
    config.memory_kib = std::min(memory_kib / 4 * 4, config.max_memory_kib);
    return config;
}

sim::DomainConfig Peer::start_with_what_there_is(std::uint64_t least_kib, std::uint64_t full_kib,
                                                 std::uint64_t free_kib) {
    sim::DomainConfig config = start_with(full_kib, full_kib);
    const std::uint64_t aside_kib = sim::Host::start_cost_kib(config) - config.memory_kib;
    const std::uint64_t room_kib = free_kib - std::min(free_kib, aside_kib);
    const std::uint64_t memory_kib = std::clamp(room_kib, least_kib, full_kib);
    return start_with(memory_kib, full_kib);
}

}  // namespace xenpack::bench
