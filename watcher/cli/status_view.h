// SPDX-License-Identifier: LGPL-2.1-or-later
// The daemon's status, as written in xenpack-api(7), as tables for a person. The commands status,
// set, template and fork call it. Pure. Members that are missing or null are shown as "-"; members
// of a wrong type throw nlohmann::json::exception.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "watcher/cli/table.h"

namespace xenpack {

// The whole of GET /v1/status: host, zones, faults, and what is not managed.
[[nodiscard]] std::string render_status(const nlohmann::json& status, const Screen& screen);

// The table of zones alone; `zones` is an array as in status.
[[nodiscard]] std::string render_zones(const nlohmann::json& zones, const Screen& screen);

// A line of one fork, as among the domains that are not managed.
[[nodiscard]] std::string render_fork(const nlohmann::json& fork);

// The table of templates alone.
[[nodiscard]] std::string render_templates(const nlohmann::json& templates, const Screen& screen);

// The table of pools alone.
[[nodiscard]] std::string render_pools(const nlohmann::json& pools, const Screen& screen);

// A line of a fork that was taken, as POST /v1/pools/NAME/take answers.
[[nodiscard]] std::string render_taken(const nlohmann::json& fork);

// A line of a fork that was made, as POST /v1/forks answers.
[[nodiscard]] std::string render_made(const nlohmann::json& fork);

}  // namespace xenpack
