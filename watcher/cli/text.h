// SPDX-License-Identifier: LGPL-2.1-or-later
// Text for a terminal: made harmless, measured and cut. Used by whatever prints names and
// sentences, since a zone's name may hold anything. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xenpack {

// `untrusted` as one line that moves no cursor and hides nothing: control characters, invisible
// and direction-changing characters and bytes that are not UTF-8 become \xNN or \u{NNNN}, and a
// backslash becomes two.
[[nodiscard]] std::string escaped(std::string_view untrusted);

// The same for a text of several lines, which stay lines.
[[nodiscard]] std::string escaped_lines(std::string_view untrusted);

// Columns that an escaped text takes: one for each code point.
[[nodiscard]] std::size_t width_of(std::string_view text);

// At most `columns` columns of an escaped text; where something is lost, "..." stands at the end.
[[nodiscard]] std::string cut_to(std::string_view text, std::size_t columns);

}  // namespace xenpack
