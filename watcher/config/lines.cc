// SPDX-License-Identifier: LGPL-2.1-or-later
// Blanks, comments and control characters, a line at a time.
#include "watcher/config/lines.h"

#include <algorithm>

namespace xenpack {

std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string_view without_comment(std::string_view text) {
    for (std::size_t at = 1; at < text.size(); ++at) {
        if (text[at] == ';' && kBlank.find(text[at - 1]) != std::string_view::npos) {
            return trim(text.substr(0, at));
        }
    }
    return text;
}

bool has_control_character(std::string_view text) {
    return std::ranges::any_of(text, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && c != '\t') || byte == 0x7f;
    });
}

}  // namespace xenpack
