// SPDX-License-Identifier: LGPL-2.1-or-later
// The rule, and the sampling around it: monitors every 5 s, the policy every 10 s.
#include "tests/bench/peers/mom.h"

#include <cmath>

namespace xenpack::bench::mom {
namespace {

constexpr double kPressure = 0.20;
constexpr double kCritical = 0.05;
constexpr double kGuestFree = 0.20;
constexpr double kMostChange = 0.05;
constexpr double kLeastChange = 0.0025;
constexpr std::size_t kSamples = 10;
// "Memory guaranteed": oVirt's cluster setting for desktops allows 200 % of the host's memory, so
// half of a guest's is guaranteed.
constexpr std::uint64_t kGuaranteedPart = 2;

}  // namespace

double target_kib(const View& view, double host_free) {
    const double guest_free =
        host_free <= kCritical ? host_free - kCritical : kGuestFree * host_free / kPressure;
    const double used = view.mean_current_kib - view.mean_unused_kib;
    const double least = std::max(view.least_kib, used + guest_free * view.current_kib);
    double target = view.current_kib;
    if (host_free < kPressure) {
        target = std::max((1 - kMostChange) * view.current_kib, least);
        target = std::min(target, view.current_kib);
    } else if (view.current_kib < view.most_kib) {
        target = std::max((1 + kMostChange) * view.current_kib, least);
        target = std::min(target, view.most_kib);
    }
    if (std::abs(target - view.current_kib) <= kLeastChange * view.current_kib) {
        target = view.current_kib;
    }
    return view.current_kib < view.least_kib ? view.least_kib : target;
}

void Mom::Mean::add(double value) {
    last_.push_back(value);
    if (last_.size() > kSamples) {
        last_.pop_front();
    }
}

double Mom::Mean::value() const {
    double sum = 0;
    for (const double each : last_) {
        sum += each;
    }
    return last_.empty() ? 0 : sum / static_cast<double>(last_.size());
}

sim::DomainConfig Mom::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    return start_with_what_there_is(full_kib / kGuaranteedPart, full_kib, free_kib_);
}

void Mom::step(sim::Host& host, std::int64_t now_ms) {
    free_kib_ = host.free_kib();
    if (monitor_.due(now_ms)) {
        sample(host);
    }
    if (policy_.due(now_ms)) {
        decide(host);
    }
}

void Mom::sample(const sim::Host& host) {
    host_free_.add(static_cast<double>(host.free_kib()) /
                   static_cast<double>(host.config().total_kib));
    for (const auto& domain : host.domains()) {
        if (domain->guest.stats().uptime_ms < domain->config.balloon.boot_ms) {
            continue;  // no statistics yet
        }
        Zone& zone = zones_[domain->domid];
        zone.current.add(static_cast<double>(domain->current_kib));
        zone.unused.add(static_cast<double>(domain->guest.stats().free_kib));
    }
}

void Mom::decide(sim::Host& host) {
    for (const auto& domain : host.domains()) {
        const auto zone = zones_.find(domain->domid);
        if (zone == zones_.end()) {
            continue;
        }
        View view;
        view.current_kib = static_cast<double>(domain->current_kib);
        view.mean_current_kib = zone->second.current.value();
        view.mean_unused_kib = zone->second.unused.value();
        view.most_kib = static_cast<double>(domain->config.max_memory_kib);
        view.least_kib = view.most_kib / static_cast<double>(kGuaranteedPart);
        const double target = target_kib(view, host_free_.value());
        if (target != view.current_kib) {
            set_target(host, *domain, static_cast<std::uint64_t>(target));
        }
    }
}

}  // namespace xenpack::bench::mom
