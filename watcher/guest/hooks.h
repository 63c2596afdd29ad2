// SPDX-License-Identifier: LGPL-2.1-or-later
// Hooks: the programs of an administrator that are run when a zone is quiesced, resumed or forked.
// Called by ForkSteps, from a thread that may wait. It knows nothing of what they are for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "watcher/error.h"

namespace xenpack::guest {

// The executable regular files of a directory whose names are letters, digits, '_' and '-' (as
// run-parts(8) of Debian has it), in the order of their bytes. A directory that is not there has
// none.
[[nodiscard]] Expected<std::vector<std::string>> list_hooks(const std::string& directory);

// Runs one, with PATH and `environment` ("NAME=value") and no other variable, without input, its
// output on standard error, as a process group of its own. Fails if it does not end with status 0;
// it is killed after timeout_ms, and with the thread that called this. The out-of-memory killer
// may take it. Needs pidfd_open(2), Linux 5.3.
[[nodiscard]] Expected<void> run_hook(const std::string& path,
                                      std::span<const std::string> environment,
                                      std::uint64_t timeout_ms);

// All of a directory in order, until one fails.
[[nodiscard]] Expected<void> run_hooks(const std::string& directory,
                                       std::span<const std::string> environment,
                                       std::uint64_t timeout_ms);

}  // namespace xenpack::guest
