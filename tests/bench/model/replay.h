// SPDX-License-Identifier: LGPL-2.1-or-later
// Replay: a run of the lab once more, on the simulated host: the same host, zones, traces and
// policy, from the moment at which all traces had begun. Called by model_check; pure.
//
// What is the machine's and not the model's is taken from the same run: how quick its balloons were
// at each time (between 5 and 150 MiB/s, by what else the emulated processors had to do) and its
// disk, what a guest holds before its workload does anything (kernel, initramfs, reporter), and
// what the workload got done of its trace, by the trace's own time, which stands still while it
// stalls: an emulated processor is at times too slow for the trace, and that has nothing to do with
// memory. The rest is the model's.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/bench/model/lab_run.h"

namespace xenpack::bench {

struct Machine {
    std::uint64_t balloon_kib_per_s = 0;  // of all balloons on their way
    // By zone.
    std::vector<std::uint64_t> base_kib;
    std::vector<std::uint64_t> disk_kib_per_s;
};

// What the guest uses itself, neither free nor its workload's: the middle of what was seen while
// its trace was quiet, in its first seconds.
[[nodiscard]] std::uint64_t base_kib(const LabZone& zone);

// What was not seen in the run stays as the model has it by default.
[[nodiscard]] Machine machine_of(const LabRun& run);

// Of one zone, at the time of the lab's sample of the same index.
struct ReplaySample {
    std::int64_t at_ms = 0;  // lab time
    std::uint64_t current_kib = 0;
    std::uint64_t target_kib = 0;
    std::int64_t place_ms = 0;
    std::uint64_t total_kib = 0;
    std::uint64_t available_kib = 0;
    std::uint64_t stall_us = 0;  // since the replay's beginning
    std::uint64_t kills = 0;
};

struct Replay {
    // By zone; from the first sample of the comparison to the last.
    std::vector<std::vector<ReplaySample>> zones;
    std::vector<HostSample> host;  // at each step
};

// When the last of the traces began, lab time: from then on the two are compared.
[[nodiscard]] std::int64_t begin_ms(const LabRun& run);

[[nodiscard]] Replay replay(const LabRun& run, const Machine& machine);

}  // namespace xenpack::bench
