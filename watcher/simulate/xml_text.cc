// SPDX-License-Identifier: LGPL-2.1-or-later
// What is well-formed, and what stands for what is not.
#include "watcher/simulate/xml_text.h"

#include <cstddef>

namespace xenpack::simulate {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`; 0: none. Code points that XML
// does not allow count as none.
std::size_t sequence(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) {
        return first >= 0x20 || first == '\t' || first == '\n' ? 1 : 0;
    }
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text.size() < length) {
        return 0;
    }
    char32_t point = first & (0x7fU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0U) != 0x80) {
            return 0;
        }
        point = point << 6U | (byte(i) & 0x3fU);
    }
    const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
    const bool not_text = (point >= 0xd800 && point <= 0xdfff) || point == 0xfffe ||
                          point == 0xffff || point > 0x10ffff || (point >= 0x80 && point < 0xa0);
    return overlong || not_text ? 0 : length;
}

}  // namespace

std::string escaped_xml(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const std::size_t length = sequence(text);
        switch (length == 0 ? '?' : text.front()) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&apos;";
                break;
            default:
                result += length == 0 ? std::string_view("?") : text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return result;
}

}  // namespace xenpack::simulate
