// SPDX-License-Identifier: LGPL-2.1-or-later
// Patterns to names. Pure.
#include "watcher/fork/names.h"

#include <algorithm>
#include <cerrno>

#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

bool is_number(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string numbered(std::string_view pattern, std::size_t mark, unsigned number) {
    return fmt::format("{}{}{}", pattern.substr(0, mark), number,
                       pattern.substr(mark + kNumberMark.size()));
}

Expected<void> check_pattern(std::string_view pattern, unsigned count) {
    if (count == 0 || count > kMostForksAtOnce) {
        return fail_with(EINVAL, "{} is no number of forks: ask for 1 to {}", count,
                         kMostForksAtOnce);
    }
    const std::size_t mark = pattern.find(kNumberMark);
    if (mark == std::string_view::npos) {
        if (count > 1) {
            return fail_with(EINVAL,
                             "{} forks cannot all be named {}: put a %d where their numbers go, as "
                             "in 'job-%d'",
                             count, quoted(pattern));
        }
        return check_name(pattern);
    }
    if (pattern.find(kNumberMark, mark + 1) != std::string_view::npos) {
        return fail_with(EINVAL, "{} has more than one %d: one is where the number goes",
                         quoted(pattern));
    }
    return check_name(numbered(pattern, mark, 1));
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
    if (!guest::is_word(name)) {
        return fail_with(
            EINVAL,
            "{} is no name for a domain that is a host's name too: use 1 to {} letters, "
            "digits, '.', '_' and '-'",
            quoted(name), guest::kHostnameMaxBytes);
    }
    if (is_number(name)) {
        return fail_with(EINVAL, "{} is no name: a number alone would be taken for a domid",
                         quoted(name));
    }
    return {};
}

Expected<std::vector<std::string>> choose_names(const std::string& pattern, unsigned count,
                                                const std::set<std::string, std::less<>>& taken) {
    if (auto checked = check_pattern(pattern, count); !checked) {
        return tl::unexpected(std::move(checked.error()));
    }
    const std::size_t mark = pattern.find(kNumberMark);
    if (mark == std::string::npos) {
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
        std::string name = numbered(pattern, mark, number);
        if (!guest::is_word(name)) {  // it has grown too long
            return tl::unexpected(std::move(check_name(name).error()));
        }
        if (!taken.contains(name)) {
            names.push_back(std::move(name));
        }
    }
    return names;
}

}  // namespace xenpack
