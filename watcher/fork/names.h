// SPDX-License-Identifier: LGPL-2.1-or-later
// What templates and forks may be called, and which names the forks of a request get. Forks asks
// before it makes anything. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/config/domain_name.h"
#include "watcher/error.h"

namespace xenpack {

// Forks in one request. A host holds far fewer.
inline constexpr unsigned kMostForksAtOnce = 4096;

// What somebody has given, for a sentence: in quotes, short, in one line, and nothing in it that a
// terminal would act on.
[[nodiscard]] std::string quoted(std::string_view text);

// As is_domain_name(). Error code EINVAL.
[[nodiscard]] Expected<void> check_name(std::string_view name);

// `count` names, none of `taken` and no two alike: where `pattern` has a %d, numbers from 1 on that
// lead to no name that is taken. Error code EINVAL: no such number of forks, no %d for more than
// one, more than one %d, or no name; EEXIST: the name is taken.
[[nodiscard]] Expected<std::vector<std::string>> choose_names(
    const std::string& pattern, unsigned count, const std::set<std::string, std::less<>>& taken);

}  // namespace xenpack
