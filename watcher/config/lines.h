// SPDX-License-Identifier: LGPL-2.1-or-later
// Lines of a configuration: what xenpack.conf and the simulated host's scenario files have in
// common, of which each has a reader of its own. Pure.
#pragma once

#include <string_view>

namespace xenpack {

inline constexpr std::string_view kBlank = " \t\r";

// Without what is blank on both sides.
[[nodiscard]] std::string_view trim(std::string_view text);

// Without a comment that follows other text: a ';' after a blank, as inih has it.
[[nodiscard]] std::string_view without_comment(std::string_view text);

// Other than a tab.
[[nodiscard]] bool has_control_character(std::string_view text);

}  // namespace xenpack
