// SPDX-License-Identifier: LGPL-2.1-or-later
// LabRun: what the lab's case "model" wrote down of zones that followed traces on real Xen, read
// from its "data ..." lines (tests/lab/cases/model.sh, tests/lab/tools/sample_zones.cc). Called by
// model_check. It only reads; what the simulated host makes of the same is replay.h's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/sim/trace.h"

namespace xenpack::bench {

// What the workload itself saw; see FollowConfig::publish in tests/lab/guest/follow.h.
struct WorkloadSample {
    std::int64_t at_ms = 0;  // lab time, when it was read: up to half a second after it was seen
    std::int64_t place_ms = 0;
    std::uint64_t anon_kib = 0;
    std::uint64_t file_kib = 0;
    std::uint64_t stall_us = 0;
    std::uint64_t total_kib = 0;
    std::uint64_t free_kib = 0;
    std::uint64_t available_kib = 0;
    std::uint64_t refaults = 0;  // pages, since boot
    std::uint64_t kills = 0;     // since boot
};

struct LabSample {
    std::int64_t at_ms = 0;
    std::uint64_t current_kib = 0;
    std::uint64_t target_kib = 0;
};

struct LabZone {
    std::string name;
    sim::Trace trace;
    std::vector<LabSample> samples;
    std::vector<WorkloadSample> workload;  // each once, from the beginning of the trace on
    std::uint64_t disk_kib_per_s = 0;      // how quickly it reads; 0: not measured

    // At that time or last before it; the first where there is none before it.
    [[nodiscard]] const LabSample& at(std::int64_t ms) const;
    [[nodiscard]] const WorkloadSample& workload_at(std::int64_t ms) const;
    // When its trace began, lab time: by the sample that was the least late.
    [[nodiscard]] std::int64_t began_ms() const;
};

struct HostSample {
    std::int64_t at_ms = 0;
    std::uint64_t total_kib = 0;
    std::uint64_t free_kib = 0;
};

struct LabRun {
    std::vector<HostSample> host;
    std::vector<LabZone> zones;    // in the order of their traces
    std::uint64_t memory_kib = 0;  // of each zone, in xl.cfg
    std::uint64_t max_memory_kib = 0;
    std::uint64_t start_reserve_kib = 0;  // xenpack.conf

    [[nodiscard]] const HostSample& host_at(std::int64_t ms) const;
};

// Lines that do not begin with "data " are passed over. The error names what is missing or wrong.
[[nodiscard]] Expected<LabRun> parse_lab_run(std::string_view text);

}  // namespace xenpack::bench
