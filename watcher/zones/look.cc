// SPDX-License-Identifier: LGPL-2.1-or-later
// In the order of a look: each zone is prepared, the host is seen, the plan is carried out.
#include "watcher/zones/look.h"

#include <algorithm>

#include "watcher/kib.h"
#include "watcher/zones/follow.h"

namespace xenpack {
namespace {

bool set_target(Zone& zone, std::uint64_t target_kib, bool keep_limit, std::int64_t now_ms,
                Hands& hands) {
    zone.changed = true;
    if (!hands.set_target(zone, target_kib, keep_limit)) {
        zone.busy_until_ms = now_ms + kBusyMs;
        return false;
    }
    zone.target_kib = target_kib;
    zone.progress = advance(zone.progress, target_kib, zone.domain.current_kib, now_ms);
    return true;
}

}  // namespace

ZoneView prepare(Zone& zone, const HostFacts& host, const Config& config, HostState state,
                 std::int64_t now_ms, Hands& hands) {
    excuse(zone, host.free_kib, config.emergency_kib, now_ms);
    if (const auto holds_kib = target_if_stuck_kib(zone, now_ms)) {
        const std::uint64_t told_kib = zone.target_kib.value_or(0);
        if (set_target(zone, *holds_kib, false, now_ms, hands)) {
            hands.was_stuck(zone, told_kib);
        }
    }
    if (const auto limit_kib = limit_at_rest_kib(zone, now_ms)) {
        if (!hands.set_limit(zone, *limit_kib)) {
            zone.busy_until_ms = now_ms + kBusyMs;
        }
    }
    const auto next_ms = next_change_ms(zone, now_ms);
    zone.wake_ms = next_ms.value_or(0);
    zone.view_until_ms =
        std::min(next_ms.value_or(now_ms + kCalmViewMs),
                 now_ms + (state == HostState::plenty ? kCalmViewMs : kTightViewMs));
    // One on the move is looked at each time.
    zone.changed = direction_of(zone) != Direction::none;
    return view_of(zone, now_ms);
}

std::uint64_t still_to_take_kib(const Zone& zone, std::int64_t now_ms) {
    if (!zone.target_kib || zone.family.shares() || gave_up_growing(zone.progress, now_ms)) {
        return 0;
    }
    // What is claimed for it is not in the host's free memory any more.
    const auto backed_kib =
        static_cast<std::int64_t>(zone.domain.current_kib + zone.domain.claimed_kib);
    const std::int64_t goal_kib =
        static_cast<std::int64_t>(*zone.target_kib) + zone.progress.offset_kib;
    return static_cast<std::uint64_t>(std::max<std::int64_t>(goal_kib - backed_kib, 0));
}

HostView host_view(const HostFacts& host, const Config& config, const Ledger& zones) {
    HostView view;
    view.free_kib = host.free_kib;
    view.emergency_kib = config.emergency_kib;
    view.start_reserve_kib = config.start_reserve.of(host.total_kib);
    const std::uint64_t reserve_kib = config.reserve ? config.reserve->of(host.total_kib)
                                                     : learned_reserve_kib(zones, host.total_kib);
    view.reserve_kib = std::max(reserve_kib, view.emergency_kib + view.start_reserve_kib);
    view.promised_kib = host.promised_to_others_kib + host.promised_to_starts_kib;
    // Where somebody else has taken what was promised to starts, that has to be found again.
    const std::uint64_t spoken_for_kib =
        view.emergency_kib + view.promised_kib + zones.pending_kib();
    view.wanted_by_starts_kib =
        host.starts_wait_for_kib +
        std::min(host.promised_to_starts_kib, minus(spoken_for_kib, view.free_kib));
    return view;
}

void carry_out(const Plan& plan, const std::vector<Zone*>& by_slot, std::int64_t now_ms,
               Hands& hands) {
    for (const Change& change : plan.grow) {
        Zone& zone = *by_slot[change.zone];
        if (set_target(zone, change.to_kib, false, now_ms, hands)) {
            zone.last_grow_ms = now_ms;
            hands.change_done(zone, change);
        }
    }
    for (const Change& change : plan.shrink) {
        Zone& zone = *by_slot[change.zone];
        if (set_target(zone, change.to_kib, true, now_ms, hands)) {
            zone.last_shrink_ms = now_ms;
            hands.change_done(zone, change);
        }
    }
}

}  // namespace xenpack
