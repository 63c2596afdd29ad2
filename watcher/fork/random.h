// SPDX-License-Identifier: LGPL-2.1-or-later
// What no other domain has: uuids, seeds and tokens, from the kernel's random numbers. Called by
// Forks. It must not keep what it gave: a seed is a secret.
#pragma once

#include <cstddef>
#include <string>

#include "watcher/toolstack/toolstack.h"

namespace xenpack {

// A random one (version 4 of RFC 9562).
[[nodiscard]] Expected<Uuid> random_uuid();
// Two digits for each byte; at most 256 bytes.
[[nodiscard]] Expected<std::string> random_hex(std::size_t bytes);

}  // namespace xenpack
