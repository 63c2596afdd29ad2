// SPDX-License-Identifier: LGPL-2.1-or-later
// Chart: the zones that fit under each policy, as bars, one group for each trace set. SVG text.
#pragma once

#include <string>

#include "tests/bench/verdict.h"

namespace xenpack::bench {

[[nodiscard]] std::string chart_of(const std::vector<SetScores>& sets,
                                   const std::vector<Contender>& contenders);

}  // namespace xenpack::bench
