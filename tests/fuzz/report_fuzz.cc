// SPDX-License-Identifier: LGPL-2.1-or-later
// Fuzz target: what a guest may write into its report. Whatever parses must keep the promises of
// report.h, and must come back the same from being formatted and parsed again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "watcher/pressure/report.h"

namespace {

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

bool same(const xenpack::Report& a, const xenpack::Report& b) {
    return a.why == b.why && a.sequence == b.sequence && a.uptime_ms == b.uptime_ms &&
           a.heartbeat_s == b.heartbeat_s && a.total_kib == b.total_kib &&
           a.available_kib == b.available_kib && a.swap_total_kib == b.swap_total_kib &&
           a.swap_free_kib == b.swap_free_kib && a.swap_ins == b.swap_ins &&
           a.refaults == b.refaults && a.some_us == b.some_us && a.full_us == b.full_us;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto report = xenpack::parse_report(text);
    if (!report) {
        for (const char c : report.error().what) {
            require(c >= ' ' && c <= '~');
        }
        return 0;
    }
    require(size <= xenpack::kReportMaxBytes);
    require(report->total_kib > 0 && report->available_kib <= report->total_kib);
    require(report->swap_free_kib <= report->swap_total_kib);
    require(report->some_us || !report->full_us);
    require(report->heartbeat_s >= xenpack::kHeartbeatMinS);
    require(report->heartbeat_s <= xenpack::kHeartbeatMaxS);
    const auto again = xenpack::parse_report(xenpack::format_report(*report));
    require(again.has_value());
    require(same(*report, *again));
    return 0;
}
