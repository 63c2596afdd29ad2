// SPDX-License-Identifier: LGPL-2.1-or-later
// A workload's cgroup v2: whether it may be acted upon, and freezing it. Called by BrakeFiles,
// Reporter (at the start) and ForkSteps. It does not know why something is frozen.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack::guest {

// Whether a process of cgroup `own` is touched by what is set on cgroup `group`; both as in
// /proc/PID/cgroup, "/" being the root.
[[nodiscard]] bool is_within(std::string_view own, std::string_view group);

// Refuses what is no cgroup v2 directory and what the reporter itself is in. option: for the
// message. own_cgroup: text of /proc/self/cgroup.
[[nodiscard]] Expected<void> check_workload(const std::string& option, const std::string& directory,
                                            std::string_view own_cgroup);

// Stops all processes of the group and of those below, and waits until they stand still (Linux
// 5.2). What it could not stop in time is left stopping: thaw.
[[nodiscard]] Expected<void> freeze(const std::string& directory, std::uint64_t timeout_ms);

// A group that is gone has nothing to thaw. Does not wait.
[[nodiscard]] Expected<void> thaw(const std::string& directory);

}  // namespace xenpack::guest
