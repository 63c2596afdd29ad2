// SPDX-License-Identifier: LGPL-2.1-or-later
// Follow: a real workload that asks of the lab's guest what a trace asks of a simulated one
// (plugin/sim/trace.h), so that the two can be compared. Called by zone-workload, in whose process
// it runs until the trace ends; it starts no thread, and keeps nothing when it is done.
//
// As plugin/sim/guest.h has it: anonymous memory is touched when the trace grows and given back
// when it shrinks; the active part is walked through once a second; the file set is the beginning
// of a disk, read once as it grows and then again and again at random places; the stream is read
// once, from what lies behind. The trace goes on with the clock and stands still while the kernel
// says that the workload's cgroup stalls on memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plugin/sim/trace.h"

namespace xenpack::lab {

struct FollowConfig {
    const char* disk = "/dev/xvda";  // opened only if the trace reads files
    const char* pressure = "/sys/fs/cgroup/workload/memory.pressure";
    const char* group_held = "/sys/fs/cgroup/workload/memory.current";
    const char* group_high = "/sys/fs/cgroup/workload/memory.high";
    // Told where the trace is, a few times a second, as "NAME=NUMBER ...": ms (of the trace), anon
    // and file (KiB held and read), stall_us (since the beginning), MemTotal, MemFree and
    // MemAvailable (KiB), refaults (pages of files), kills (by the OOM killer, since boot), held
    // and high (KiB: of its cgroup, memory.current and the brake's memory.high; 0: none).
    std::function<void(const std::string&)> publish;
};

struct Followed {
    std::uint64_t wall_ms = 0;
    std::uint64_t stall_us = 0;
    // How quickly it could touch new memory, and read from the disk, while nothing stalled: the
    // middle of what was seen. 0: too little of it to tell.
    std::uint64_t touch_kib_per_s = 0;
    std::uint64_t disk_kib_per_s = 0;
};

// The error says what could not be done, or that a page did not hold what had been written to it.
[[nodiscard]] Expected<Followed> follow(const sim::Trace& trace, const FollowConfig& config);

}  // namespace xenpack::lab
