// SPDX-License-Identifier: LGPL-2.1-or-later
// What the reporter knows of its kernel's memory at one moment: plain values, read by proc_reader,
// judged by Reporting and Brake. No I/O.
#pragma once

#include <cstdint>

namespace xenpack::guest {

// From /proc/meminfo.
struct MemorySample {
    std::uint64_t total_kib = 0;  // MemTotal; moves with the balloon
    std::uint64_t free_kib = 0;   // MemFree
    // MemAvailable, at most MemTotal. The kernel's estimate of what can be had without swapping.
    std::uint64_t available_kib = 0;
    std::uint64_t swap_total_kib = 0;  // SwapTotal
    std::uint64_t swap_free_kib = 0;   // SwapFree, at most SwapTotal

    [[nodiscard]] std::uint64_t used_kib() const { return total_kib - available_kib; }
};

// From /proc/vmstat, counted since boot.
struct PagingCounts {
    std::uint64_t swap_ins = 0;  // pswpin
    std::uint64_t refaults = 0;  // workingset_refault_anon + _file; before Linux 5.9 _refault
};

// From /proc/pressure/memory, counted since boot.
struct StallTotals {
    std::uint64_t some_us = 0;
    std::uint64_t full_us = 0;
};

}  // namespace xenpack::guest
