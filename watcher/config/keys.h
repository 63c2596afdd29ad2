// SPDX-License-Identifier: LGPL-2.1-or-later
// The keys xenpack.conf may hold: one table, which the parser obeys and the tests hold against the
// man page and the sample file. Only watcher/config and its tests include this. Pure.
#pragma once

#include <span>
#include <string_view>

#include "watcher/config/config.h"

namespace xenpack {

enum class SectionKind { host, daemon, zone, pool };

[[nodiscard]] std::string_view name_of(SectionKind kind);

struct ConfigKey {
    SectionKind section;
    std::string_view name;
    // Parses `value` into its place: in `config`, for keys of a zone section in `zone`, for those
    // of a pool's in the last of config.pools. The error says what is wrong with the value; the
    // caller adds where.
    Expected<void> (*set)(Config& config, ZoneConfig& zone, std::string_view value);
};

// In the order in which the documentation lists them.
[[nodiscard]] std::span<const ConfigKey> config_keys();

}  // namespace xenpack
