// SPDX-License-Identifier: LGPL-2.1-or-later
// One lie for each thing that a reader could trust. Pure.
#include "plugin/sim/lies.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kHuge = 1'000'000'000'000'000'000;  // 1e18

std::string full(const Report& honest) {
    Report report = honest;
    report.why = ReportWhy::psi;
    report.available_kib = 0;
    report.free_kib = 0;
    report.some_us = report.full_us = report.uptime_ms * 1000;
    report.refaults = report.swap_ins = kHuge;
    return format_report(report);
}

std::string empty(const Report& honest) {
    Report report = honest;
    report.why = ReportWhy::calm;
    report.available_kib = report.total_kib;
    report.free_kib = report.total_kib;
    return format_report(report);
}

std::string backwards(const Report& honest) {
    Report report = honest;
    report.sequence = 0;
    report.uptime_ms = 0;
    report.some_us = report.full_us = 0;
    report.refaults = report.swap_ins = 0;
    return format_report(report);
}

std::string vast(const Report& honest) {
    Report report = honest;
    report.total_kib = kHuge;
    report.available_kib = 0;
    return format_report(report);
}

// Its counters are at their ends, and all else is as it should be.
std::string saturated(const Report& honest) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    Report report = honest;
    report.sequence = report.uptime_ms = kMost;
    report.swap_ins = report.refaults = kMost;
    report.some_us = report.full_us = kMost;
    return format_report(report);
}

std::string more_used_than_there_is(const Report& honest) {
    Report report = honest;
    report.available_kib = honest.total_kib + kHuge;
    return format_report(report);
}

std::string negative(const Report& honest) {
    return fmt::format("1 why=change n={} up={} hb={} tot={} av=-{}", honest.sequence,
                       honest.uptime_ms, honest.heartbeat_s, honest.total_kib,
                       honest.available_kib);
}

}  // namespace

std::string lie(const Report& honest, std::uint64_t count) {
    static constexpr std::array kLies{&full,    &empty,     &backwards, &full,
                                      &vast,    &saturated, &empty,     &more_used_than_there_is,
                                      &negative};
    return kLies[count % kLies.size()](honest);
}

}  // namespace xenpack::sim
