// SPDX-License-Identifier: LGPL-2.1-or-later
// What domains may be called, so that each is a host's name too, and patterns for such names. The
// configuration is checked by it, and so is what templates and forks are to be called. Pure.
#pragma once

#include <string>
#include <string_view>

namespace xenpack {

// What a pattern has in the place of a number.
inline constexpr std::string_view kNumberMark = "%d";

// 1 to kMaxNameBytes (config.h) letters, digits, '.', '_' and '-'; the first is a letter or a
// digit, as what begins otherwise is an option to a command or hidden, and a number alone is none,
// as it would be a domid.
[[nodiscard]] bool is_domain_name(std::string_view text);

[[nodiscard]] bool has_one_mark(std::string_view pattern);
// `pattern`, which has a mark, with `number` in the place of the first.
[[nodiscard]] std::string numbered(std::string_view pattern, unsigned number);

}  // namespace xenpack
