// SPDX-License-Identifier: LGPL-2.1-or-later
// How each kind of value is written, and what is said where it is not. Called with one section at a
// time. Nothing is guessed: a number has its unit and no tail.
#include "plugin/sim/keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "watcher/config/config.h"

namespace xenpack::sim {

namespace {

struct TimeUnit {
    std::string_view name;
    std::int64_t ms;
};
// "ms" before "s", which it ends with, and "m".
constexpr std::array<TimeUnit, 4> kTimeUnits{
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};

std::optional<std::uint64_t> whole_number(std::string_view text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, number);
    return status == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> parse_duration_ms(std::string_view text) {
    const auto* const unit = std::ranges::find_if(
        kTimeUnits, [text](const TimeUnit& each) { return text.ends_with(each.name); });
    if (unit == kTimeUnits.end()) {
        return std::nullopt;
    }
    const auto number = whole_number(text.substr(0, text.size() - unit->name.size()));
    constexpr std::uint64_t kMost = std::uint64_t{1} << 32;  // of any unit: no overflow
    if (!number || *number > kMost) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*number) * unit->ms;
}

std::string show_kib(std::uint64_t kib) {
    return kib % 1024 == 0 ? fmt::format("{}M", kib / 1024) : fmt::format("{}K", kib);
}

std::string show_ms(std::int64_t ms) {
    return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000) : fmt::format("{}ms", ms);
}

}  // namespace

const Section::Setting* Keys::take(std::string_view key) {
    return problem_ ? nullptr : section_.take(key);
}

void Keys::refuse(std::string_view key, const std::string& what) {
    if (!problem_) {
        const Section::Setting* at = section_.take(key);
        problem_ = (at != nullptr ? section_.problem(*at, what) : section_.problem(what)).value();
    }
}

void Keys::size(std::string_view key, std::uint64_t& kib, std::uint64_t least, std::uint64_t most) {
    const Section::Setting* at = take(key);
    if (at == nullptr) {
        return;
    }
    const auto parsed = parse_size_kib(at->value);
    if (!parsed) {
        refuse(key, fmt::format("{} = {}", key, parsed.error().what));
    } else if (*parsed < least || *parsed > most) {
        refuse(key, fmt::format("{} = {} is not from {} to {}", key, at->value, show_kib(least),
                                show_kib(most)));
    } else {
        kib = *parsed;
    }
}

void Keys::duration(std::string_view key, std::int64_t& ms, std::int64_t least, std::int64_t most) {
    const Section::Setting* at = take(key);
    if (at == nullptr) {
        return;
    }
    const auto parsed = parse_duration_ms(at->value);
    if (!parsed) {
        refuse(key, fmt::format("{} = {} is not a time: write it as in 500ms, 5s, 2m or 1h", key,
                                at->value));
    } else if (*parsed < least || *parsed > most) {
        refuse(key, fmt::format("{} = {} is not from {} to {}", key, at->value, show_ms(least),
                                show_ms(most)));
    } else {
        ms = *parsed;
    }
}

void Keys::number(std::string_view key, std::uint64_t& number, std::uint64_t least,
                  std::uint64_t most) {
    const Section::Setting* at = take(key);
    if (at == nullptr) {
        return;
    }
    const auto parsed = whole_number(at->value);
    if (!parsed || *parsed < least || *parsed > most) {
        refuse(key, fmt::format("{} = {} is not a whole number from {} to {}", key, at->value,
                                least, most));
    } else {
        number = *parsed;
    }
}

void Keys::number(std::string_view key, unsigned& number, unsigned least, unsigned most) {
    std::uint64_t wide = number;
    this->number(key, wide, std::uint64_t{least}, std::uint64_t{most});
    number = static_cast<unsigned>(wide);
}

void Keys::yes_no(std::string_view key, bool& value) {
    static constexpr std::array<std::string_view, 2> kWords{"no", "yes"};
    if (const auto chosen = word(key, kWords)) {
        value = *chosen == 1;
    }
}

std::optional<std::size_t> Keys::word(std::string_view key,
                                      std::span<const std::string_view> words) {
    const Section::Setting* at = take(key);
    if (at == nullptr) {
        return std::nullopt;
    }
    const auto found = std::ranges::find(words, at->value);
    if (found == words.end()) {
        refuse(key, fmt::format("{} = {} is none of: {}", key, at->value,
                                fmt::join(words.begin(), words.end(), ", ")));
        return std::nullopt;
    }
    return static_cast<std::size_t>(found - words.begin());
}

std::optional<std::string> Keys::text(std::string_view key) {
    const Section::Setting* at = take(key);
    return at == nullptr ? std::nullopt : std::optional(at->value);
}

Expected<void> Keys::done() const {
    if (problem_) {
        return tl::unexpected(*problem_);
    }
    return section_.check_all_taken();
}

}  // namespace xenpack::sim
