// SPDX-License-Identifier: LGPL-2.1-or-later
// Derive: samples become the rows of a trace. This is where the method of `xenpack record` is;
// xenpack-trace(5) describes it for a person. Pure.
//
// anon      all that must be there: anonymous, shmem and kernel memory.
// active    the share of the mapped anonymous memory that was touched within the ten seconds around
//           the row, and the kernel's. Everything, where that could not be seen.
// cache     mapped file pages touched within the last minute (the most that one look found), and
//           those on the kernel's active list or refaulted, but no more of these than read(2) got
//           from the cache within the last minute: what is on the list and not read is not needed.
// read      what read(2) got from the cache, and the mapped file pages touched within one second.
// stream    what came from the disk or was written, as far as cache did not grow by it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plugin/sim/trace.h"
#include "watcher/record/sample.h"

namespace xenpack::record {

// For so long is a file page that was used taken to be used again.
inline constexpr std::int64_t kUsedAgainMs = 60'000;

// One row for each sample, at its time; a sample no later than the one before is left out.
[[nodiscard]] std::vector<sim::TraceRow> derive_rows(const std::vector<Sample>& samples);

// How long something waited for memory during the recording. A trace of a program that was short
// of memory is not what it would have asked for. None without PSI.
[[nodiscard]] std::optional<std::uint64_t> stalled_us(const std::vector<Sample>& samples);

}  // namespace xenpack::record
