// SPDX-License-Identifier: LGPL-2.1-or-later
// Times as a person gives them to a command, and as a command shows them. Used by create,
// record and simulate. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack {

inline constexpr std::int64_t kLongestMs = std::int64_t{366} * 24 * 3600 * 1000;

// A whole number and one of ms, s, m, h, d, as in 500ms or 5m; above 0, at most kLongestMs.
[[nodiscard]] Expected<std::int64_t> parse_duration_ms(std::string_view text);

// How long xenpackd waits for what a guest answers: the shortest and the longest (xenpack-api(7)).
inline constexpr std::int64_t kTimeoutLeastMs = 100;
inline constexpr std::int64_t kTimeoutMostMs = 3'600'000;
// As above, and within those.
[[nodiscard]] Expected<std::int64_t> parse_timeout_ms(std::string_view text);

// "0.5s", "59.5s", "2m 36s", "10m", "1h 05m".
[[nodiscard]] std::string show_duration(std::int64_t ms);

}  // namespace xenpack
