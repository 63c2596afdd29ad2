// SPDX-License-Identifier: LGPL-2.1-or-later
// Report: what a zone's reporter says of its memory, and its one-line form in xenstore.
// xenpack-guest formats it, the watcher parses it; both link this file. Pure: no I/O, no clock.
//
// The value of `data/xenpack/report` (the guest owns `data`), at most kReportMaxBytes of ASCII:
//
//   1 why=psi n=17 up=93412 hb=30 tot=498112 av=81234 fr=5120 swt=0 swf=0 si=0 rf=12 some=120034
//   full=900
//
// "1" is the format's version. Then fields `name=value` in any order, one space between them, each
// at most once, values decimal. Unknown fields are skipped, so that a newer reporter can say more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack {

inline constexpr std::size_t kReportMaxBytes = 512;
inline constexpr std::string_view kReportPath = "data/xenpack/report";  // below /local/domain/N

// Heartbeats outside this range are refused by the parser, and by xenpack-guest's options.
inline constexpr std::uint64_t kHeartbeatMinS = 1;
inline constexpr std::uint64_t kHeartbeatMaxS = 600;

// Why the reporter wrote just now.
enum class ReportWhy {
    start,      // first report of this reporter
    psi,        // the kernel's pressure trigger fired
    low,        // little memory is available, and less than when last written
    change,     // the memory in use changed by much
    calm,       // pressure has ended
    heartbeat,  // nothing to say, but alive
};

struct Report {
    ReportWhy why = ReportWhy::start;
    std::uint64_t sequence = 0;       // n=    grows by one with each report of one reporter
    std::uint64_t uptime_ms = 0;      // up=   guest's monotonic clock
    std::uint64_t heartbeat_s = 0;    // hb=   a report follows at the latest after this long
    std::uint64_t total_kib = 0;      // tot=  MemTotal
    std::uint64_t available_kib = 0;  // av=   MemAvailable
    // fr= MemFree; absent: a reporter that does not say. Of what is available it is the part that
    // holds nothing, not even cache.
    std::optional<std::uint64_t> free_kib;
    // brk= of what is available, what a brake keeps out of the workload's reach; absent: no brake.
    std::optional<std::uint64_t> brake_kib;
    std::uint64_t swap_total_kib = 0;  // swt=  SwapTotal
    std::uint64_t swap_free_kib = 0;   // swf=  SwapFree
    std::uint64_t swap_ins = 0;        // si=   pages swapped in since boot (pswpin)
    std::uint64_t refaults = 0;        // rf=   workingset refaults since boot, anon and file
    // PSI memory stall totals since boot, in microseconds; absent where the kernel has no PSI.
    std::optional<std::uint64_t> some_us;  // some=
    std::optional<std::uint64_t> full_us;  // full=
};

// Required: why, n, up, hb, tot, av. Refuses anything else than the form above, tot of 0, av above
// tot, fr or brk above tot, swf above swt, `full` without `some`, and heartbeats out of range.
[[nodiscard]] Expected<Report> parse_report(std::string_view untrusted_text);
[[nodiscard]] std::string format_report(const Report& report);
[[nodiscard]] std::string_view name_of(ReportWhy why);

}  // namespace xenpack
