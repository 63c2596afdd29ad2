// SPDX-License-Identifier: LGPL-2.1-or-later
// What the watcher shows and is told through control/: status, a zone's settings, reload.
// Called by Control; it takes a fresh look first, and changes nothing but what it is told to.
#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "watcher/kib.h"
#include "watcher/loop/loop.h"
#include "watcher/watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
    return value ? json(*value) : json(nullptr);
}

json age_or_null(std::int64_t then_ms, std::int64_t now_ms) {
    return then_ms == 0 ? json(nullptr) : json(now_ms - then_ms);
}

json demand_json(const Zone& zone, std::int64_t now_ms) {
    if (zone.pressure.agent == Agent::none) {
        return nullptr;
    }
    return demand_of(zone.pressure, demand_rule(zone), now_ms).slow_kib;
}

json zone_json(const Zone& zone, std::int64_t now_ms) {
    const Pressure& p = zone.pressure;
    const bool heard = p.agent != Agent::none;
    return {{"name", zone.name},
            {"domid", zone.key.domid},
            {"uuid", to_string(zone.key.uuid)},
            {"state", name_of(state_of(zone, now_ms))},
            {"target_kib", or_null(zone.target_kib)},
            {"current_kib", zone.domain.current_kib},
            {"demand_kib", demand_json(zone, now_ms)},
            {"used_kib", heard ? json(p.used_kib) : json(nullptr)},
            {"available_kib", p.total_kib > 0 ? json(p.total_kib - p.used_kib) : json(nullptr)},
            {"pressure_percent", p.stalled_share ? json(*p.stalled_share * 100) : json(nullptr)},
            {"floor_kib", floor_kib(zone)},
            {"ceiling_kib", ceiling_kib(zone)},
            {"weight", weight(zone)},
            {"pin_kib", or_null(zone.overrides.pin_kib)},
            {"agent", heard ? json(name_of(p.agent)) : json(nullptr)},
            {"report_age_ms", heard ? json(now_ms - p.last_ms) : json(nullptr)},
            {"reason", zone.reason},
            {"reason_age_ms", age_or_null(zone.reason_ms, now_ms)},
            {"faults", faults(zone, now_ms)}};
}

json unmanaged_json(const Zone& zone) {
    const bool built = (zone.domain.flags & XENPACK_DOMAIN_NEVER_RAN) == 0 ||
                       zone.family.kind == Family::Kind::fork;  // one that was left paused
    return {{"name", zone.name},
            {"domid", zone.key.domid},
            {"uuid", to_string(zone.key.uuid)},
            {"current_kib", zone.domain.current_kib},
            {"why", built ? zone.unmanaged_why : "it is being built"}};
}

// Absent: unchanged. null: back to the configuration. A number: that.
template <class T>
Expected<void> take(const json& settings, const char* name, std::optional<T>& value) {
    const auto it = settings.find(name);
    if (it == settings.end()) {
        return {};
    }
    if (it->is_null()) {
        value.reset();
        return {};
    }
    if (!it->is_number_unsigned() || it->get<std::uint64_t>() > std::numeric_limits<T>::max()) {
        return fail_with(EINVAL, "{} must be a whole number or null", name);
    }
    value = it->get<T>();
    return {};
}

Expected<ZoneOverrides> changed(const ZoneOverrides& before, const json& settings) {
    static constexpr std::array kKnown{"floor_kib", "ceiling_kib", "weight", "pin_kib"};
    if (!settings.is_object() || settings.empty()) {
        return fail_with(EINVAL,
                         "settings must be an object with at least one of floor_kib, "
                         "ceiling_kib, weight, pin_kib");
    }
    for (const auto& [name, value] : settings.items()) {
        if (std::ranges::find(kKnown, name) == kKnown.end()) {
            return fail_with(EINVAL, "there is no setting {}", name);
        }
    }
    ZoneOverrides after = before;
    for (const auto& taken :
         {take(settings, "floor_kib", after.floor_kib),
          take(settings, "ceiling_kib", after.ceiling_kib), take(settings, "weight", after.weight),
          take(settings, "pin_kib", after.pin_kib)}) {
        if (!taken) {
            return tl::unexpected(taken.error());
        }
    }
    return after;
}

// Checked on a copy of the zone, as if they were in force.
Expected<void> check(Zone zone, const ZoneOverrides& overrides) {
    zone.overrides = overrides;
    const std::uint64_t most = zone.static_max_kib.value_or(0);
    const auto& [floor, ceiling, weight, pin] = overrides;
    if (ceiling && *ceiling > most) {
        return fail_with(ERANGE, "a ceiling of {} MiB is over the zone's maxmem of {} MiB",
                         *ceiling / 1024, most / 1024);
    }
    if (floor && *floor > ceiling_kib(zone)) {
        return fail_with(ERANGE, "a floor of {} MiB is over the zone's ceiling of {} MiB",
                         *floor / 1024, ceiling_kib(zone) / 1024);
    }
    if (ceiling && *ceiling < floor_kib(zone)) {
        return fail_with(ERANGE, "a ceiling of {} MiB is under the zone's floor of {} MiB",
                         *ceiling / 1024, whole_mib(floor_kib(zone)) / 1024);
    }
    if (pin && (*pin < floor_kib(zone) || *pin > ceiling_kib(zone))) {
        return fail_with(ERANGE,
                         "a pin of {} MiB is not between the zone's floor of {} and ceiling of {} "
                         "MiB; --auto ends a pin",
                         *pin / 1024, whole_mib(floor_kib(zone)) / 1024, ceiling_kib(zone) / 1024);
    }
    if (weight && (*weight < kMinWeight || *weight > kMaxWeight)) {
        return fail_with(ERANGE, "a weight of {} is not between {} and {}", *weight, kMinWeight,
                         kMaxWeight);
    }
    return {};
}

}  // namespace

// What is wrong with the host and not with one zone.
std::vector<std::string> Watcher::host_faults(std::int64_t now_ms) const {
    std::vector<std::string> faults;
    if (now_ms < dom0_hands_until_ms_) {
        faults.push_back(dom0_hands_fault_);
    }
    if (const std::string& fault = forks_->keeper().standstill(); !fault.empty()) {
        faults.push_back(fault);
    }
    for (std::string& fault : desk_->faults()) {
        faults.push_back(std::move(fault));
    }
    return faults;
}

json Watcher::status() {
    const auto learned = learn();
    if (learned) {
        follow_starts();
        forks_->follow();
    }
    const std::int64_t now_ms = Loop::now_ms();
    std::vector<std::string> faults = host_faults(now_ms);
    if (!learned) {
        faults.insert(faults.begin(), learned.error().what);
    }
    if (!forks_lack_.empty()) {
        forks_lack_ = forks_->missing();  // it may be only that Xen could not be asked
    }
    json zones = json::array();
    json unmanaged = json::array();
    for (const Zone* zone : zones_->all()) {
        if (zone->managed) {
            zones.push_back(zone_json(*zone, now_ms));
        } else if (zone->family.kind != Family::Kind::sealed) {  // those are among the templates
            unmanaged.push_back(unmanaged_json(*zone));
            add_fork_json(*zone, unmanaged.back());
        }
    }
    return {{"version", XENPACK_VERSION},
            {"host",
             {{"total_kib", host_.total_kib},
              {"free_kib", host_.free_kib},
              {"scrub_kib", host_.scrub_kib},
              {"claimed_kib", host_.claimed_kib},
              {"reserve_kib", reserve_kib_},
              {"start_reserve_kib", config_.start_reserve.of(host_.total_kib)},
              {"promised_to_starts_kib", desk_->book().held_kib()},
              {"emergency_kib", config_.emergency_kib},
              {"spendable_kib", spendable_kib_},
              {"state", name_of(host_state_)},
              {"toolstack", toolstack_->description()},
              {"forks_lack", forks_lack_},
              {"faults", faults}}},
            {"dom0",
             {{"current_kib", zones_->dom0().domain.current_kib},
              {"floor_kib", config_.dom0_floor_kib}}},
            {"zones", zones},
            {"unmanaged", unmanaged},
            {"templates", templates_json()},
            {"pools", pools_json()},
            {"reservations", reservations_json()}};
}

Expected<json> Watcher::set_zone(const std::string& name, const json& settings) {
    const auto found = zones_->find(name);
    if (!found) {
        return tl::unexpected(found.error());
    }
    Zone& zone = **found;
    if (!zone.managed) {
        return fail_with(EPERM, "{} is left alone: {}", zone.name, zone.unmanaged_why);
    }
    const auto overrides = changed(zone.overrides, settings);
    if (!overrides) {
        return tl::unexpected(overrides.error());
    }
    if (const auto checked = check(zone, *overrides); !checked) {
        return tl::unexpected(checked.error());
    }
    if (const auto kept = overrides_.set(zone.key.uuid, *overrides); !kept) {
        return tl::unexpected(kept.error());
    }
    zone.overrides = *overrides;
    zone.changed = true;
    Decision decision{DecisionKind::config,
                      zone.name,
                      zone.key.domid,
                      to_string(zone.key.uuid),
                      {},
                      {},
                      fmt::format("settings changed to {}", settings.dump())};
    publish(decision);
    look_soon();
    return zone_json(zone, Loop::now_ms());
}

Expected<void> Watcher::reload() {
    auto config = read_config_();
    if (!config) {
        publish(about_host(
            DecisionKind::config,
            fmt::format("not reloaded, the last good one stays: {}", config.error().what)));
        return tl::unexpected(config.error());
    }
    if (config->toolstack != config_.toolstack || config->socket_path != config_.socket_path) {
        const std::string why = "[daemon] cannot change while xenpackd runs; restart it";
        publish(about_host(DecisionKind::config, "not reloaded: " + why));
        return fail_with(EBUSY, "{}", why);
    }
    config_ = std::move(*config);
    publish(about_host(DecisionKind::config, "reloaded"));
    say_what_forks_lack();
    pools_->configure(config_.pools);
    zones_->reconfigure();
    return {};
}

}  // namespace xenpack
