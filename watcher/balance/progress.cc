// SPDX-License-Identifier: LGPL-2.1-or-later
// Movement, offset and penalty of one zone.
#include "watcher/balance/progress.h"

#include <algorithm>

#include "watcher/kib.h"

namespace xenpack {
namespace {

std::int64_t distance_kib(const Progress& p, std::uint64_t current_kib) {
    return static_cast<std::int64_t>(current_kib) - static_cast<std::int64_t>(p.target_kib) -
           p.offset_kib;
}

bool moved(const Progress& p, Direction towards, std::uint64_t current_kib) {
    if (p.stays) {
        return apart(current_kib, p.mark_kib) >= kMovementMinKib;
    }
    switch (towards) {
        case Direction::none:
            return true;
        case Direction::growing:
            return current_kib >= p.mark_kib + kMovementMinKib;
        case Direction::shrinking:
            return current_kib + kMovementMinKib <= p.mark_kib;
    }
    return false;
}

std::int64_t next_penalty_ms(const Progress& p, std::int64_t now_ms) {
    if (p.penalty_ms == 0) {
        return kPenaltyMs;
    }
    std::int64_t penalty = p.penalty_ms * 2;
    for (std::int64_t quiet = now_ms - p.stuck_until_ms;
         quiet > p.penalty_ms && penalty > kPenaltyMs; quiet -= p.penalty_ms) {
        penalty /= 2;
    }
    return std::clamp(penalty, kPenaltyMs, kPenaltyMaxMs);
}

}  // namespace

bool gave_up_growing(const Progress& p, std::int64_t now_ms) {
    const bool moved_since = p.mark_ms > p.stuck_until_ms - p.penalty_ms;
    return p.stuck(now_ms) && p.stuck_direction == Direction::growing &&
           !(moved_since && now_ms - p.mark_ms < kStuckAfterMs);
}

Direction direction(const Progress& p, std::uint64_t current_kib) {
    const std::int64_t distance = distance_kib(p, current_kib);
    if (std::abs(distance) <= static_cast<std::int64_t>(kReachedWithinKib)) {
        return Direction::none;
    }
    return distance < 0 ? Direction::growing : Direction::shrinking;
}

Progress restarted(const Progress& before, std::uint64_t target_kib, std::uint64_t current_kib,
                   std::int64_t now_ms) {
    Progress now = before;
    now.target_kib = target_kib;
    now.mark_kib = current_kib;
    now.mark_ms = now_ms;
    return now;
}

Progress advance(const Progress& before, std::uint64_t target_kib, std::uint64_t current_kib,
                 std::int64_t now_ms) {
    Progress now = before;
    now.target_kib = target_kib;
    const Direction towards = direction(now, current_kib);
    if (target_kib != before.target_kib) {
        now.stays = now.stuck(now_ms) && towards == Direction::none;
    }
    if (target_kib != before.target_kib || moved(now, towards, current_kib)) {
        now.mark_kib = current_kib;
        now.mark_ms = now_ms;
        return now;
    }
    if (now_ms - now.mark_ms < kStuckAfterMs || towards == Direction::none) {
        return now;
    }
    const std::int64_t left = distance_kib(now, current_kib);
    if (now.stays && left < 0) {
        now.offset_kib += left;
        now.stuck_until_ms = std::min(now.stuck_until_ms, now_ms);
        return now;
    }
    // What it is known not to do it is not judged by again; the other direction it may know.
    if (now.stuck(now_ms) && towards == now.stuck_direction) {
        return now;
    }
    if (std::abs(left + now.offset_kib) <= static_cast<std::int64_t>(kOffsetMaxKib)) {
        now.offset_kib += left;
        return now;
    }
    now.penalty_ms = next_penalty_ms(now, now_ms);
    now.stuck_until_ms = now_ms + now.penalty_ms;
    now.stuck_direction = towards;
    now.mark_ms = now_ms;
    return now;
}

}  // namespace xenpack
