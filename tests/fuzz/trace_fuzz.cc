// SPDX-License-Identifier: LGPL-2.1-or-later
// Fuzz target: a trace's text, which anybody may hand to `xenpack simulate`. What is accepted keeps
// the promises of trace.h, is read back as it was written, and can be followed by a guest.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "plugin/sim/guest.h"

namespace {

using xenpack::sim::Demand;
using xenpack::sim::Guest;
using xenpack::sim::GuestConfig;
using xenpack::sim::Trace;

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

bool same(const Demand& a, const Demand& b) {
    return a.anon_kib == b.anon_kib && a.active_kib == b.active_kib && a.cache_kib == b.cache_kib &&
           a.read_kib_per_s == b.read_kib_per_s && a.stream_kib_per_s == b.stream_kib_per_s;
}

void check_accepted(const Trace& trace) {
    require(!trace.rows.empty() && trace.rows.front().at_ms == 0);
    require(trace.length_ms() <= xenpack::sim::kTraceMaxMs);
    for (std::size_t i = 0; i < trace.rows.size(); ++i) {
        const auto& row = trace.rows[i];
        require(i == 0 || trace.rows[i - 1].at_ms < row.at_ms);
        require(row.demand.active_kib <= row.demand.anon_kib);
        require(row.demand.anon_kib <= xenpack::sim::kTraceMaxKib);
        require(same(trace.at(row.at_ms), row.demand));
    }
}

void check_read_back(const Trace& trace) {
    const auto again = xenpack::sim::parse_trace(xenpack::sim::format_trace(trace), "fuzz");
    require(again.has_value());
    require(again->name == trace.name && again->origin == trace.origin);
    require(again->rows.size() == trace.rows.size());
    for (std::size_t i = 0; i < trace.rows.size(); ++i) {
        require(again->rows[i].at_ms == trace.rows[i].at_ms);
        require(same(again->rows[i].demand, trace.rows[i].demand));
    }
}

void check_followed(const Trace& trace, std::size_t salt) {
    GuestConfig config;
    config.static_max_kib = 1024 * 1024;
    config.swap_kib = salt % 3 * 128 * 1024;
    Guest guest(config, std::make_shared<const Trace>(trace));
    for (std::uint64_t i = 0; i < 50; ++i) {
        guest.step(100, (200 + (i * 37 + salt) % 800) * 1024);
        const auto& stats = guest.stats();
        require(stats.available_kib <= stats.total_kib && stats.free_kib <= stats.total_kib);
        require(stats.swap_free_kib <= stats.swap_total_kib);
        require(guest.trace_ms() >= 0 && guest.trace_ms() <= trace.length_ms());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto trace = xenpack::sim::parse_trace(text, "fuzz");
    if (!trace) {
        require(trace.error().what.starts_with("line "));
        return 0;
    }
    check_accepted(*trace);
    check_read_back(*trace);
    check_followed(*trace, size);
    return 0;
}
