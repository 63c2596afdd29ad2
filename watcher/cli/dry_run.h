// SPDX-License-Identifier: LGPL-2.1-or-later
// The configuration of a domain that xl would start, as JSON: what the daemon is asked about before
// a start. The commands create and df call it. It starts nothing.
#pragma once

#include <string>
#include <vector>

#include "watcher/cli/failure.h"

namespace xenpack {

// The arguments are those of `xl create`. Fails with xl's own status where xl does.
[[nodiscard]] Result<std::string> dry_run(const std::vector<std::string>& xl_arguments);

}  // namespace xenpack
