// SPDX-License-Identifier: LGPL-2.1-or-later
// Host: who holds which part of a simulated host's memory. Called by experiments and by the plugin.
// Every KiB is accounted for; it must not decide how much a domain should have.
#include "plugin/sim/host.h"

#include <algorithm>
#include <utility>

namespace xenpack::sim {

namespace {

constexpr std::uint64_t kPageKib = 4;
// libxl: 256 pages for each vCPU and one page for each MiB of maxmem, for the tables of its memory.
constexpr std::uint64_t kPagingPerVcpuKib = 1024;
constexpr std::uint64_t kPagingShare = 256;
// libxl's slack for a PVH or HVM guest (LIBXL_HVM_EXTRA_MEMORY): Xen's records, grant tables,
// rings.
constexpr std::uint64_t kRecordsKib = 2048;

constexpr std::uint64_t whole_pages(std::uint64_t kib) {
    return kib / kPageKib * kPageKib;
}

// maxmem as the host takes it.
std::uint64_t most_kib(const DomainConfig& config) {
    return whole_pages(std::max(config.max_memory_kib, config.memory_kib));
}

std::uint64_t overhead_of(const DomainConfig& config) {
    const std::uint64_t tables = (most_kib(config) + kPagingShare - 1) / kPagingShare;
    const std::uint64_t paging = config.vcpus * kPagingPerVcpuKib + tables;
    return (paging + kPageKib - 1) / kPageKib * kPageKib + kRecordsKib;
}

HostConfig possible(HostConfig config) {
    config.xen_kib = std::min(config.xen_kib, config.total_kib);
    config.dom0_kib = std::min(config.dom0_kib, config.total_kib - config.xen_kib);
    return config;
}

}  // namespace

Host::Host(const HostConfig& config)
    : config_(possible(config)),
      free_kib_(config_.total_kib - config_.xen_kib - config_.dom0_kib) {}

std::uint64_t Host::start_cost_kib(const DomainConfig& config) {
    return whole_pages(config.memory_kib) + overhead_of(config);
}

Domain* Host::create(const DomainConfig& config, std::shared_ptr<const Trace> trace) {
    const std::uint64_t cost_kib = start_cost_kib(config);
    if (cost_kib > free_kib_) {
        return nullptr;
    }
    DomainConfig used = config;
    used.memory_kib = whole_pages(config.memory_kib);
    used.max_memory_kib = most_kib(config);
    used.guest.static_max_kib = used.max_memory_kib;
    domains_.push_back(
        std::make_unique<Domain>(Domain{.domid = next_domid_++,
                                        .config = used,
                                        .current_kib = used.memory_kib,
                                        .target_kib = used.memory_kib,
                                        .limit_kib = used.memory_kib + kLimitSlackKib,
                                        .overhead_kib = cost_kib - used.memory_kib,
                                        .paused = false,
                                        .guest = Guest(used.guest, std::move(trace)),
                                        .balloon = BalloonDriver(used.balloon)}));
    free_kib_ -= cost_kib;
    return domains_.back().get();
}

void Host::destroy(std::uint32_t domid) {
    const auto found = std::find_if(domains_.begin(), domains_.end(),
                                    [domid](const auto& each) { return each->domid == domid; });
    if (found != domains_.end()) {
        free_kib_ += (*found)->current_kib + (*found)->overhead_kib;
        domains_.erase(found);
    }
}

Domain* Host::find(std::uint32_t domid) {
    const auto found = std::lower_bound(
        domains_.begin(), domains_.end(), domid,
        [](const auto& each, std::uint32_t wanted) { return each->domid < wanted; });
    return found != domains_.end() && (*found)->domid == domid ? found->get() : nullptr;
}

void Host::set_target(Domain& domain, std::uint64_t target_kib, bool keep_limit) {
    const std::uint64_t limit_kib = target_kib + kLimitSlackKib;
    domain.limit_kib = keep_limit ? std::max(domain.limit_kib, limit_kib) : limit_kib;
    domain.target_kib = target_kib;
}

void Host::set_limit(Domain& domain, std::uint64_t limit_kib) {
    domain.limit_kib = limit_kib + kLimitSlackKib;
}

// A guest without memory hotplug cannot grow beyond the maxmem it was built with, and does not try.
void Host::run_balloon(Domain& domain, std::int64_t dt_ms) {
    const std::uint64_t most = std::min(domain.limit_kib, domain.config.max_memory_kib);
    const std::uint64_t below = most > domain.current_kib ? most - domain.current_kib : 0;
    const std::int64_t change =
        domain.balloon.step(now_ms_, dt_ms, domain.current_kib,
                            std::min(domain.target_kib, domain.config.max_memory_kib),
                            domain.guest.can_give_kib(), std::min(below, free_kib_));
    if (change >= 0) {
        domain.current_kib += static_cast<std::uint64_t>(change);
        free_kib_ -= static_cast<std::uint64_t>(change);
    } else {
        domain.current_kib -= static_cast<std::uint64_t>(-change);
        free_kib_ += static_cast<std::uint64_t>(-change);
    }
}

void Host::step(std::int64_t dt_ms) {
    if (dt_ms <= 0) {
        return;
    }
    now_ms_ += dt_ms;
    for (const auto& domain : domains_) {
        if (!domain->paused) {
            run_balloon(*domain, dt_ms);
            domain->guest.step(dt_ms, domain->current_kib);
        }
    }
}

}  // namespace xenpack::sim
