// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's accounts of memory as values: cgroup v2, cgroup v1, and a whole machine. Called by
// Sampler, which reads the files. Pure. Each fails, naming it, where a figure is not there.
#pragma once

#include <string_view>

#include "watcher/error.h"
#include "watcher/record/sample.h"

namespace xenpack::record {

// A cgroup v2: memory.stat, and memory.swap.current ("" where the kernel has no swap).
// Linux before 5.18 gives no sum of the kernel's memory: then its parts are added.
[[nodiscard]] Expected<Memory> memory_of_cgroup2(std::string_view stat, std::string_view swap);

// A cgroup v1 with all below it: memory.stat and memory.kmem.usage_in_bytes ("" where the kernel
// does not count its own). How much of the latter it would give back is not told: none, here.
[[nodiscard]] Expected<Memory> memory_of_cgroup1(std::string_view stat, std::string_view kernel);

// /proc/meminfo and /proc/vmstat. The kernel's own is what nothing else accounts for.
[[nodiscard]] Expected<Memory> memory_of_machine(std::string_view meminfo, std::string_view vmstat);

// /proc/PID/io.
[[nodiscard]] Expected<Io> parse_io(std::string_view text);

}  // namespace xenpack::record
