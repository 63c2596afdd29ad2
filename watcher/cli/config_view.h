// SPDX-License-Identifier: LGPL-2.1-or-later
// A configuration, or what is wrong with it, as JSON. The command check-config calls it.
// Pure; must leave nothing out that the file can set.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "watcher/config/config.h"

namespace xenpack {

// {"file":F,"ok":true,"config":{...}} or {"file":F,"ok":false,"errors":["F:3: ...", ...]}. What the
// file does not set is shown with its default, or as null where the daemon decides for each zone.
[[nodiscard]] nlohmann::json check_result(const std::string& file, const Expected<Config>& config);

}  // namespace xenpack
