// SPDX-License-Identifier: LGPL-2.1-or-later
// say: see say.h. Called by every part of the reporter that does I/O.
#include "watcher/guest/say.h"

#include <unistd.h>

namespace xenpack::guest {

void say_line(std::string line) {
    line.insert(0, "xenpack-guest: ");
    line += '\n';
    [[maybe_unused]] const ssize_t r = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace xenpack::guest
