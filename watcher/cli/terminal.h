// SPDX-License-Identifier: LGPL-2.1-or-later
// What standard output is, and the one way the commands write to it. Used by the commands
// only: what lays text out is given a Screen and asks nobody.
#pragma once

#include <string_view>

#include "watcher/cli/failure.h"
#include "watcher/cli/table.h"

namespace xenpack {

[[nodiscard]] bool output_is_terminal();

// Asked anew at each call, since a window may be resized. A pipe has no width and no colours; a
// terminal has no colours where NO_COLOR is set and not empty, or TERM is "dumb".
[[nodiscard]] Screen output_screen();

// Writes and flushes; fails where the output is full or closed.
[[nodiscard]] Result<void> print(std::string_view text);

}  // namespace xenpack
