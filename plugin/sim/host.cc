// SPDX-License-Identifier: LGPL-2.1-or-later
// Host: who holds which part of a simulated host's memory. Called by experiments and by the plugin.
// Every KiB is accounted for; it must not decide how much a domain should have.
#include "plugin/sim/host.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace xenpack::sim {

namespace {

constexpr std::uint64_t kPageKib = 4;
// libxl: 256 pages for each vCPU and one page for each MiB of maxmem, for the tables of its memory.
constexpr std::uint64_t kPagingPerVcpuKib = 1024;
constexpr std::uint64_t kPagingShare = 256;
// Choice: what a kernel that wakes up in a fork writes at once. In the lab a fork of 256 MiB had 2
// to 4 MiB of its own after 20 s of light work.
constexpr std::uint64_t kWrittenAtOnceKib = 2048;
// Choice: so long until two thirds of the memory in use have been written over.
constexpr double kRewrittenInS = 600;

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
    return (paging + kPageKib - 1) / kPageKib * kPageKib + Host::kRecordsKib;
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

std::uint64_t Host::fork_cost_kib(const DomainConfig& config) {
    return overhead_of(config) + kWrittenAtOnceKib;
}

Domain* Host::fork(const Domain& source) {
    const std::uint64_t cost_kib = fork_cost_kib(source.config);
    if (cost_kib > free_kib_) {
        return nullptr;
    }
    const GuestStats& stats = source.guest.stats();
    domains_.push_back(std::make_unique<Domain>(source));
    Domain& made = *domains_.back();
    made.domid = next_domid_++;
    made.current_kib = std::min(kWrittenAtOnceKib, source.held_kib());
    made.overhead_kib = cost_kib - made.current_kib;
    made.fork =
        ForkState{source.held_kib() - made.current_kib, stats.total_kib - stats.available_kib};
    free_kib_ -= cost_kib;
    return &made;
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

void Host::feed(Domain& domain) {
    if (domain.fork) {
        domain.fork->starved = false;
    }
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
// Of what a fork gives back Xen has nothing as far as it was shared.
void Host::run_balloon(Domain& domain, std::int64_t dt_ms) {
    const std::uint64_t held = domain.held_kib();
    const std::uint64_t most = std::min(domain.limit_kib, domain.config.max_memory_kib);
    const std::uint64_t below = most > held ? most - held : 0;
    const std::int64_t change = domain.balloon.step(
        now_ms_, dt_ms, held, std::min(domain.target_kib, domain.config.max_memory_kib),
        domain.guest.can_give_kib(), std::min(below, free_kib_));
    if (change >= 0) {
        domain.current_kib += static_cast<std::uint64_t>(change);
        free_kib_ -= static_cast<std::uint64_t>(change);
        return;
    }
    const auto less = static_cast<std::uint64_t>(-change);
    const std::uint64_t shared = domain.fork ? std::min(domain.fork->shared_kib, less) : 0;
    if (domain.fork) {
        domain.fork->shared_kib -= shared;
    }
    domain.current_kib -= less - shared;
    free_kib_ += less - shared;
}

// What a fork's guest has allocated since it was forked, and what it writes over of the rest.
void Host::write_pages(Domain& domain, std::int64_t dt_ms) {
    ForkState& fork = *domain.fork;
    fork.age_ms += dt_ms;
    const GuestStats& stats = domain.guest.stats();
    const std::uint64_t used = stats.total_kib - stats.available_kib;
    const std::uint64_t before = std::min(used, fork.used_before_kib);
    const double share = 1 - std::exp(-static_cast<double>(fork.age_ms) / 1000 / kRewrittenInS);
    const std::uint64_t written =
        kWrittenAtOnceKib + (used - before) +
        whole_pages(static_cast<std::uint64_t>(static_cast<double>(before) * share)) +
        domain.config.fork_writes_kib_per_s * static_cast<std::uint64_t>(fork.age_ms) / 1000;
    const std::uint64_t own = std::min(whole_pages(written), domain.held_kib());
    if (own <= domain.current_kib) {
        return;
    }
    const std::uint64_t wanted = own - domain.current_kib;
    const std::uint64_t more = std::min(wanted, whole_pages(free_kib_));
    fork.starved = more < wanted;
    domain.current_kib += more;
    fork.shared_kib -= more;
    free_kib_ -= more;
}

void Host::step(std::int64_t dt_ms) {
    if (dt_ms <= 0) {
        return;
    }
    now_ms_ += dt_ms;
    for (const auto& domain : domains_) {
        if (!domain->paused && !(domain->fork && domain->fork->starved)) {
            run_balloon(*domain, dt_ms);
            domain->guest.step(dt_ms, domain->held_kib());
            if (domain->fork) {
                write_pages(*domain, dt_ms);
            }
        }
    }
}

}  // namespace xenpack::sim
