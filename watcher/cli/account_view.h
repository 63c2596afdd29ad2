// SPDX-License-Identifier: LGPL-2.1-or-later
// The daemon's account of the host's memory, as written in xenpack-api(7), as tables for a person.
// The commands df and density call it. Pure. Members of a wrong type throw
// nlohmann::json::exception.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "watcher/cli/table.h"

namespace xenpack {

// The whole of GET /v1/account: domains, families, NUMA nodes, and the host's memory in parts that
// add up to it.
[[nodiscard]] std::string render_account(const nlohmann::json& account, const Screen& screen);

// Of the same answer: what zones were made for, what they take and why, and how many more of each
// kind fit.
[[nodiscard]] std::string render_density(const nlohmann::json& account, const Screen& screen);

// A line of what a start would take, as POST /v1/cost answers.
[[nodiscard]] std::string render_cost(const nlohmann::json& cost);

}  // namespace xenpack
