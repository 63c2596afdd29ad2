// SPDX-License-Identifier: LGPL-2.1-or-later
// Sizes as people write them ("512M", "1.5G"), for the configuration and the command line.
// Pure; must not guess: what is not exactly of that form is refused.
#include <charconv>
#include <string_view>

#include "watcher/config/config.h"

namespace xenpack {

namespace {

constexpr std::size_t kMaxFractionDigits = 3;

// The number of KiB in a unit, 0 where `unit` is none.
std::uint64_t kib_in(char unit) {
    switch (unit) {
        case 'K':
            return 1;
        case 'M':
            return std::uint64_t{1} << 10;
        case 'G':
            return std::uint64_t{1} << 20;
        case 'T':
            return std::uint64_t{1} << 30;
        default:
            return 0;
    }
}

bool read_digits(std::string_view digits, std::uint64_t& value) {
    const char* end = digits.data() + digits.size();
    const auto [stopped, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && stopped == end;
}

}  // namespace

Expected<std::uint64_t> parse_size_kib(std::string_view text) {
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) {
        return fail("'{0}' is not a size: it lacks its unit, one of K, M, G, T, as in {0}M", text);
    }
    const std::uint64_t unit_kib = text.empty() ? 0 : kib_in(text.back());
    if (unit_kib == 0) {
        return fail("'{}' is not a size: write a number and one of K, M, G, T, as in 512M", text);
    }
    const std::string_view number = text.substr(0, text.size() - 1);
    const std::size_t point = number.find('.');
    const std::string_view fraction =
        point == std::string_view::npos ? std::string_view{} : number.substr(point + 1);
    std::uint64_t whole = 0;
    std::uint64_t part = 0;
    const bool has_fraction = point != std::string_view::npos;
    if (!read_digits(number.substr(0, point), whole) ||
        (has_fraction &&
         (unit_kib == 1 || fraction.size() > kMaxFractionDigits || !read_digits(fraction, part)))) {
        return fail("'{}' is not a size: write it as in 65536K, 512M, 1.5G or 1T", text);
    }
    if (whole > kMaxSizeKib / unit_kib) {
        return fail("'{}' is more than the largest size, {}T", text, kMaxSizeKib >> 30);
    }
    std::uint64_t scale = 1;
    for (std::size_t digit = 0; digit < fraction.size(); ++digit) {
        scale *= 10;
    }
    return whole * unit_kib + part * unit_kib / scale;
}

}  // namespace xenpack
