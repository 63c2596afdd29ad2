// SPDX-License-Identifier: LGPL-2.1-or-later
// Decision: one thing that was decided or noticed, as the journal, /v1/events and a person read it.
// Made by the watcher, consumed by publish/ and control/. Plain values.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace xenpack {

enum class DecisionKind { grow, shrink, found, gone, fault, host, config, start, sealed, fork };

struct Decision {
    DecisionKind kind = DecisionKind::host;
    std::string zone;  // empty where it is about the host
    std::uint32_t domid = 0;
    std::string uuid;
    std::optional<std::uint64_t> from_kib;
    std::optional<std::uint64_t> to_kib;
    std::string reason;  // one sentence
};

// One that is about no zone.
[[nodiscard]] Decision about_host(DecisionKind kind, std::string reason);

[[nodiscard]] std::string_view name_of(DecisionKind kind);

// "web (3): grow 256 -> 512 MiB: uses 300 MiB, needs 375 MiB with headroom"
[[nodiscard]] std::string to_line(const Decision& decision);

// As in xenpack-api(7), with the time of the call.
[[nodiscard]] nlohmann::json to_json(const Decision& decision);

}  // namespace xenpack
