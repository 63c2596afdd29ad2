// SPDX-License-Identifier: LGPL-2.1-or-later
// Points in an operation at which a test can have the process die, as a crash or a power cut would
// have it: what it leaves must then be put right at the next start. Between two points an operation
// makes one change to the host. Called by the watcher and by plugins; it must not do anything where
// the environment does not name the point.
#pragma once

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace xenpack {

// XENPACK_FAULT=fork.created kills at that point.
inline void fault_point(const char* name) noexcept {
    const char* wanted = std::getenv("XENPACK_FAULT");
    if (wanted != nullptr && std::strcmp(wanted, name) == 0) {
        static_cast<void>(std::raise(SIGKILL));
    }
}

}  // namespace xenpack
