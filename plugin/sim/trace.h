// SPDX-License-Identifier: LGPL-2.1-or-later
// Trace: what one workload asks of its memory over time, whatever memory it is given. Recorded by
// `xenpack record`, made by generate.h, followed by a simulated Guest. Pure; reads no files.
//
// The text form, one row a line, columns separated by blanks, times in ascending order:
//
//   xenpack-trace 1
//   # name: sort
//   # origin: recorded, GNU sort of 2,000,000 lines
//   # columns: t_ms anon_kib active_kib cache_kib read_kib_s stream_kib_s
//   0 1200 800 300 0 0
//   500 91204 88000 24000 60000 12000
//
// Lines with # are comments; "name:" and "origin:" are kept. A number is decimal and whole. The
// first row is at 0 ms, each later row is later than the one before, active_kib is at most
// anon_kib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/error.h"

namespace xenpack::sim {

struct Demand {
    std::uint64_t anon_kib = 0;          // must be in memory (or swap): anonymous, shmem, kernel
    std::uint64_t active_kib = 0;        // the part of anon_kib that is touched all the time
    std::uint64_t cache_kib = 0;         // file pages that are read again and again
    std::uint64_t read_kib_per_s = 0;    // how quickly those are read; a page that is missing is
                                         // read from the disk: a refault
    std::uint64_t stream_kib_per_s = 0;  // file pages read or written once and never again
};

struct TraceRow {
    std::int64_t at_ms = 0;
    Demand demand;
};

struct Trace {
    std::string name;
    std::string origin;
    std::vector<TraceRow> rows;  // at least one; at_ms ascending, the first 0

    [[nodiscard]] std::int64_t length_ms() const { return rows.empty() ? 0 : rows.back().at_ms; }
    // Between two rows each number changes evenly; before the first and beyond the last it stays.
    [[nodiscard]] Demand at(std::int64_t ms) const;
    // The same, quicker for one who moves along the trace: `row` is where the last search ended,
    // any number at first.
    [[nodiscard]] Demand at(std::int64_t ms, std::size_t& row) const;
    // The most memory it ever wants at once: anon and cache.
    [[nodiscard]] std::uint64_t peak_kib() const;
};

inline constexpr std::size_t kTraceMaxRows = 1'000'000;
// Bounds of what a text may say, so that no sum of a few of them can overflow: 1 PiB, 34 years.
inline constexpr std::uint64_t kTraceMaxKib = std::uint64_t{1} << 40;
inline constexpr std::int64_t kTraceMaxMs = std::int64_t{1} << 40;

// The error names the line: "line 7: ...". `name` is used where the text names none.
[[nodiscard]] Expected<Trace> parse_trace(std::string_view text, std::string_view name);
// What parse_trace reads back as the same trace. A line break in name or origin becomes a blank.
[[nodiscard]] std::string format_trace(const Trace& trace);

}  // namespace xenpack::sim
