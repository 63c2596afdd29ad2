// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading one node of the watcher's store. Called by all of the plugin that looks at words and
// names there; it does not interpret them.
#pragma once

#include <string>

#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

// Its value, "" where there is no such node.
Expected<std::string> read_node(const xenpack_watcher_ops& watcher, const std::string& path);

}  // namespace xenpack
