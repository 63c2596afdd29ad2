// SPDX-License-Identifier: LGPL-2.1-or-later
// Static sizes as an Experiment sees them: each zone has for ever what its workload needs at its
// peak. What `xenpack simulate --compare` sets beside Xenpack's own policy; it moves no memory.
#pragma once

#include <cstdint>
#include <memory>

#include "watcher/simulate/policy.h"

namespace xenpack::simulate {

// The smallest domain in which a workload that wants `peak_kib` at most never lacks memory.
[[nodiscard]] std::uint64_t size_for_peak_kib(std::uint64_t peak_kib);

[[nodiscard]] std::unique_ptr<Policy> make_static_policy();

}  // namespace xenpack::simulate
