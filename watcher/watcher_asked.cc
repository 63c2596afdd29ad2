// SPDX-License-Identifier: LGPL-2.1-or-later
// One function for each kind of member.
#include "watcher/watcher_asked.h"

namespace xenpack {
namespace {

using nlohmann::json;

constexpr std::size_t kLineMostBytes = 200;

}  // namespace

std::string one_line(std::string text) {
    for (char& c : text) {
        c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
    return text.substr(0, kLineMostBytes);
}

Expected<void> check_members(const json& asked, std::span<const std::string_view> known,
                             std::string_view what) {
    for (const auto& [name, value] : asked.items()) {
        if (std::ranges::find(known, name) == known.end()) {
            return fail_with(EINVAL, "{} has no member {}", what, one_line(name));
        }
    }
    return {};
}

Expected<std::string> asked_text(const json& asked, const char* name) {
    const auto it = asked.find(name);
    if (it == asked.end() || it->is_null()) {
        return std::string();
    }
    if (!it->is_string()) {
        return fail_with(EINVAL, "{} must be a string", name);
    }
    return it->get<std::string>();
}

Expected<std::size_t> asked_word(const json& asked, const char* name,
                                 std::span<const std::string_view> words) {
    const auto text = asked_text(asked, name);
    if (!text) {
        return tl::unexpected(text.error());
    }
    const auto found = text->empty() ? words.begin() : std::ranges::find(words, *text);
    if (found == words.end()) {
        std::string all;
        for (const std::string_view word : words) {
            all += fmt::format("{}\"{}\"", all.empty() ? "" : " or ", word);
        }
        return fail_with(EINVAL, "{} must be {}", name, all);
    }
    return static_cast<std::size_t>(found - words.begin());
}

Expected<bool> asked_yes(const json& asked, const char* name) {
    const auto it = asked.find(name);
    if (it == asked.end() || it->is_null()) {
        return false;
    }
    if (!it->is_boolean()) {
        return fail_with(EINVAL, "{} must be true or false", name);
    }
    return it->get<bool>();
}

}  // namespace xenpack
