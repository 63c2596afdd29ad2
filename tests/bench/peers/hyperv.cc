// SPDX-License-Identifier: LGPL-2.1-or-later
// The report, the division, and the host's second.
#include "tests/bench/peers/hyperv.h"

#include <cmath>
#include <cstdint>

namespace xenpack::bench::hyperv {
namespace {

constexpr double kBuffer = 0.20;
// Startup RAM must do until the first report comes: all that the guest may want, where the host has
// it, and Hyper-V's default of 512 MB at least. Minimum RAM may be as low as 32 MB; lower than this
// no Linux guest of the benchmark runs.
constexpr std::uint64_t kStartupKib = 512 * kMibKib;
constexpr std::uint64_t kMinimumKib = 96 * kMibKib;
// "A Linux guest reports nothing in its first 30 s."
constexpr std::int64_t kFirstReportMs = 30'000;
// Memory moves in units of 2 MiB.
constexpr std::uint64_t kGranuleKib = 2 * kMibKib;

struct FloorRow {
    std::uint64_t below_mib;
    std::uint64_t base_mib;
    std::uint64_t divisor;
};
constexpr FloorRow kFloors[] = {
    {128, 8, 2}, {512, 40, 4}, {2048, 104, 8}, {8192, 232, 16}, {UINT64_MAX, 488, 32}};

double wanted_kib(const View& view, double factor) {
    return std::clamp(factor * view.demand_kib, view.least_kib,
                      std::max(view.least_kib, view.most_kib));
}

}  // namespace

std::uint64_t floor_kib(std::uint64_t total_kib) {
    const std::uint64_t mib = total_kib / kMibKib;
    for (const FloorRow& row : kFloors) {
        if (mib < row.below_mib) {
            return row.base_mib * kMibKib + total_kib / row.divisor;
        }
    }
    return 0;
}

std::map<std::uint32_t, std::uint64_t> divide(const std::vector<View>& views, double free_kib) {
    double have_kib = free_kib;
    for (const View& view : views) {
        have_kib += view.size_kib;
    }
    // The largest factor of everybody's demand that there is memory for, at most 1.2: all guests of
    // the same weight are under the same pressure.
    double low = 0;
    double high = 1 + kBuffer;
    for (int round = 0; round < 40; ++round) {
        const double factor = round == 0 ? high : (low + high) / 2;
        double sum_kib = 0;
        for (const View& view : views) {
            sum_kib += wanted_kib(view, factor);
        }
        (sum_kib <= have_kib ? low : high) = factor;
    }
    double missing_kib = -free_kib;
    double surplus_kib = 0;
    for (const View& view : views) {
        const double more_kib = wanted_kib(view, low) - view.size_kib;
        (more_kib > 0 ? missing_kib : surplus_kib) += std::abs(more_kib);
    }
    const double taken = surplus_kib > 0 ? std::clamp(missing_kib / surplus_kib, 0.0, 1.0) : 0;
    std::map<std::uint32_t, std::uint64_t> sizes;
    for (const View& view : views) {
        const double more_kib = wanted_kib(view, low) - view.size_kib;
        const double size_kib = view.size_kib + (more_kib > 0 ? more_kib : taken * more_kib);
        sizes[view.id] = static_cast<std::uint64_t>(size_kib);
    }
    return sizes;
}

sim::DomainConfig Hyperv::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    return start_with_what_there_is(std::min(kStartupKib, full_kib), full_kib, free_kib_);
}

void Hyperv::zone_started(const sim::Domain&, std::int64_t) {
    start_kib_ = 0;
}

void Hyperv::step(sim::Host& host, std::int64_t now_ms) {
    free_kib_ = host.free_kib();
    if (!tick_.due(now_ms)) {
        return;
    }
    std::vector<View> views;
    for (const auto& domain : host.domains()) {
        if (domain->guest.stats().uptime_ms < kFirstReportMs) {
            continue;
        }
        View view;
        view.id = domain->domid;
        view.most_kib = static_cast<double>(domain->config.max_memory_kib);
        const std::uint64_t least_kib = floor_kib(domain->config.max_memory_kib);
        view.demand_kib = static_cast<double>(domain->guest.stats().committed_kib + least_kib);
        view.least_kib = static_cast<double>(std::max(least_kib, kMinimumKib));
        view.size_kib = static_cast<double>(domain->target_kib);
        views.push_back(view);
    }
    const double free_kib =
        static_cast<double>(spare_kib(host, 0)) - static_cast<double>(start_kib_);
    auto sizes_kib = divide(views, free_kib);
    std::erase_if(sizes_kib, [&](const auto& each) {
        const std::uint64_t now_kib = host.find(each.first)->target_kib;
        return std::max(now_kib, each.second) - std::min(now_kib, each.second) < kGranuleKib;
    });
    move_towards(host, sizes_kib, start_kib_);
}

bool Hyperv::make_room(sim::Host& host, std::uint64_t cost_kib) {
    start_kib_ = cost_kib;
    return host.free_kib() >= cost_kib;
}

}  // namespace xenpack::bench::hyperv
