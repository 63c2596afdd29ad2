// SPDX-License-Identifier: LGPL-2.1-or-later
// Writes a Config as JSON. Pure.
#include "watcher/cli/config_view.h"

#include <string_view>

namespace xenpack {

namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

json zone_values(const ZoneConfig& zone) {
    return {{"manage", or_null(zone.manage)},
            {"floor_kib", or_null(zone.floor_kib)},
            {"ceiling_kib", or_null(zone.ceiling_kib)},
            {"weight", or_null(zone.weight)},
            {"headroom_percent", or_null(zone.headroom_percent)},
            {"self_forks", or_null(zone.self_forks)}};
}

json pool_values(const PoolConfig& pool) {
    return {{"name", pool.name},       {"template", pool.template_name},
            {"ready", pool.ready},     {"most", or_null(pool.most)},
            {"pattern", pool.pattern}, {"keep", pool.running ? "running" : "paused"},
            {"line", pool.line}};
}

json values(const Config& config) {
    const auto& reserve = config.reserve;
    const bool in_percent = !reserve || reserve->percent;
    json sections = json::array();
    for (const ZoneSection& section : config.sections) {
        json values = zone_values(section.values);
        values["pattern"] = section.pattern;
        values["line"] = section.line;
        sections.push_back(std::move(values));
    }
    json pools = json::array();
    for (const PoolConfig& pool : config.pools) {
        pools.push_back(pool_values(pool));
    }
    return {{"host",
             {{"reserve_percent", reserve ? or_null(reserve->percent) : json(nullptr)},
              {"reserve_kib", in_percent ? json(nullptr) : json(reserve->kib)},
              {"start_reserve_percent", or_null(config.start_reserve.percent)},
              {"start_reserve_kib",
               config.start_reserve.percent ? json(nullptr) : json(config.start_reserve.kib)},
              {"emergency_kib", config.emergency_kib},
              {"dom0_floor_kib", config.dom0_floor_kib},
              {"fork_reserve_kib", config.fork_reserve_kib}}},
            {"daemon", {{"toolstack", config.toolstack}, {"socket", config.socket_path}}},
            {"zone", zone_values(config.zone_defaults)},
            {"zones", std::move(sections)},
            {"pools", std::move(pools)}};
}

}  // namespace

json check_result(const std::string& file, const Expected<Config>& config) {
    if (config) {
        return {{"file", file}, {"ok", true}, {"config", values(*config)}};
    }
    json errors = json::array();
    std::string_view rest = config.error().what;
    while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        errors.push_back(std::string(rest.substr(0, end)));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return {{"file", file}, {"ok", false}, {"errors", std::move(errors)}};
}

}  // namespace xenpack
