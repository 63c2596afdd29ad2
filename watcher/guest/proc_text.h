// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's text files as values: /proc/meminfo, /proc/vmstat, /proc/pressure/memory, and the
// flat "name value" files of cgroup v2. Pure; proc_reader and brake_files read the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "watcher/guest/sample.h"

namespace xenpack::guest {

// None without MemTotal, MemFree or MemAvailable (Linux before 3.14 has no MemAvailable), or with
// MemTotal of 0. Swap absent counts as none.
[[nodiscard]] std::optional<MemorySample> parse_meminfo(std::string_view text);

// A counter that the kernel does not have is 0.
[[nodiscard]] PagingCounts parse_vmstat(std::string_view text);

// None without a `some` line. `full` absent counts as 0.
[[nodiscard]] std::optional<StallTotals> parse_pressure(std::string_view text);

// The number behind `name` at the start of a line: "high 12", "MemTotal:   498112 kB".
[[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view text, std::string_view name);

// A whole file that is one decimal number, with or without a newline. None for `max`.
[[nodiscard]] std::optional<std::uint64_t> parse_single(std::string_view text);

}  // namespace xenpack::guest
