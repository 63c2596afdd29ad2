// SPDX-License-Identifier: LGPL-2.1-or-later
// The rules for one zone: what it wishes beyond its target, and what it could do without.
#include "watcher/balance/need.h"

#include <algorithm>

#include "watcher/kib.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;
// A donor with little to spare gives that at once rather than in ever smaller parts.
constexpr std::uint64_t kGiveWholeKib = 32 * kMib;

// A size that the zone may have.
std::uint64_t within(const ZoneView& z, std::uint64_t kib) {
    const std::uint64_t low = std::min(z.floor_kib, z.ceiling_kib);
    return std::min(whole_mib(std::clamp(kib, low, z.ceiling_kib)), z.ceiling_kib);
}

// What it would like beyond that size.
std::uint64_t comfort_kib(const ZoneView& z, std::uint64_t size_kib) {
    return z.pin_kib ? 0 : whole_pages(minus(within(z, z.slow_need_kib), size_kib));
}

bool can_give(const ZoneView& z) {
    return z.may_change && z.may_shrink && !z.stalled && !z.pin_kib && z.slow_need_kib > 0;
}

std::uint64_t need_of(const ZoneView& z, Keep keep) {
    switch (keep) {
        case Keep::slow:
            return std::max(z.slow_need_kib, z.must_kib + z.cached_kib);
        case Keep::quick:
            return z.quick_need_kib;
        case Keep::must:
            return z.must_kib;
    }
    return z.slow_need_kib;
}

}  // namespace

Wish wish_of(const ZoneView& z) {
    Wish wish;
    if (!z.may_change || (z.quick_need_kib == 0 && !z.pin_kib && z.target_kib >= z.floor_kib)) {
        return wish;
    }
    // Else it would take back the page cache that it was just asked to give.
    const std::uint64_t quick_kib = std::max(minus(z.quick_need_kib, z.kept_cache_kib),
                                             std::min(z.quick_need_kib, z.target_kib));
    const std::uint64_t need_to = within(z, z.pin_kib.value_or(quick_kib));
    wish.need_kib = whole_pages(minus(need_to, z.target_kib));
    const bool admins_word = z.pin_kib || z.target_kib < z.floor_kib;
    const bool in_danger = z.target_kib + kGrowStepMinKib < within(z, z.must_kib);
    const std::uint64_t worth_kib =
        in_danger ? kGrowStepMinKib : std::max(kGrowStepMinKib, z.step_kib);
    if (wish.need_kib < worth_kib && !admins_word) {
        wish.need_kib = 0;
        wish.ease_kib = comfort_kib(z, z.target_kib);
        const std::uint64_t step_kib = std::max(kEaseStepMinKib, z.target_kib / kEaseStepPart);
        wish.ease_kib = wish.ease_kib < step_kib ? 0 : wish.ease_kib;
        return wish;
    }
    const std::uint64_t must_to = z.pin_kib ? need_to : within(z, z.must_kib);
    wish.must_kib = std::min(whole_pages(minus(must_to, z.target_kib)), wish.need_kib);
    wish.hard_kib = z.stalled ? wish.need_kib : wish.must_kib;
    wish.ease_kib = comfort_kib(z, need_to);
    wish.own_kib = std::min(wish.need_kib, whole_pages(z.still_its_own_kib));
    return wish;
}

std::uint64_t slack_kib(const ZoneView& z, Keep keep) {
    if (!can_give(z)) {
        return 0;
    }
    const std::uint64_t slack =
        minus(z.target_kib, std::max(z.floor_kib, whole_mib(need_of(z, keep))));
    return slack >= kShrinkStepMinKib ? slack : 0;
}

bool grown_lately(const ZoneView& z, std::int64_t now_ms) {
    return z.last_grow_ms != 0 && now_ms - z.last_grow_ms < kGrownRestMs;
}

bool rested(const ZoneView& z, std::int64_t now_ms) {
    return (z.last_shrink_ms == 0 || now_ms - z.last_shrink_ms >= kSlowShrinkEveryMs) &&
           !grown_lately(z, now_ms);
}

std::uint64_t cap_kib(std::uint64_t slack_kib, Keep keep, bool hard) {
    switch (keep) {
        case Keep::slow:
        case Keep::quick:
            return slack_kib <= kGiveWholeKib ? slack_kib : slack_kib / 4 * 3;
        case Keep::must:
            return std::min(slack_kib,
                            std::max(slack_kib / (hard ? 2 : kCacheTryPart), kShrinkStepMinKib));
    }
    return 0;
}

std::uint64_t slow_step_kib(const ZoneView& z) {
    return std::max(z.target_kib / 100 * kSlowShrinkPercent, kShrinkStepMinKib);
}

bool over_its_limits(const ZoneView& z) {
    if (!z.may_change || !z.may_shrink) {
        return false;
    }
    return z.target_kib > (z.pin_kib ? within(z, *z.pin_kib) : z.ceiling_kib);
}

std::optional<std::uint64_t> limited_to_kib(const ZoneView& z, std::int64_t now_ms) {
    if (!over_its_limits(z)) {
        return std::nullopt;
    }
    if (z.pin_kib) {
        return within(z, *z.pin_kib);
    }
    if (!rested(z, now_ms)) {
        return std::nullopt;
    }
    return std::max(z.ceiling_kib, minus(z.target_kib, slow_step_kib(z)));
}

std::uint64_t burst_to_come_kib(const ZoneView& z) {
    return z.may_change ? std::min(z.burst_kib, minus(z.ceiling_kib, z.target_kib)) : 0;
}

}  // namespace xenpack
