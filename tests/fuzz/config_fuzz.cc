// SPDX-License-Identifier: LGPL-2.1-or-later
// Fuzz target: xenpack.conf and the command line's sizes. What is accepted must be within bounds,
// and what is refused must say where, in every line of the error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "watcher/config/config.h"

namespace {

using xenpack::Config;
using xenpack::ZoneConfig;

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

void check_zone(const ZoneConfig& zone) {
    require(!zone.floor_kib || *zone.floor_kib <= xenpack::kMaxSizeKib);
    require(!zone.ceiling_kib ||
            (*zone.ceiling_kib > 0 && *zone.ceiling_kib <= xenpack::kMaxSizeKib));
    require(!zone.floor_kib || !zone.ceiling_kib || *zone.floor_kib <= *zone.ceiling_kib);
    require(!zone.weight || (*zone.weight >= 1 && *zone.weight <= 10000));
    require(!zone.headroom_percent ||
            (*zone.headroom_percent >= 5 && *zone.headroom_percent <= 100));
    require(!zone.self_forks || *zone.self_forks <= xenpack::kMostSelfForks);
}

void check_pool(const xenpack::PoolConfig& pool) {
    require(pool.line > 0 && !pool.name.empty() && !pool.template_name.empty());
    require(pool.ready <= xenpack::kMostInPool);
    require(!pool.most || (*pool.most >= pool.ready && *pool.most <= xenpack::kMostInPool));
    require(pool.pattern.size() <= xenpack::kMaxPatternBytes);
    const std::size_t at = pool.pattern.find("%d");
    require(at != std::string::npos && pool.pattern.find('%', at + 1) == std::string::npos);
}

void check_amount(const xenpack::SizeOrPercent& amount) {
    require(!amount.percent || *amount.percent <= 100);
    require(amount.kib <= xenpack::kMaxSizeKib);
}

void check_accepted(const Config& config) {
    if (config.reserve) {
        check_amount(*config.reserve);
    }
    check_amount(config.start_reserve);
    require(config.socket_path.starts_with('/') &&
            config.socket_path.size() <= xenpack::kMaxSocketPathBytes);
    check_zone(config.zone_defaults);
    for (const auto& section : config.sections) {
        require(section.line > 0 && !section.pattern.empty());
        check_zone(config.zone(section.pattern));
    }
    check_zone(config.zone("web-1"));
    for (const auto& pool : config.pools) {
        check_pool(pool);
    }
}

void check_refused(std::string_view what) {
    require(!what.empty());
    while (!what.empty()) {
        const std::size_t end = what.find('\n');
        require(what.substr(0, end).starts_with("fuzz:"));
        what.remove_prefix(end == std::string_view::npos ? what.size() : end + 1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    if (const auto config = xenpack::parse_config(text, "fuzz")) {
        check_accepted(*config);
    } else {
        check_refused(config.error().what);
    }
    if (const auto kib = xenpack::parse_size_kib(text)) {
        require(*kib <= xenpack::kMaxSizeKib);
    }
    return 0;
}
