// SPDX-License-Identifier: LGPL-2.1-or-later
// What `xenpack create` asks of the daemon, and what it passes on to xl. The command create calls
// it. Pure; what a start costs is the daemon's to say.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "watcher/cli/failure.h"

namespace xenpack {

// How long a start waits for memory where nobody says, and how much longer its promise is kept.
inline constexpr std::int64_t kStartWaitMs = 60'000;
inline constexpr std::int64_t kStartBuildMs = 600'000;

struct StartOptions {
    std::optional<std::string> wait{};  // "30s", "5m", "1h"
    bool no_wait = false;
};

// A time as duration.h has it, of at most a week; fails with ExitStatus::usage, naming --wait.
[[nodiscard]] Result<std::int64_t> parse_wait_ms(const std::string& text);

// The body of POST /v1/reservations for the configuration that xl printed.
[[nodiscard]] Result<nlohmann::json> reservation_body(const StartOptions& options,
                                                      const std::string& config_json);

// Whether xl is only to print or to explain: then there is nothing to reserve for.
[[nodiscard]] bool creates_nothing(const std::vector<std::string>& xl_arguments);

// "xl create" with the arguments as they were given, and the uuid for which was reserved.
[[nodiscard]] std::vector<std::string> create_command(const std::vector<std::string>& xl_arguments,
                                                      const std::string& uuid);

}  // namespace xenpack
