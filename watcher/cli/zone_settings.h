// SPDX-License-Identifier: LGPL-2.1-or-later
// What `xenpack set` was asked for, as the body of POST /v1/zones/ZONE/settings. The
// command set calls it. Pure; whether a value suits the zone is the daemon's to say.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "watcher/cli/failure.h"

namespace xenpack {

struct ZoneSettings {
    // As typed: a size or a number, or "default" for what the configuration says.
    std::optional<std::string> floor{};
    std::optional<std::string> ceiling{};
    std::optional<std::string> weight{};
    std::optional<std::string> pin{};  // a size only
    bool automatic = false;            // ends a pin
};

// Fails with ExitStatus::usage, naming the option.
[[nodiscard]] Result<nlohmann::json> request_body(const ZoneSettings& settings);

}  // namespace xenpack
