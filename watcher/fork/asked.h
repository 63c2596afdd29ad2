// SPDX-License-Identifier: LGPL-2.1-or-later
// What requests for templates and forks have in common, and in which bounds: Forks checks it before
// it does anything. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "watcher/error.h"

namespace xenpack {

// How long a guest has to answer where nobody says, and the longest and shortest it may be.
inline constexpr std::int64_t kAnswerMs = 60'000;
inline constexpr std::int64_t kAnswerMostMs = 3'600'000;
inline constexpr std::int64_t kAnswerLeastMs = 100;

// Error code EINVAL: it is not between the two.
[[nodiscard]] Expected<void> check_timeout(std::int64_t timeout_ms);

// What a fork is given for its networks: addresses of IPv4 and IPv6, each with the length of its
// prefix behind a '/' or not, and a blank between two of them; or nothing. What each is for is for
// the guest's hooks to know. Error code EINVAL.
[[nodiscard]] Expected<void> check_address(const std::string& address);

}  // namespace xenpack
