// SPDX-License-Identifier: LGPL-2.1-or-later
// Times, the request, and xl's arguments. Pure.
#include "watcher/cli/start_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "watcher/cli/duration.h"
#include "watcher/control/control.h"

namespace xenpack {

Result<std::int64_t> parse_wait_ms(const std::string& text) {
    const auto wait_ms = parse_duration_ms(text);
    if (!wait_ms) {
        return fail_as(ExitStatus::usage, "--wait: " + wait_ms.error().what);
    }
    if (*wait_ms > kReservationWaitMostMs) {
        return fail_as(ExitStatus::usage, fmt::format("--wait: '{}' is longer than a week", text));
    }
    return *wait_ms;
}

Result<nlohmann::json> reservation_body(const StartOptions& options,
                                        const std::string& config_json) {
    if (options.wait && options.no_wait) {
        return fail_as(ExitStatus::usage, "--wait and --no-wait exclude each other");
    }
    std::int64_t wait_ms = options.no_wait ? 0 : kStartWaitMs;
    if (options.wait) {
        const auto parsed = parse_wait_ms(*options.wait);
        if (!parsed) {
            return tl::unexpected<Failure>(parsed.error());
        }
        wait_ms = *parsed;
    }
    return nlohmann::json{
        {"config", config_json}, {"wait_ms", wait_ms}, {"deadline_ms", wait_ms + kStartBuildMs}};
}

bool creates_nothing(const std::vector<std::string>& xl_arguments) {
    return std::ranges::any_of(xl_arguments, [](const std::string& argument) {
        return argument == "-n" || argument == "--dryrun" || argument == "-h" ||
               argument == "--help";
    });
}

std::vector<std::string> create_command(const std::vector<std::string>& xl_arguments,
                                        const std::string& uuid) {
    std::vector<std::string> command{"xl", "create"};
    command.insert(command.end(), xl_arguments.begin(), xl_arguments.end());
    if (!uuid.empty()) {
        command.push_back(fmt::format("uuid=\"{}\"", uuid));
    }
    return command;
}

}  // namespace xenpack
