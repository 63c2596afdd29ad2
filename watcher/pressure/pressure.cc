// SPDX-License-Identifier: LGPL-2.1-or-later
// Demand from samples: averages, rise, stalls, headroom.
#include "watcher/pressure/pressure.h"

#include <algorithm>
#include <cmath>

namespace xenpack {
namespace {

// The least headroom: what a small guest's kernel needs to stay clear of its watermarks.
constexpr std::uint64_t kHeadroomMinKib = 32 * 1024;
// How far ahead a rise is provided for: a report, a decision and the balloon's work take less.
constexpr std::uint64_t kLeadMs = 2'000;
// A stall asks for a quarter more, at least this: a guest that stalls cannot say how much it lacks.
constexpr std::uint64_t kStallStepMinKib = 64 * 1024;
// A stall is remembered this long, so that the pause between two reports does not look like calm.
constexpr std::int64_t kStallMemoryMs = 3'000;
// A gap longer than this says nothing about how quickly use rises now.
constexpr std::int64_t kRiseMaxGapMs = 5'000;

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

std::uint64_t decayed_towards(std::uint64_t low, std::uint64_t high, std::int64_t elapsed_ms) {
    const double halves = static_cast<double>(elapsed_ms) / static_cast<double>(kCalmHalfLifeMs);
    return low + static_cast<std::uint64_t>(static_cast<double>(high - low) * std::exp2(-halves));
}

// Guest clocks and counters start anew with a reboot or a new reporter: only forward steps count.
std::optional<double> stalled_share(const Report& before, const Report& now) {
    if (now.uptime_ms <= before.uptime_ms || now.sequence <= before.sequence) {
        return std::nullopt;
    }
    const auto elapsed_ms = static_cast<double>(now.uptime_ms - before.uptime_ms);
    if (now.some_us && before.some_us) {
        const std::uint64_t stalled_us = minus(*now.some_us, *before.some_us);
        return std::min(1.0, static_cast<double>(stalled_us) / 1000.0 / elapsed_ms);
    }
    const std::uint64_t read_again_kib =
        4 * (minus(now.swap_ins, before.swap_ins) + minus(now.refaults, before.refaults));
    const double kib_per_s = static_cast<double>(read_again_kib) / elapsed_ms * 1000.0;
    return std::min(1.0, kib_per_s / static_cast<double>(kThrashKibPerS) * kStallShare);
}

std::uint64_t heartbeat_ms_of(const Sample& sample) {
    switch (sample.agent) {
        case Agent::xenpack:
            return sample.report->heartbeat_s * 1000;
        case Agent::qubes:
            return kQubesHeartbeatMs;
        case Agent::xen_guest_agent:
            return kXenAgentHeartbeatMs;
        case Agent::none:
            break;
    }
    return 0;
}

bool recently_stalled(const Pressure& p, std::int64_t now_ms) {
    return p.stalled_ms >= 0 && now_ms - p.stalled_ms <= kStallMemoryMs;
}

std::uint64_t with_headroom(std::uint64_t used_kib, unsigned percent) {
    return used_kib + std::max(kHeadroomMinKib, used_kib / 100 * percent);
}

}  // namespace

Pressure observe(const Pressure& before, const Sample& sample, std::int64_t now_ms) {
    Pressure now = before;
    const bool same_agent = before.agent == sample.agent;
    const std::int64_t elapsed_ms =
        same_agent ? std::max<std::int64_t>(now_ms - before.last_ms, 1) : 0;
    now.agent = sample.agent;
    now.first_ms = same_agent ? before.first_ms : now_ms;
    now.last_ms = now_ms;
    now.total_kib = sample.total_kib;
    now.used_kib = sample.used_kib;
    now.heartbeat_ms = heartbeat_ms_of(sample);
    now.used_slow_kib = same_agent && before.used_slow_kib > sample.used_kib
                            ? decayed_towards(sample.used_kib, before.used_slow_kib, elapsed_ms)
                            : sample.used_kib;
    now.rise_kib_per_s =
        same_agent && elapsed_ms <= kRiseMaxGapMs
            ? minus(sample.used_kib, before.used_kib) * 1000 /
                  static_cast<std::uint64_t>(std::max<std::int64_t>(elapsed_ms, 50))
            : 0;
    now.stalled_share = same_agent && before.last_report && sample.report
                            ? stalled_share(*before.last_report, *sample.report)
                            : std::nullopt;
    const bool stalls = now.stalled_share.value_or(0) >= kStallShare;
    const bool trigger = sample.report && sample.report->why == ReportWhy::psi;
    now.stalled_ms = stalls || trigger ? now_ms : (same_agent ? before.stalled_ms : -1);
    now.last_report = sample.report;
    return now;
}

std::int64_t stale_at_ms(const Pressure& pressure) {
    return pressure.last_ms + kMissedHeartbeats * static_cast<std::int64_t>(pressure.heartbeat_ms) +
           kHeartbeatGraceMs;
}

Demand quick_demand(const Pressure& p, const DemandRule& rule, std::int64_t now_ms) {
    Demand demand;
    // Twice what is in use is the most that a rise alone may claim.
    const std::uint64_t lead_kib = std::min(p.rise_kib_per_s * kLeadMs / 1000, p.used_kib);
    demand.need_kib =
        with_headroom(p.used_kib, rule.headroom_percent) + lead_kib + rule.overhead_kib;
    demand.stalled = recently_stalled(p, now_ms);
    // A stall that a report says is over, or that leaves plenty available, was not for want of
    // size.
    const std::uint64_t available_kib = minus(p.total_kib, p.used_kib);
    if (demand.stalled && available_kib < p.total_kib / 4) {
        // From the size it had when it said so, so that one stall is one step.
        const std::uint64_t size_kib = p.total_kib + rule.overhead_kib;
        demand.need_kib =
            std::max(demand.need_kib, size_kib + std::max(kStallStepMinKib, size_kib / 4));
    }
    return demand;
}

Demand slow_demand(const Pressure& p, const DemandRule& rule, std::int64_t now_ms) {
    const std::uint64_t used_kib =
        p.used_slow_kib > p.used_kib
            ? decayed_towards(p.used_kib, p.used_slow_kib,
                              std::max<std::int64_t>(now_ms - p.last_ms, 0))
            : p.used_kib;
    return {with_headroom(used_kib, rule.headroom_percent) + rule.overhead_kib,
            recently_stalled(p, now_ms)};
}

}  // namespace xenpack
