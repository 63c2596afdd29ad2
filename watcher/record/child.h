// SPDX-License-Identifier: LGPL-2.1-or-later
// Child: the command that is recorded, begun inside its cgroup. Called by `xenpack record`; it
// waits for no child and ends none.
#pragma once

#include <string>
#include <vector>

#include "watcher/error.h"

namespace xenpack::record {

// Starts argv (found along PATH) after it has entered a cgroup by writing "0" to each of
// `entrances`. Returns its pid once the program runs. Signals are for it as they were for whoever
// started this process: call it before or after blocking some, all are let through.
[[nodiscard]] Expected<int> start_child(const std::vector<std::string>& argv,
                                        const std::vector<std::string>& entrances);

// "ended with status 2", "was killed by signal 9 (Killed)"; "" for status 0.
[[nodiscard]] std::string describe_end(int wait_status);

}  // namespace xenpack::record
