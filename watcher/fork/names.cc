// SPDX-License-Identifier: LGPL-2.1-or-later
// Patterns to names. Pure.
#include "watcher/fork/names.h"

#include <algorithm>
#include <cerrno>

#include "watcher/config/config.h"
#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

static_assert(kMaxNameBytes == guest::kHostnameMaxBytes);

bool is_number(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

Expected<void> check_pattern(std::string_view pattern, unsigned count) {
    if (count == 0 || count > kMostForksAtOnce) {
        return fail_with(EINVAL, "{} is no number of forks: ask for 1 to {}", count,
                         kMostForksAtOnce);
    }
    if (pattern.find(kNumberMark) == std::string_view::npos) {
        if (count > 1) {
            return fail_with(EINVAL,
                             "{} forks cannot all be named {}: put a %d where their numbers go, as "
                             "in 'job-%d'",
                             count, quoted(pattern));
        }
        return check_name(pattern);
    }
    if (!has_one_mark(pattern)) {
        return fail_with(EINVAL, "{} has more than one %d: one is where the number goes",
                         quoted(pattern));
    }
    return check_name(numbered(pattern, 1));
}

}  // namespace

std::string quoted(std::string_view text) {
    std::string safe = "'";
    for (const char c : text.substr(0, 80)) {
        safe += c >= ' ' && c <= '~' ? c : '?';
    }
    return safe + (text.size() > 80 ? "...'" : "'");
}

Expected<void> check_name(std::string_view name) {
    if (is_domain_name(name)) {
        return {};
    }
    if (!name.empty() && is_number(name)) {
        return fail_with(EINVAL, "{} is no name: a number alone would be taken for a domid",
                         quoted(name));
    }
    return fail_with(EINVAL,
                     "{} is no name for a domain that is a host's name too: use 1 to {} letters, "
                     "digits, '.', '_' and '-', a letter or digit first",
                     quoted(name), kMaxNameBytes);
}

Expected<std::vector<std::string>> choose_names(const std::string& pattern, unsigned count,
                                                const std::set<std::string, std::less<>>& taken) {
    if (auto checked = check_pattern(pattern, count); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    if (!has_one_mark(pattern)) {
        if (taken.contains(pattern)) {
            return fail_with(EEXIST,
                             "a domain is named {} already: choose another name, or one with a %d "
                             "in it",
                             pattern);
        }
        return std::vector{pattern};
    }
    std::vector<std::string> names;
    for (unsigned number = 1; names.size() < count; ++number) {
        std::string name = numbered(pattern, number);
        if (auto checked = check_name(name); !checked) {  // it has grown too long
            return tl::unexpected(std::move(checked.error()));
        }
        if (!taken.contains(name)) {
            names.push_back(std::move(name));
        }
    }
    return names;
}

}  // namespace xenpack
