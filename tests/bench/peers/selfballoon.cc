// SPDX-License-Identifier: LGPL-2.1-or-later
// The rule and its interval.
#include "tests/bench/peers/selfballoon.h"

#include <cmath>

namespace xenpack::bench::selfballoon {
namespace {

constexpr std::uint64_t kDownhill = 8;
constexpr std::uint64_t kFloorBaseKib = 99 * kMibKib;
constexpr std::uint64_t kFloorDivisor = 32;
// Added after guests had been killed: a tenth of the memory is kept beside what is committed.
constexpr std::uint64_t kReservedDivisor = 10;

// totalreserve_pages: about the high watermark, 1.5 times Linux' min_free_kbytes.
std::uint64_t total_reserve_kib(std::uint64_t most_kib) {
    return static_cast<std::uint64_t>(1.5 * 4 * std::sqrt(static_cast<double>(most_kib)));
}

}  // namespace

std::uint64_t floor_kib(std::uint64_t most_kib) {
    return most_kib <= kFloorBaseKib ? most_kib
                                     : kFloorBaseKib + (most_kib - kFloorBaseKib) / kFloorDivisor;
}

std::uint64_t target_kib(std::uint64_t size_kib, std::uint64_t goal_kib, std::uint64_t least_kib,
                         std::uint64_t most_kib) {
    const std::uint64_t towards_kib =
        goal_kib < size_kib ? size_kib - (size_kib - goal_kib) / kDownhill : goal_kib;
    return std::clamp(towards_kib, least_kib, std::max(least_kib, most_kib));
}

sim::DomainConfig Selfballoon::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    return start_with_what_there_is(floor_kib(full_kib), full_kib, free_kib_);
}

void Selfballoon::step(sim::Host& host, std::int64_t now_ms) {
    free_kib_ = host.free_kib();
    if (!interval_.due(now_ms)) {
        return;
    }
    for (const auto& domain : host.domains()) {
        if (domain->guest.stats().uptime_ms < domain->config.balloon.boot_ms) {
            continue;
        }
        const std::uint64_t most_kib = domain->config.max_memory_kib;
        const std::uint64_t goal_kib = domain->guest.stats().committed_kib +
                                       domain->guest.overhead_kib() + total_reserve_kib(most_kib) +
                                       most_kib / kReservedDivisor;
        set_target(host, *domain,
                   target_kib(domain->current_kib, goal_kib, floor_kib(most_kib), most_kib));
    }
}

}  // namespace xenpack::bench::selfballoon
