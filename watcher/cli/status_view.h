// SPDX-License-Identifier: LGPL-2.1-or-later
// The daemon's status, as written in xenpack-api(7), as tables for a person. The commands status
// and set call it. Pure. Members that are missing or null are shown as "-"; members of a wrong
// type throw nlohmann::json::exception.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "watcher/cli/table.h"

namespace xenpack {

// The whole of GET /v1/status: host, zones, faults, and what is not managed.
[[nodiscard]] std::string render_status(const nlohmann::json& status, const Screen& screen);

// The table of zones alone; `zones` is an array as in status.
[[nodiscard]] std::string render_zones(const nlohmann::json& zones, const Screen& screen);

}  // namespace xenpack
