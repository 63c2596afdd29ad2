// SPDX-License-Identifier: LGPL-2.1-or-later
// The members of a request's body, taken strictly: of the right type and in range, or refused in a
// sentence with the code EINVAL. For the watcher's own files.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack {

// One line of a journal, whatever it was, and not long.
[[nodiscard]] std::string one_line(std::string text);

// Refuses members that are not `known`; `what` is what was asked for, as in "a reservation".
[[nodiscard]] Expected<void> check_members(const nlohmann::json& asked,
                                           std::span<const std::string_view> known,
                                           std::string_view what);

// A whole number from 0 to `most`; `otherwise` where it is not there, or null.
template <class T>
[[nodiscard]] Expected<T> asked_number(const nlohmann::json& asked, const char* name, T otherwise,
                                       std::uint64_t most) {
    const auto it = asked.find(name);
    if (it == asked.end() || it->is_null()) {
        return otherwise;
    }
    if (!it->is_number_unsigned() || it->get<std::uint64_t>() > most) {
        return fail_with(EINVAL, "{} must be a whole number from 0 to {}", name, most);
    }
    return static_cast<T>(it->get<std::uint64_t>());
}

// Empty where it is not there, or null.
[[nodiscard]] Expected<std::string> asked_text(const nlohmann::json& asked, const char* name);

// One of `words`, the first where it is not there, or null: its place.
[[nodiscard]] Expected<std::size_t> asked_word(const nlohmann::json& asked, const char* name,
                                               std::span<const std::string_view> words);

// The first of them that is an error; null where none is.
template <class... Taken>
[[nodiscard]] const Error* first_error(const Taken&... taken) {
    const Error* first = nullptr;
    ((first = first != nullptr || taken ? first : &taken.error()), ...);
    return first;
}

// False where it is not there, or null.
[[nodiscard]] Expected<bool> asked_yes(const nlohmann::json& asked, const char* name);

}  // namespace xenpack
