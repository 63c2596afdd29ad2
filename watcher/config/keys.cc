// SPDX-License-Identifier: LGPL-2.1-or-later
// The table of keys, and how the value of each is read and bounded. The parser in config.cc calls
// it. Pure; a value is taken whole or refused, never rounded into range.
#include "watcher/config/keys.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "watcher/config/domain_name.h"

namespace xenpack {

namespace {

Expected<unsigned> parse_whole(std::string_view text, unsigned least, unsigned most) {
    unsigned value = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stopped != end || value < least || value > most) {
        return fail("'{}' is not a whole number from {} to {}", text, least, most);
    }
    return value;
}

Expected<unsigned> parse_percent(std::string_view text, unsigned least, unsigned most) {
    if (!text.ends_with('%')) {
        return fail("'{}' is not a percentage: write a number and %, as in 25%", text);
    }
    return parse_whole(text.substr(0, text.size() - 1), least, most);
}

Expected<bool> parse_yes_no(std::string_view text) {
    if (text != "yes" && text != "no") {
        return fail("'{}' is neither yes nor no", text);
    }
    return text == "yes";
}

// Keeps a parsed value in `place`, or passes its error on.
template <class Place, class Value>
Expected<void> keep(Place& place, const Expected<Value>& value) {
    if (!value) {
        return tl::unexpected<Error>(value.error());
    }
    place = *value;
    return {};
}

Expected<SizeOrPercent> parse_size_or_percent(std::string_view value) {
    if (!value.empty() && value.find_first_not_of("0123456789") == std::string_view::npos) {
        return fail(
            "'{0}' lacks its unit: write it as a size, as in {0}M, or as a percentage of "
            "the host's memory, {0}%",
            value);
    }
    SizeOrPercent parsed;
    const auto kept = value.ends_with('%') ? keep(parsed.percent, parse_percent(value, 0, 100))
                                           : keep(parsed.kib, parse_size_kib(value));
    if (!kept) {
        return tl::unexpected<Error>(kept.error());
    }
    return parsed;
}

Expected<void> set_reserve(Config& config, ZoneConfig&, std::string_view value) {
    config.reserve.reset();
    return value == "auto" ? Expected<void>{} : keep(config.reserve, parse_size_or_percent(value));
}

Expected<void> set_start_reserve(Config& config, ZoneConfig&, std::string_view value) {
    return keep(config.start_reserve, parse_size_or_percent(value));
}

Expected<void> set_emergency(Config& config, ZoneConfig&, std::string_view value) {
    return keep(config.emergency_kib, parse_size_kib(value));
}

Expected<void> set_dom0_floor(Config& config, ZoneConfig&, std::string_view value) {
    return keep(config.dom0_floor_kib, parse_size_kib(value));
}

Expected<void> set_fork_reserve(Config& config, ZoneConfig&, std::string_view value) {
    return keep(config.fork_reserve_kib, parse_size_kib(value));
}

Expected<void> set_toolstack(Config& config, ZoneConfig&, std::string_view value) {
    const bool is_name = std::all_of(value.begin(), value.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
    if (!is_name && !value.starts_with('/')) {
        return fail(
            "'{}' is neither a plugin's name (a-z, 0-9, - and _) nor an absolute path to one",
            value);
    }
    config.toolstack = std::string(value);
    return {};
}

Expected<void> set_socket(Config& config, ZoneConfig&, std::string_view value) {
    if (!value.starts_with('/') || value.ends_with('/')) {
        return fail("'{}' is not the absolute path of a socket", value);
    }
    if (value.size() > kMaxSocketPathBytes) {
        return fail("'{}' is longer than the {} bytes a socket's path may have", value,
                    kMaxSocketPathBytes);
    }
    config.socket_path = std::string(value);
    return {};
}

Expected<void> set_manage(Config&, ZoneConfig& zone, std::string_view value) {
    return keep(zone.manage, parse_yes_no(value));
}

Expected<void> set_floor(Config&, ZoneConfig& zone, std::string_view value) {
    return keep(zone.floor_kib, parse_size_kib(value));
}

Expected<void> set_ceiling(Config&, ZoneConfig& zone, std::string_view value) {
    const auto ceiling_kib = parse_size_kib(value);
    if (ceiling_kib && *ceiling_kib == 0) {
        return fail("a ceiling of {} leaves a zone no memory", value);
    }
    return keep(zone.ceiling_kib, ceiling_kib);
}

Expected<void> set_weight(Config&, ZoneConfig& zone, std::string_view value) {
    return keep(zone.weight, parse_whole(value, kMinWeight, kMaxWeight));
}

Expected<void> set_headroom(Config&, ZoneConfig& zone, std::string_view value) {
    return keep(zone.headroom_percent, parse_percent(value, 5, 100));
}

Expected<void> set_self_forks(Config&, ZoneConfig& zone, std::string_view value) {
    return keep(zone.self_forks, parse_whole(value, 0, kMostSelfForks));
}

Expected<void> set_template(Config& config, ZoneConfig&, std::string_view value) {
    if (!is_domain_name(value)) {
        return fail(
            "'{}' is not the name of a template: those are 1 to {} letters, digits, '.', '_' "
            "and '-', a letter or digit first, and not digits alone",
            value, kMaxNameBytes);
    }
    config.pools.back().template_name = value;
    return {};
}

Expected<void> set_ready(Config& config, ZoneConfig&, std::string_view value) {
    return keep(config.pools.back().ready, parse_whole(value, 0, kMostInPool));
}

Expected<void> set_most(Config& config, ZoneConfig&, std::string_view value) {
    return keep(config.pools.back().most, parse_whole(value, 0, kMostInPool));
}

Expected<void> set_name(Config& config, ZoneConfig&, std::string_view value) {
    if (!has_one_mark(value)) {
        return fail("'{}' does not have one %d, where the number goes, as in job-%d", value);
    }
    if (!is_domain_name(numbered(value, 1)) || value.size() > kMaxPatternBytes) {
        return fail(
            "'{}' gives no names for domains: beside its %d use up to {} letters, digits, '.', "
            "'_' and '-', a letter or digit first, and not digits alone",
            value, kMaxPatternBytes - kNumberMark.size());
    }
    config.pools.back().pattern = value;
    return {};
}

Expected<void> set_keep(Config& config, ZoneConfig&, std::string_view value) {
    if (value != "paused" && value != "running") {
        return fail("'{}' is neither paused nor running", value);
    }
    config.pools.back().running = value == "running";
    return {};
}

constexpr std::array kKeys = {
    ConfigKey{SectionKind::host, "reserve", set_reserve},
    ConfigKey{SectionKind::host, "start-reserve", set_start_reserve},
    ConfigKey{SectionKind::host, "emergency", set_emergency},
    ConfigKey{SectionKind::host, "dom0-floor", set_dom0_floor},
    ConfigKey{SectionKind::host, "fork-reserve", set_fork_reserve},
    ConfigKey{SectionKind::daemon, "toolstack", set_toolstack},
    ConfigKey{SectionKind::daemon, "socket", set_socket},
    ConfigKey{SectionKind::zone, "manage", set_manage},
    ConfigKey{SectionKind::zone, "floor", set_floor},
    ConfigKey{SectionKind::zone, "ceiling", set_ceiling},
    ConfigKey{SectionKind::zone, "weight", set_weight},
    ConfigKey{SectionKind::zone, "headroom", set_headroom},
    ConfigKey{SectionKind::zone, "self-forks", set_self_forks},
    ConfigKey{SectionKind::pool, "template", set_template},
    ConfigKey{SectionKind::pool, "ready", set_ready},
    ConfigKey{SectionKind::pool, "most", set_most},
    ConfigKey{SectionKind::pool, "name", set_name},
    ConfigKey{SectionKind::pool, "keep", set_keep},
};

}  // namespace

std::string_view name_of(SectionKind kind) {
    switch (kind) {
        case SectionKind::host:
            return "host";
        case SectionKind::daemon:
            return "daemon";
        case SectionKind::zone:
            return "zone";
        case SectionKind::pool:
            return "pool";
    }
    return "";
}

std::span<const ConfigKey> config_keys() {
    return kKeys;
}

}  // namespace xenpack
