// SPDX-License-Identifier: LGPL-2.1-or-later
// Lies: what a zone may write in place of an honest report. The world has a lying zone write them,
// one after the other. It decides nothing.
#pragma once

#include <cstdint>
#include <string>

#include "watcher/pressure/report.h"

namespace xenpack::sim {

// The `count`th lie, in turns: that all is used and work stalls, that nothing is used, counters
// that run backwards, more memory than there can be, and numbers that are none.
[[nodiscard]] std::string lie(const Report& honest, std::uint64_t count);

}  // namespace xenpack::sim
