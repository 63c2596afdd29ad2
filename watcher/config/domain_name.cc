// SPDX-License-Identifier: LGPL-2.1-or-later
// Names, letter by letter. Pure.
#include "watcher/config/domain_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "watcher/config/config.h"

namespace xenpack {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_letter_or_digit(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

bool is_domain_name(std::string_view text) {
    return !text.empty() && text.size() <= kMaxNameBytes && is_letter_or_digit(text.front()) &&
           !std::ranges::all_of(text, is_digit) && std::ranges::all_of(text, [](char c) {
               return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
           });
}

bool has_one_mark(std::string_view pattern) {
    const std::size_t at = pattern.find(kNumberMark);
    return at != std::string_view::npos &&
           pattern.find(kNumberMark, at + 1) == std::string_view::npos;
}

std::string numbered(std::string_view pattern, unsigned number) {
    const std::size_t at = pattern.find(kNumberMark);
    return fmt::format("{}{}{}", pattern.substr(0, at), number,
                       pattern.substr(at + kNumberMark.size()));
}

}  // namespace xenpack
