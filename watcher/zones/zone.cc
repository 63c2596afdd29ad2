// SPDX-License-Identifier: LGPL-2.1-or-later
// What follows from a zone's values: its state, limits and faults. Pure.
#include "watcher/zones/zone.h"

#include <algorithm>

#include "watcher/balance/balance.h"

namespace xenpack {
namespace {

// SHUTDOWN_suspend of Xen's public/sched.h.
constexpr int kShutdownSuspend = 2;

// Targets are in whole MiB.
constexpr std::uint64_t kPinnedWithinKib = 1024;

bool has(const Zone& zone, std::uint32_t flag) {
    return (zone.domain.flags & flag) != 0;
}

// The names xl gives the two halves of a migration.
bool migrating(const std::string& name) {
    return name.ends_with("--incoming") || name.ends_with("--migratedaway");
}

std::optional<ZoneState> held_state(const Zone& zone, std::int64_t now_ms) {
    if (has(zone, XENPACK_DOMAIN_IS_SHUTDOWN)) {
        return zone.domain.shutdown_reason == kShutdownSuspend ? ZoneState::saving
                                                               : ZoneState::shutdown;
    }
    if (now_ms < zone.busy_until_ms || migrating(zone.name)) {
        return ZoneState::saving;
    }
    if (has(zone, XENPACK_DOMAIN_NEVER_RAN)) {
        return ZoneState::building;
    }
    if (has(zone, XENPACK_DOMAIN_IS_PAUSED)) {
        return ZoneState::paused;
    }
    return std::nullopt;
}

std::optional<ZoneState> fault_state(const Zone& zone, std::int64_t now_ms) {
    if (now_ms < zone.flooding_until_ms) {
        return ZoneState::flooding;
    }
    if (zone.progress.stuck(now_ms)) {
        return ZoneState::stuck;
    }
    if (!zone.garbled_why.empty()) {
        return ZoneState::garbled;
    }
    if (zone.pressure.agent == Agent::none) {
        return ZoneState::booting;
    }
    if (now_ms >= stale_at_ms(zone.pressure)) {
        return ZoneState::stale;
    }
    return std::nullopt;
}

}  // namespace

std::string_view name_of(ZoneState state) {
    switch (state) {
        case ZoneState::unmanaged:
            return "unmanaged";
        case ZoneState::building:
            return "building";
        case ZoneState::booting:
            return "booting";
        case ZoneState::steady:
            return "steady";
        case ZoneState::growing:
            return "growing";
        case ZoneState::shrinking:
            return "shrinking";
        case ZoneState::waiting:
            return "waiting";
        case ZoneState::pinned:
            return "pinned";
        case ZoneState::paused:
            return "paused";
        case ZoneState::saving:
            return "saving";
        case ZoneState::shutdown:
            return "shutdown";
        case ZoneState::stale:
            return "stale";
        case ZoneState::garbled:
            return "garbled";
        case ZoneState::flooding:
            return "flooding";
        case ZoneState::stuck:
            return "stuck";
    }
    return "";
}

ZoneState state_of(const Zone& zone, std::int64_t now_ms) {
    if (!zone.managed) {
        return ZoneState::unmanaged;
    }
    if (const auto held = held_state(zone, now_ms)) {
        return *held;
    }
    if (const auto fault = fault_state(zone, now_ms)) {
        return *fault;
    }
    if (zone.waiting) {
        return ZoneState::waiting;
    }
    switch (direction(zone.progress, zone.domain.current_kib)) {
        case Direction::growing:
            return ZoneState::growing;
        case Direction::shrinking:
            return ZoneState::shrinking;
        case Direction::none:
            break;
    }
    if (!zone.overrides.pin_kib) {
        return ZoneState::steady;
    }
    const std::uint64_t pin_kib =
        std::clamp(*zone.overrides.pin_kib, floor_kib(zone), ceiling_kib(zone));
    const std::uint64_t target_kib = zone.target_kib.value_or(pin_kib);
    if (target_kib > pin_kib + kPinnedWithinKib) {
        return ZoneState::shrinking;
    }
    return target_kib + kPinnedWithinKib < pin_kib ? ZoneState::growing : ZoneState::pinned;
}

std::uint64_t ceiling_kib(const Zone& zone) {
    const std::uint64_t most = zone.static_max_kib.value_or(zone.domain.current_kib);
    const auto limit =
        zone.overrides.ceiling_kib ? zone.overrides.ceiling_kib : zone.config.ceiling_kib;
    return std::min(limit.value_or(most), most);
}

std::uint64_t floor_kib(const Zone& zone) {
    const auto limit = zone.overrides.floor_kib ? zone.overrides.floor_kib : zone.config.floor_kib;
    if (limit) {
        return std::min(*limit, ceiling_kib(zone));
    }
    const std::uint64_t most = zone.static_max_kib.value_or(zone.domain.current_kib);
    const std::uint64_t started = zone.created_with ? zone.created_with->memory_kib : most;
    return std::min({floor_for_size_kib(most), started, ceiling_kib(zone)});
}

unsigned weight(const Zone& zone) {
    return zone.overrides.weight.value_or(zone.config.weight.value_or(kDefaultWeight));
}

std::int64_t silent_at_ms(const Zone& zone) {
    Pressure pressure = zone.pressure;
    pressure.last_ms = std::max(pressure.last_ms, zone.still_ms);
    return stale_at_ms(pressure);
}

std::optional<std::string> silence(const Zone& zone, std::int64_t now_ms) {
    // Who is not listened to is not silent.
    if (!zone.managed || zone.pressure.agent == Agent::none || held_state(zone, now_ms) ||
        now_ms < zone.flooding_until_ms || now_ms < silent_at_ms(zone)) {
        return std::nullopt;
    }
    return fmt::format(
        "its reporter ({}) has been silent for {} s; left at its size (is it still running?)",
        name_of(zone.pressure.agent), (now_ms - zone.pressure.last_ms) / 1000);
}

std::vector<std::string> faults(const Zone& zone, std::int64_t now_ms) {
    std::vector<std::string> list;
    if (is_spoilt(zone)) {
        list.emplace_back(kSpoilt);
    }
    if (now_ms < zone.flooding_until_ms) {
        list.emplace_back(
            "writes its report faster than is listened to; left at its size meanwhile");
    }
    if (!zone.garbled_why.empty()) {
        list.push_back(fmt::format("its report cannot be read: {}", zone.garbled_why));
    }
    if (zone.managed && zone.pressure.agent == Agent::none && zone.runs_since_ms > 0 &&
        now_ms - zone.runs_since_ms >= kBootMostMs) {
        list.push_back(
            fmt::format("nothing in it has reported in {} s; left at its size (is xenpack-guest "
                        "running in it?)",
                        (now_ms - zone.runs_since_ms) / 1000));
    }
    if (zone.unused_kib > 0) {
        list.push_back(fmt::format("its kernel does not use {} MiB that it was given",
                                   zone.unused_kib / 1024));
    }
    if (zone.other_hands.balancer(now_ms)) {
        list.emplace_back("something else keeps changing its target: another balancer");
    }
    if (zone.progress.stuck(now_ms)) {
        list.push_back(
            fmt::format("does not {} as told; left alone for another {} s",
                        zone.progress.stuck_direction == Direction::growing ? "grow" : "shrink",
                        (zone.progress.stuck_until_ms - now_ms + 999) / 1000));
    }
    if (const auto silent = silence(zone, now_ms)) {
        list.push_back(*silent);
    }
    return list;
}

bool is_spoilt(const Zone& zone) {
    const Family& family = zone.family;
    return family.kind == Family::Kind::sealed && family.sealed_cpu_ns &&
           *family.sealed_cpu_ns != zone.domain.cpu_time_ns;
}

DemandRule demand_rule(const Zone& zone) {
    // A Linux kernel's page descriptors cost 1/64 of the most it can have; its image some 16 MiB.
    const std::uint64_t estimate_kib = zone.static_max_kib.value_or(0) / 64 + 16 * 1024;
    // A domain is told a target, and holds that and its offset.
    const auto held = static_cast<std::int64_t>(zone.overhead_kib.value_or(estimate_kib));
    const std::int64_t told = std::max<std::int64_t>(held - zone.progress.offset_kib, 0);
    return {static_cast<std::uint64_t>(told),
            zone.config.headroom_percent.value_or(kDefaultHeadroomPercent)};
}

}  // namespace xenpack
