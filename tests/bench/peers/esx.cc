// SPDX-License-Identifier: LGPL-2.1-or-later
// The estimate, the division, and when ESX divides anew.
#include "tests/bench/peers/esx.h"

#include <cmath>

namespace xenpack::bench::esx {
namespace {

constexpr double kIdleTax = 0.75;
constexpr std::int64_t kSamplingMs = 30'000;
// The weights of the two averages are not published. These: half of a fast one, an eighth of a slow
// one is new with each sample.
constexpr double kFast = 0.5;
constexpr double kSlow = 0.125;
// Free memory, as a share of the host's: above `high` nothing is reclaimed, below `soft` it is,
// with hysteresis between them.
constexpr double kHigh = 0.06;
constexpr double kSoft = 0.04;
// Mem.CtlMaxPercent: the balloon takes at most 65 % of a guest. What ESX takes beyond that it swaps
// out itself, which Xen cannot.
constexpr double kBalloonMost = 0.65;

double share_of(const sim::Host& host, double share) {
    return share * static_cast<double>(host.config().total_kib);
}

}  // namespace

void Active::look(double share, std::int64_t now_ms) {
    now_ = share;
    if (first_) {
        slow_ = fast_ = share;
        first_ = false;
        next_ms_ = now_ms + kSamplingMs;
    }
    if (now_ms >= next_ms_) {
        slow_ += kSlow * (share - slow_);
        fast_ += kFast * (share - fast_);
        next_ms_ = now_ms + kSamplingMs;
    }
}

double Active::estimate() const {
    const double fast_now = fast_ + kFast * (now_ - fast_);
    return std::clamp(std::max({slow_, fast_, fast_now}), 0.0, 1.0);
}

double cost(double active) {
    return active + (1 - active) / (1 - kIdleTax);
}

std::map<std::uint32_t, std::uint64_t> divide(const std::vector<View>& views, double memory_kib) {
    // Each page's price is the same for all, but for those at their bounds: found by halving.
    const auto size_at = [](const View& view, double price) {
        return std::clamp(view.shares / (price * cost(view.active)), view.least_kib, view.most_kib);
    };
    double low = 1e-9;
    double high = 1e9;
    for (int round = 0; round < 100; ++round) {
        const double price = std::sqrt(low * high);
        double sum_kib = 0;
        for (const View& view : views) {
            sum_kib += size_at(view, price);
        }
        (sum_kib > memory_kib ? low : high) = price;
    }
    std::map<std::uint32_t, std::uint64_t> sizes;
    for (const View& view : views) {
        sizes[view.id] = static_cast<std::uint64_t>(size_at(view, high));
    }
    return sizes;
}

sim::DomainConfig Esx::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    const auto least_kib =
        static_cast<std::uint64_t>((1 - kBalloonMost) * static_cast<double>(full_kib));
    return start_with_what_there_is(least_kib, full_kib, free_kib_);
}

void Esx::zone_started(const sim::Domain& domain, std::int64_t) {
    active_[domain.domid] = Active();
    changed_ = true;
    start_kib_ = 0;
}

void Esx::step(sim::Host& host, std::int64_t now_ms) {
    free_kib_ = host.free_kib();
    if (!tick_.due(now_ms)) {
        return;
    }
    for (const auto& domain : host.domains()) {
        const double holds_kib =
            static_cast<double>(std::max<std::uint64_t>(1, domain->current_kib));
        const double used_kib = static_cast<double>(domain->guest.stats().active_kib);
        active_[domain->domid].look(used_kib / holds_kib, now_ms);
    }
    const auto free_kib = static_cast<double>(host.free_kib());
    const bool was = reclaims_;
    if (free_kib < share_of(host, kSoft)) {
        reclaims_ = true;
    } else if (free_kib >= share_of(host, kHigh)) {
        reclaims_ = false;
    }
    if (balance_.due(now_ms) || changed_ || was != reclaims_) {
        rebalance(host);
        changed_ = false;
    }
    // The lowest threshold, 1 %, is where ESX stops giving out pages.
    move_towards(host, sizes_kib_, static_cast<std::uint64_t>(share_of(host, 0.01)) + start_kib_);
}

void Esx::rebalance(const sim::Host& host) {
    std::vector<View> views;
    double memory_kib = static_cast<double>(host.free_kib()) -
                        share_of(host, reclaims_ ? kHigh : kSoft) - static_cast<double>(start_kib_);
    for (const auto& domain : host.domains()) {
        View view;
        view.id = domain->domid;
        view.most_kib = static_cast<double>(domain->config.max_memory_kib);
        view.least_kib = (1 - kBalloonMost) * view.most_kib;
        view.shares = view.most_kib;  // "normal" shares go by a guest's configured size
        view.active = active_[domain->domid].estimate();
        views.push_back(view);
        memory_kib += static_cast<double>(domain->current_kib);
    }
    sizes_kib_ = divide(views, memory_kib);
}

bool Esx::make_room(sim::Host& host, std::uint64_t cost_kib) {
    if (host.free_kib() >= cost_kib) {
        return true;
    }
    if (start_kib_ != cost_kib) {
        start_kib_ = cost_kib;
        changed_ = true;
    }
    return false;
}

}  // namespace xenpack::bench::esx
