// SPDX-License-Identifier: LGPL-2.1-or-later
// Members of the daemon's JSON as the cells of a table: escaped, in units, and "-" where they are
// null. The renderers call it. Pure. Members of a wrong type throw nlohmann::json::exception.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace xenpack {

[[nodiscard]] std::string text_of(const nlohmann::json& value);
// KiB, which may be less than 0.
[[nodiscard]] std::string size_of(const nlohmann::json& value);
[[nodiscard]] std::string percent_of(const nlohmann::json& value);
// Milliseconds.
[[nodiscard]] std::string age_of(const nlohmann::json& value);
[[nodiscard]] std::string number_of(const nlohmann::json& value);

}  // namespace xenpack
