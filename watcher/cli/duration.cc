// SPDX-License-Identifier: LGPL-2.1-or-later
// Times in text. Pure.
#include "watcher/cli/duration.h"

#include <array>
#include <charconv>
#include <utility>

namespace xenpack {
namespace {

constexpr std::int64_t kSecond = 1000;
constexpr std::int64_t kMinute = 60 * kSecond;
constexpr std::int64_t kHour = 60 * kMinute;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kUnits = {
    {{"ms", 1}, {"s", kSecond}, {"m", kMinute}, {"h", kHour}, {"d", 24 * kHour}}};

}  // namespace

Expected<std::int64_t> parse_duration_ms(std::string_view text) {
    std::int64_t number = 0;
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto digits = static_cast<std::size_t>(stop - text.data());
    const std::string_view unit = text.substr(digits);
    for (const auto& [name, ms] : kUnits) {
        if (unit != name || status != std::errc() || number <= 0) {
            continue;
        }
        if (number > kLongestMs / ms) {
            return fail("'{}' is longer than a year", text);
        }
        return number * ms;
    }
    return fail(
        "'{}' is not a time: a whole number above 0 and one of ms, s, m, h, d, as in 500ms "
        "or 5m",
        text);
}

Expected<std::int64_t> parse_timeout_ms(std::string_view text) {
    auto timeout_ms = parse_duration_ms(text);
    if (timeout_ms && (*timeout_ms < kTimeoutLeastMs || *timeout_ms > kTimeoutMostMs)) {
        return fail("'{}' is not between {}ms and {}", text, kTimeoutLeastMs,
                    show_duration(kTimeoutMostMs));
    }
    return timeout_ms;
}

std::string show_duration(std::int64_t ms) {
    if (ms < kMinute) {
        return fmt::format("{:.1f}s", static_cast<double>(ms) / 1000);
    }
    if (ms < kHour) {
        const std::int64_t seconds = ms % kMinute / kSecond;
        return fmt::format("{}m", ms / kMinute) +
               (seconds == 0 ? "" : fmt::format(" {:02}s", seconds));
    }
    const std::int64_t minutes = ms % kHour / kMinute;
    return fmt::format("{}h", ms / kHour) + (minutes == 0 ? "" : fmt::format(" {:02}m", minutes));
}

}  // namespace xenpack
