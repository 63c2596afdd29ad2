// SPDX-License-Identifier: LGPL-2.1-or-later
// Amounts of memory in KiB: the little arithmetic that all who reckon with them share. Every room
// may use it. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace xenpack {

// a - b, or 0 where that is less.
[[nodiscard]] constexpr std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

[[nodiscard]] constexpr std::uint64_t apart(std::uint64_t a, std::uint64_t b) {
    return std::max(a, b) - std::min(a, b);
}

// Up to whole MiB, and down to whole pages of 4 KiB.
[[nodiscard]] constexpr std::uint64_t whole_mib(std::uint64_t kib) {
    return (kib + 1023) / 1024 * 1024;
}
[[nodiscard]] constexpr std::uint64_t whole_pages(std::uint64_t kib) {
    return kib / 4 * 4;
}

// In MiB, to the nearest: for sentences.
[[nodiscard]] constexpr std::uint64_t mib(std::uint64_t kib) {
    return (kib + 512) / 1024;
}
// And never less than is missing: who makes room for what a sentence asks shall have enough.
[[nodiscard]] constexpr std::uint64_t mib_above(std::uint64_t kib) {
    return whole_mib(kib) / 1024;
}

}  // namespace xenpack
