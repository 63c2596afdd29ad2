// SPDX-License-Identifier: LGPL-2.1-or-later
// A strict UTF-8 decoder, and what is built on it. Called by the renderers; knows no terminal.
#include "watcher/cli/text.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace xenpack {

namespace {

struct CodePoint {
    char32_t value = 0;
    std::size_t bytes = 0;  // 0: the text does not begin with valid UTF-8
};

bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// Decodes the first code point; refuses overlong forms, surrogates and what is above U+10FFFF.
CodePoint first_of(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    if (lead < 0x80) {
        return {lead, 1};
    }
    constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    const std::size_t bytes = (lead & 0xe0) == 0xc0   ? 2
                              : (lead & 0xf0) == 0xe0 ? 3
                              : (lead & 0xf8) == 0xf0 ? 4
                                                      : 0;
    if (bytes == 0 || text.size() < bytes) {
        return {};
    }
    char32_t value = lead & (0x7fu >> bytes);
    for (std::size_t at = 1; at < bytes; ++at) {
        if (!is_continuation(text[at])) {
            return {};
        }
        value = value << 6 | (static_cast<unsigned char>(text[at]) & 0x3fu);
    }
    if (value < kLeast[bytes] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) {
        return {};
    }
    return {value, bytes};
}

bool is_harmless(char32_t c) {
    struct Range {
        char32_t first, last;
    };
    // Unicode's categories Cc, Cf (those in use for text), Zl and Zp, and the variation selectors.
    constexpr std::array kHidden = {
        Range{0x00, 0x1f},     Range{0x7f, 0x9f},     Range{0xad, 0xad},
        Range{0x61c, 0x61c},   Range{0x180e, 0x180e}, Range{0x200b, 0x200f},
        Range{0x2028, 0x202e}, Range{0x2060, 0x206f}, Range{0xfe00, 0xfe0f},
        Range{0xfeff, 0xfeff}, Range{0xfff9, 0xfffb}, Range{0xe0000, 0xe0fff},
    };
    for (const Range& range : kHidden) {
        if (c >= range.first && c <= range.last) {
            return false;
        }
    }
    return c != '\\';
}

}  // namespace

std::string escaped(std::string_view untrusted) {
    std::string safe;
    safe.reserve(untrusted.size());
    while (!untrusted.empty()) {
        const CodePoint c = first_of(untrusted);
        const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
        if (c.bytes != 0 && is_harmless(c.value)) {
            safe += untrusted.substr(0, bytes);
        } else if (c.bytes != 0 && c.value == '\\') {
            safe += "\\\\";
        } else if (bytes == 1) {
            fmt::format_to(std::back_inserter(safe), "\\x{:02x}",
                           static_cast<unsigned char>(untrusted[0]));
        } else {
            fmt::format_to(std::back_inserter(safe), "\\u{{{:04x}}}",
                           static_cast<std::uint32_t>(c.value));
        }
        untrusted.remove_prefix(bytes);
    }
    return safe;
}

std::string escaped_lines(std::string_view untrusted) {
    std::string safe;
    for (;;) {
        const std::size_t end = untrusted.find('\n');
        safe += escaped(untrusted.substr(0, end));
        if (end == std::string_view::npos) {
            return safe;
        }
        safe += '\n';
        untrusted.remove_prefix(end + 1);
    }
}

std::size_t width_of(std::string_view text) {
    std::size_t columns = 0;
    for (const char c : text) {
        columns += !is_continuation(c);
    }
    return columns;
}

std::string cut_to(std::string_view text, std::size_t columns) {
    if (width_of(text) <= columns) {
        return std::string(text);
    }
    const std::string_view dots = std::string_view("...").substr(0, columns);
    const std::size_t keep = columns - dots.size();
    std::size_t seen = 0;
    std::size_t end = 0;
    for (; end < text.size(); ++end) {
        if (!is_continuation(text[end]) && seen++ == keep) {
            break;
        }
    }
    return std::string(text.substr(0, end)).append(dots);
}

}  // namespace xenpack
