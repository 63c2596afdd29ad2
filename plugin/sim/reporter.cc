// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's part of reporting (the pressure trigger) and the program's (sequence, fields); what
// is worth a report is decided by the real reporter's class.
#include "plugin/sim/reporter.h"

#include <algorithm>

#include "watcher/guest/brake.h"

namespace xenpack::sim {

namespace {

// "some 25000 500000", as watcher/guest/psi_trigger.cc asks the kernel for.
constexpr std::uint64_t kThresholdUs = 25'000;
constexpr std::int64_t kWindowMs = 500;

}  // namespace

Reporter::Reporter(std::uint64_t heartbeat_s, bool brake)
    : heartbeat_s_(heartbeat_s), brake_(brake), reporting_(heartbeat_s * 1000, true) {}

std::optional<Report> Reporter::look(const GuestStats& stats) {
    const auto now_ms = static_cast<std::uint64_t>(stats.uptime_ms);
    const bool fired = trigger(stats);
    if (!fired && now_ms < next_look_ms_) {
        return std::nullopt;
    }
    const guest::Reporting::Look look{now_ms,
                                      {stats.total_kib, stats.free_kib, stats.available_kib,
                                       stats.swap_total_kib, stats.swap_free_kib},
                                      stats.some_us,
                                      fired};
    const auto verdict = reporting_.look(look);
    next_look_ms_ = now_ms + verdict.look_again_ms;
    if (!verdict.why) {
        return std::nullopt;
    }
    reporting_.written(look, *verdict.why);
    return report(stats, *verdict.why);
}

bool Reporter::trigger(const GuestStats& stats) {
    const bool fired = stats.some_us >= window_some_us_ + kThresholdUs;
    if (fired || stats.uptime_ms - window_ms_ >= kWindowMs) {
        window_ms_ = stats.uptime_ms;
        window_some_us_ = stats.some_us;
    }
    return fired;
}

Report Reporter::report(const GuestStats& stats, ReportWhy why) {
    Report report;
    report.why = why;
    report.sequence = ++sequence_;
    report.uptime_ms = static_cast<std::uint64_t>(stats.uptime_ms);
    report.heartbeat_s = heartbeat_s_;
    report.total_kib = stats.total_kib;
    report.available_kib = stats.available_kib;
    report.free_kib = stats.free_kib;
    if (brake_) {
        report.brake_kib = std::min(guest::brake_margin_kib(stats.total_kib), stats.total_kib);
    }
    report.swap_total_kib = stats.swap_total_kib;
    report.swap_free_kib = stats.swap_free_kib;
    report.swap_ins = stats.swap_ins;
    report.refaults = stats.refaults;
    report.some_us = stats.some_us;
    report.full_us = stats.full_us;
    return report;
}

}  // namespace xenpack::sim
