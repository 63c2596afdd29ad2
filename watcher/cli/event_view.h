// SPDX-License-Identifier: LGPL-2.1-or-later
// One event of /v1/events as one line for a person. The command events calls it. Pure;
// must print nothing of the daemon's answer unescaped.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace xenpack {

// "2026-01-02T03:04:05.678Z grow   web (3)  512M -> 768M  reason", without an end of line. A wrong
// type throws nlohmann::json::exception.
[[nodiscard]] std::string render_event(const nlohmann::json& event);

}  // namespace xenpack
