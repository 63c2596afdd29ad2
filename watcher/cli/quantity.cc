// SPDX-License-Identifier: LGPL-2.1-or-later
// Rounds amounts for the tables. Called by the renderers of the command line. Pure.
#include "watcher/cli/quantity.h"

#include <fmt/format.h>

namespace xenpack {

namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kGib = 1024 * kMib;

// `kib` in units of `unit_kib`, to the nearest tenth.
std::string in_tenths(std::uint64_t kib, std::uint64_t unit_kib, char unit) {
    const std::uint64_t tenths =
        kib / unit_kib * 10 + (kib % unit_kib * 10 + unit_kib / 2) / unit_kib;
    if (tenths % 10 == 0) {
        return fmt::format("{}{}", tenths / 10, unit);
    }
    return fmt::format("{}.{}{}", tenths / 10, tenths % 10, unit);
}

}  // namespace

std::string show_size(std::uint64_t kib) {
    if (kib == 0) {
        return "0M";
    }
    if (kib < kMib) {
        return fmt::format("{}K", kib);
    }
    if (kib >= 10 * kGib || kib % kGib == 0) {
        return in_tenths(kib, kGib, 'G');
    }
    return in_tenths(kib, kMib, 'M');
}

std::string show_age(std::uint64_t ms) {
    const std::uint64_t seconds = ms / 1000;
    if (seconds < 60) {
        return fmt::format("{}s", seconds);
    }
    if (seconds < 60 * 60) {
        return fmt::format("{}m", seconds / 60);
    }
    if (seconds < 24 * 60 * 60) {
        return fmt::format("{}h", seconds / (60 * 60));
    }
    return fmt::format("{}d", seconds / (24 * 60 * 60));
}

}  // namespace xenpack
