// SPDX-License-Identifier: LGPL-2.1-or-later
// What looking at a machine or a cgroup finds. Filled by a Sampler, made into a trace by derive.h.
// Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace xenpack::record {

// Amounts as they are at one moment.
struct Memory {
    std::uint64_t anon_kib = 0;         // anonymous and shmem pages, in memory or in swap
    std::uint64_t kernel_kib = 0;       // the kernel's own, without what it would give back
    std::uint64_t file_kib = 0;         // page cache, without shmem
    std::uint64_t active_file_kib = 0;  // of it, on the kernel's active list: used at least twice
    std::uint64_t refaulted_kib = 0;    // counted since boot: read again after eviction
};

// Counted over the lives of processes; a sum may fall where a process was reaped by a stranger.
struct Io {
    std::uint64_t asked_kib = 0;    // by read(2) and its like, from caches, disks, pipes, sockets
    std::uint64_t fetched_kib = 0;  // from disks: by read(2), by page faults, ahead of either
    std::uint64_t dirtied_kib = 0;  // file pages that were clean before
};

// Which of the pages that processes have mapped were touched, by the accessed bits of their page
// tables, since these were cleared.
struct Touched {
    std::uint64_t anon_kib = 0;          // mapped, anonymous and shmem, touched or not
    std::uint64_t anon_touched_kib = 0;  // of it
    std::uint64_t file_touched_kib = 0;  // mapped files; a page of several processes once
};

struct Look {
    std::int64_t since_ms = 0;  // when the bits were cleared
    bool last = false;          // they were cleared again afterwards
    Touched touched;
};

struct Sample {
    std::int64_t at_ms = 0;  // since the recording began
    Memory memory;
    Io io;
    std::optional<std::uint64_t> stalled_us;  // PSI memory, some, counted; none: no PSI
    std::optional<Look> look;
};

}  // namespace xenpack::record
