// SPDX-License-Identifier: LGPL-2.1-or-later
// The documented rule, and when it looks.
#include "tests/bench/peers/edera.h"

namespace xenpack::bench::edera {
namespace {

constexpr std::uint64_t kHeadroomKib = 80 * kMibKib;
// "Check intervals start at 100 ms, settling to 2 s; more aggressively on growth": doubled after
// each look that finds nothing to grow, back to the shortest after growth.
constexpr std::int64_t kFirstMs = 100;
constexpr std::int64_t kSettledMs = 2'000;
constexpr std::uint64_t kBatchKib = 2 * kMibKib;  // 512 pages

}  // namespace

// "The current maximum, or current usage + 80 MB" is read as the lesser of the two; and as growth,
// so that it never makes a zone smaller.
std::uint64_t target_kib(std::uint64_t size_kib, std::uint64_t used_kib, std::uint64_t most_kib) {
    if (used_kib * 10 <= size_kib) {
        return std::max(std::min(kLeastKib, most_kib), size_kib / 2);
    }
    if (used_kib * 10 >= size_kib * 7) {
        return std::max(size_kib, std::min(most_kib, used_kib + kHeadroomKib));
    }
    return size_kib;
}

// The default target is the least, 300 MB; a lower maximum is raised to it.
sim::DomainConfig Edera::zone_config(std::uint64_t peak_kib) const {
    return start_with(kLeastKib, std::max(kLeastKib, simulate::size_for_peak_kib(peak_kib)));
}

void Edera::zone_started(const sim::Domain& domain, std::int64_t now_ms) {
    zones_[domain.domid] = Zone{now_ms + domain.config.balloon.boot_ms, kFirstMs};
}

void Edera::step(sim::Host& host, std::int64_t now_ms) {
    for (const auto& domain : host.domains()) {
        rescue(host, *domain);
        Zone& zone = zones_[domain->domid];
        if (now_ms < zone.next_ms) {
            continue;
        }
        look(host, *domain, zone);
        zone.next_ms = now_ms + zone.pause_ms;
    }
}

// What the notifier would have taken in this step: the allocations in vain are what the workload
// lacks, as long as nothing in the guest can be reclaimed.
void Edera::rescue(sim::Host& host, sim::Domain& domain) {
    const sim::GuestStats& stats = domain.guest.stats();
    if (!stats.stalls_now || stats.lacks_kib == 0 || stats.available_kib > kBatchKib) {
        return;
    }
    const std::uint64_t batches = (stats.lacks_kib + kBatchKib - 1) / kBatchKib;
    const std::uint64_t most_kib = domain.config.max_memory_kib;
    const std::uint64_t wanted_kib = std::min(most_kib, domain.current_kib + batches * kBatchKib);
    const std::uint64_t target_kib = std::min(wanted_kib, domain.target_kib + spare_kib(host, 0));
    if (target_kib > domain.target_kib) {
        set_target(host, domain, target_kib);
    }
}

void Edera::look(sim::Host& host, sim::Domain& domain, Zone& zone) {
    // "Actual process usage": without the page cache, which can be had back.
    const sim::GuestStats& stats = domain.guest.stats();
    const std::uint64_t used_kib =
        domain.current_kib - std::min(domain.current_kib, stats.available_kib);
    const std::uint64_t wanted_kib =
        target_kib(domain.target_kib, used_kib, domain.config.max_memory_kib);
    zone.pause_ms =
        wanted_kib > domain.target_kib ? kFirstMs : std::min(2 * zone.pause_ms, kSettledMs);
    if (wanted_kib <= domain.target_kib) {
        set_target(host, domain, wanted_kib);
        return;
    }
    const std::uint64_t more_kib = std::min(wanted_kib - domain.target_kib, spare_kib(host, 0));
    set_target(host, domain, domain.target_kib + more_kib);
}

}  // namespace xenpack::bench::edera
