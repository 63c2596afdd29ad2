// SPDX-License-Identifier: LGPL-2.1-or-later
// Who asks: requests that control/ numbers, from 1 on, are told from those that others make by one
// bit for each. Pure.
#pragma once

#include <cstdint>

namespace xenpack {

// Of Forks.
inline constexpr std::uint64_t kSelfCaller = std::uint64_t{1} << 61;
inline constexpr std::uint64_t kPoolsCaller = std::uint64_t{1} << 62;
// Of the desk, for Forks.
inline constexpr std::uint64_t kForksCaller = std::uint64_t{1} << 63;

}  // namespace xenpack
