// SPDX-License-Identifier: LGPL-2.1-or-later
// From what was read of a domain to where it is on its way, and to the view that is decided upon.
#include "watcher/zones/follow.h"

#include <algorithm>

#include "watcher/kib.h"

namespace xenpack {
namespace {

// A guest's kernel counts a page moments after Xen does.
constexpr std::int64_t kAtRestMs = 300;
// A zone that has just begun to report is still starting its work: nothing is taken from it yet.
constexpr std::int64_t kGraceMs = 10'000;
// Agents that report by the clock cannot say that too much was taken: nothing is taken on older
// word.
constexpr std::int64_t kDeafAgentMs = 5'000;
// Less than this may be pages that a kernel takes for itself as it grows.
constexpr std::uint64_t kUnusedMinKib = 8 * 1024;
// The constant libxl adds to a domain's limit in Xen (LIBXL_MAXMEM_CONSTANT).
constexpr std::uint64_t kLimitAboveTargetKib = 1024;

// A report and a domain at rest together tell what the domain holds beyond its kernel's memory.
void measure_overhead(Zone& zone) {
    // The report must have been made at rest too, not on the way there.
    if (!zone.unmeasured || zone.pressure.total_kib == 0 || direction_of(zone) != Direction::none ||
        zone.pressure.last_ms < zone.at_rest_since_ms + kAtRestMs) {
        return;
    }
    const std::uint64_t current = zone.domain.current_kib;
    const std::uint64_t overhead = current - std::min(current, zone.pressure.total_kib);
    const std::uint64_t before = zone.overhead_kib.value_or(overhead);
    zone.unmeasured = false;
    // What it grew by and its kernel does not use is no overhead: else each growth asked for more.
    if (current > zone.overhead_at_kib && overhead > before + kUnusedMinKib) {
        zone.unused_kib = overhead - before;
        return;
    }
    zone.overhead_kib = overhead;
    zone.overhead_at_kib = current;
    zone.unused_kib = 0;
}

bool may_change(ZoneState state) {
    switch (state) {
        case ZoneState::steady:
        case ZoneState::growing:
        case ZoneState::shrinking:
        case ZoneState::waiting:
        case ZoneState::pinned:
            return true;
        case ZoneState::unmanaged:
        case ZoneState::building:
        case ZoneState::booting:
        case ZoneState::paused:
        case ZoneState::saving:
        case ZoneState::shutdown:
        case ZoneState::stale:
        case ZoneState::garbled:
        case ZoneState::flooding:
        case ZoneState::stuck:
            return false;
    }
    return false;
}

std::uint64_t distance_kib(const Zone& zone) {
    const std::int64_t goal =
        static_cast<std::int64_t>(zone.target_kib.value_or(0)) + zone.progress.offset_kib;
    return static_cast<std::uint64_t>(
        std::abs(goal - static_cast<std::int64_t>(zone.domain.current_kib)));
}

// Only on fresh word: it has spoken again since it was first listened to, its grace is over, and
// an agent that cannot call for help in between has spoken just now.
bool may_be_taken_from(const Pressure& pressure, std::int64_t now_ms) {
    const bool calls_for_help = pressure.agent == Agent::xenpack;
    return pressure.last_ms > pressure.first_ms && now_ms - pressure.first_ms >= kGraceMs &&
           (calls_for_help || now_ms - pressure.last_ms <= kDeafAgentMs);
}

void add_demand(const Zone& zone, std::int64_t now_ms, ZoneView& view) {
    if (zone.pressure.agent == Agent::none) {
        return;
    }
    const Demand demand = demand_of(zone.pressure, demand_rule(zone), now_ms);
    view.must_kib = demand.must_kib;
    view.quick_need_kib = demand.quick_kib;
    view.kept_cache_kib = demand.kept_cache_kib;
    view.slow_need_kib = demand.slow_kib;
    view.burst_kib = demand.burst_kib;
    view.step_kib = demand.step_kib;
    view.cached_kib = demand.cached_kib;
    view.stalled = demand.stalled;
    view.calm_ms = now_ms - std::max(zone.pressure.stalled_ms, zone.pressure.first_ms);
    view.used_kib = zone.pressure.used_kib;
    view.stalled_share = zone.pressure.stalled_share;
}

}  // namespace

Direction direction_of(const Zone& zone) {
    return zone.target_kib ? direction(zone.progress, zone.domain.current_kib) : Direction::none;
}

void follow(Zone& zone, std::int64_t now_ms) {
    constexpr std::uint32_t kStill =
        XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_IS_SHUTDOWN | XENPACK_DOMAIN_NEVER_RAN;
    if ((zone.domain.flags & kStill) != 0) {
        zone.still_ms = now_ms;
    } else if (zone.runs_since_ms == 0) {
        zone.runs_since_ms = now_ms;
    }
    if (!zone.target_kib) {
        return;
    }
    const std::uint64_t current = zone.domain.current_kib;
    const bool was_at_rest = direction(zone.progress, zone.at_rest_kib) == Direction::none &&
                             apart(current, zone.at_rest_kib) <= kReachedWithinKib;
    zone.progress = (zone.domain.flags & kStill) != 0
                        ? restarted(zone.progress, *zone.target_kib, current, now_ms)
                        : advance(zone.progress, *zone.target_kib, current, now_ms);
    if (!was_at_rest || direction(zone.progress, current) != Direction::none) {
        zone.at_rest_kib = current;
        zone.at_rest_since_ms = now_ms;
    }
    measure_overhead(zone);
}

void take_sample(Zone& zone, const Sample& sample, std::int64_t now_ms) {
    zone.garbled_why.clear();
    zone.pressure = observe(zone.pressure, sample, now_ms);
    zone.unmeasured = true;
}

void excuse(Zone& zone, std::uint64_t host_free_kib, std::uint64_t emergency_kib,
            std::int64_t now_ms) {
    if (host_free_kib < emergency_kib / 2 && direction_of(zone) == Direction::growing) {
        zone.progress = restarted(zone.progress, *zone.target_kib, zone.domain.current_kib, now_ms);
    }
}

std::optional<std::uint64_t> target_if_stuck_kib(const Zone& zone, std::int64_t now_ms) {
    if (state_of(zone, now_ms) != ZoneState::stuck || !zone.target_kib || !zone.static_max_kib) {
        return std::nullopt;
    }
    // One that leaves where it was told to stay is not followed: where it comes to rest tells what
    // its driver makes of a target. And what it was told since then it may be doing.
    if (zone.progress.stays || direction_of(zone) != zone.progress.stuck_direction) {
        return std::nullopt;
    }
    const std::int64_t at_kib =
        static_cast<std::int64_t>(zone.domain.current_kib) - zone.progress.offset_kib;
    const std::uint64_t holds =
        std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(at_kib, 4)),
                 *zone.static_max_kib) /
        4 * 4;
    return apart(*zone.target_kib, holds) <= kReachedWithinKib ? std::nullopt
                                                               : std::optional(holds);
}

std::optional<std::uint64_t> limit_at_rest_kib(const Zone& zone, std::int64_t now_ms) {
    if (!zone.target_kib || !may_change(state_of(zone, now_ms)) ||
        direction_of(zone) != Direction::none) {
        return std::nullopt;
    }
    const auto offset =
        static_cast<std::uint64_t>(std::max<std::int64_t>(zone.progress.offset_kib, 0));
    const std::uint64_t limit = *zone.target_kib + offset;
    return zone.domain.limit_kib <= limit + kLimitAboveTargetKib ? std::nullopt
                                                                 : std::optional(limit);
}

std::int64_t grace_ends_ms(const Zone& zone) {
    return zone.pressure.first_ms + kGraceMs;
}

std::optional<std::int64_t> next_change_ms(const Zone& zone, std::int64_t now_ms) {
    std::optional<std::int64_t> next;
    const auto consider = [&](std::int64_t at_ms) {
        if (at_ms > now_ms && (!next || at_ms < *next)) {
            next = at_ms;
        }
    };
    if (zone.pressure.agent != Agent::none) {
        consider(stale_at_ms(zone.pressure));
        if (zone.still_ms < now_ms) {  // else each time that this wakes would put it off again
            consider(silent_at_ms(zone));
        }
        consider(grace_ends_ms(zone));
        consider(stall_ends_ms(zone.pressure));
        consider(rise_ends_ms(zone.pressure));
    }
    consider(zone.flooding_until_ms);
    consider(zone.busy_until_ms);
    consider(zone.progress.stuck_until_ms);
    return next;
}

ZoneView view_of(const Zone& zone, std::int64_t now_ms) {
    ZoneView view;
    view.target_kib = zone.target_kib.value_or(zone.domain.current_kib);
    view.floor_kib = floor_kib(zone);
    view.ceiling_kib = ceiling_kib(zone);
    view.weight = weight(zone);
    view.pin_kib = zone.overrides.pin_kib;
    view.last_shrink_ms = zone.last_shrink_ms;
    view.last_grow_ms = zone.last_grow_ms;

    const Direction towards = direction_of(zone);
    view.pending_kib = towards == Direction::growing ? distance_kib(zone) : 0;
    view.leaving_kib =
        towards == Direction::shrinking && !zone.progress.stuck(now_ms) ? distance_kib(zone) : 0;
    view.still_its_own_kib =
        std::min(view.leaving_kib,
                 zone.domain.current_kib - std::min(zone.domain.current_kib, view.target_kib));
    const ZoneState state = state_of(zone, now_ms);
    // What could not shrink may still need to grow.
    const bool only_grow =
        state == ZoneState::stuck && zone.progress.stuck_direction == Direction::shrinking;
    view.may_change = (may_change(state) || only_grow) && zone.target_kib && zone.static_max_kib;
    // A pin is a person's word, whatever the zone says or has not said yet.
    view.may_shrink = view.may_change && !only_grow && towards == Direction::none &&
                      (zone.overrides.pin_kib || may_be_taken_from(zone.pressure, now_ms));
    add_demand(zone, now_ms, view);
    return view;
}

}  // namespace xenpack
