// SPDX-License-Identifier: LGPL-2.1-or-later
// One function for each kind of member. It must not lay anything out: that is table.h's.
#include "watcher/cli/cell.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>

#include "watcher/cli/quantity.h"
#include "watcher/cli/text.h"

namespace xenpack {

using nlohmann::json;

std::string text_of(const json& value) {
    return value.is_null() ? "-" : escaped(value.get<std::string>());
}

std::string size_of(const json& value) {
    if (value.is_null()) {
        return "-";
    }
    const auto kib = value.get<std::int64_t>();
    return (kib < 0 ? "-" : "") + show_size(static_cast<std::uint64_t>(std::abs(kib)));
}

std::string percent_of(const json& value) {
    return value.is_null() ? "-" : fmt::format("{:.1f}%", value.get<double>());
}

std::string age_of(const json& value) {
    return value.is_null() ? "-" : show_age(value.get<std::uint64_t>());
}

std::string number_of(const json& value) {
    return value.is_null() ? "-" : std::to_string(value.get<std::uint64_t>());
}

}  // namespace xenpack
