// SPDX-License-Identifier: LGPL-2.1-or-later
// Times, the request, and xl's arguments. Pure.
#include "watcher/cli/start_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace xenpack {

namespace {

constexpr std::int64_t kMostMs = 7LL * 24 * 3600 * 1000;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> kUnits{
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};

}  // namespace

Result<std::int64_t> parse_wait_ms(const std::string& text) {
    std::int64_t count = -1;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, count);
    const std::string_view unit(stopped, static_cast<std::size_t>(end - stopped));
    const auto* const found =
        std::ranges::find(kUnits, unit, [](const auto& u) { return u.first; });
    if (error != std::errc() || found == kUnits.end() || count < 0 ||
        count > kMostMs / found->second) {
        return fail_as(ExitStatus::usage,
                       fmt::format("--wait: '{}' is no time of at most a week: write a number and "
                                   "one of s, m, h, as in 90s or 5m",
                                   text));
    }
    return count * found->second;
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
