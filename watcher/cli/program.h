// SPDX-License-Identifier: LGPL-2.1-or-later
// Other programs, as the command line runs them: to learn what they print, or to become them. The
// command create uses it. It decides nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watcher/cli/failure.h"

namespace xenpack {

struct ProgramOutput {
    int status = 0;  // its exit status; 128 and the signal's number where one has ended it
    std::string out;
    std::string err;
};

// Runs it with nothing on its standard input, found along PATH, and waits for its end, which is
// brought about after `within_ms`: then that is the failure. Nothing of it goes on: where SIGINT,
// SIGTERM or SIGHUP ends this process, it and its children are killed first, and it itself where
// this process is killed.
[[nodiscard]] Result<ProgramOutput> run_program(const std::vector<std::string>& command,
                                                std::int64_t within_ms);

// Becomes it: same process, same standard input and output. Returns only where that failed.
[[nodiscard]] Failure become_program(const std::vector<std::string>& command);

}  // namespace xenpack
