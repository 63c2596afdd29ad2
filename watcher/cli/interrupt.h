// SPDX-License-Identifier: LGPL-2.1-or-later
// Ending a command that goes on until somebody ends it. Used by status --watch and
// events; must not be used by a command with something to undo.
#pragma once

namespace xenpack {

// From now on SIGINT and SIGTERM end the program at once, with status 0: for a command whose every
// output has been flushed, and which has nothing to undo.
void end_well_when_interrupted();

}  // namespace xenpack
