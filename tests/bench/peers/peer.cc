// SPDX-License-Identifier: LGPL-2.1-or-later
// What the peers share: sizes, and setting a target.
#include "tests/bench/peers/peer.h"

namespace xenpack::bench {

std::uint64_t full_size_kib(std::uint64_t peak_kib) {
    auto trace = std::make_shared<sim::Trace>();
    trace->rows.push_back({0, sim::Demand{.anon_kib = peak_kib,
                                          .active_kib = peak_kib,
                                          .cache_kib = 0,
                                          .read_kib_per_s = 0,
                                          .stream_kib_per_s = 0}});
    // A larger zone needs more for its page descriptors, at most some hundredths: this settles.
    std::uint64_t size_kib = peak_kib;
    for (int round = 0; round < 8; ++round) {
        sim::GuestConfig config;
        config.static_max_kib = size_kib;
        const std::uint64_t next_kib = sim::Guest(config, trace).ease_kib(0);
        if (next_kib <= size_kib) {
            break;
        }
        size_kib = next_kib;
    }
    return size_kib;
}

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
