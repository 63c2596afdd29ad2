// SPDX-License-Identifier: LGPL-2.1-or-later
// Drawing: the memory of a simulated host over time as an SVG text of its own (no script, no font,
// no other file): what zones hold, stacked, against the host's size; what is free; below it when
// zones stalled, and where one was killed. Called by `xenpack simulate --svg`. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watcher/simulate/experiment.h"

namespace xenpack::simulate {

// One run. Several are drawn below each other on the same axes.
struct Panel {
    std::string title;
    const Outcome* outcome = nullptr;    // with samples
    std::vector<std::string> workloads;  // by zone: what it runs, in the order of starts
};

struct Drawing {
    std::string title;
    std::string subtitle;
    std::uint64_t host_kib = 0;
    std::vector<Panel> panels;
};

// Zones of one workload lie together in one colour; the largest workloads have a place in the
// legend, the rest is "others". A panel without samples says so.
[[nodiscard]] std::string draw(const Drawing& drawing);

}  // namespace xenpack::simulate
