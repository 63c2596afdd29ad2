// SPDX-License-Identifier: LGPL-2.1-or-later
// Print: the benchmark's figures as a table for people, as JSON, and one run's samples as CSV.
// Makes text only; its caller writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/bench/verdict.h"

namespace xenpack::bench {

[[nodiscard]] std::string table_of(const std::vector<SetScores>& sets,
                                   const std::vector<Contender>& contenders, const Verdict& verdict,
                                   const Effort& effort);
[[nodiscard]] std::string json_of(const std::vector<SetScores>& sets,
                                  const std::vector<Contender>& contenders, const Verdict& verdict,
                                  const Effort& effort);
// One row a second: free memory, then of each zone its size, its target, the size at which it would
// not stall, the time it lost in that second, and how often it was killed.
[[nodiscard]] std::string csv_of(const simulate::Outcome& outcome);
// "1.5 s", or "-" for nothing.
[[nodiscard]] std::string seconds(std::optional<std::int64_t> ms);

}  // namespace xenpack::bench
