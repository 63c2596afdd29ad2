// SPDX-License-Identifier: LGPL-2.1-or-later
// Progress: is a zone following its target? Pure. The watcher keeps one per zone and asks at each
// look; balance/ leaves alone a zone that is stuck until its penalty has passed.
#pragma once

#include <cstdint>

namespace xenpack {

// Linux' balloon driver retries for about 14 s and then sleeps for an hour; XAPI's squeezed calls a
// domain stuck after 5 s without movement.
inline constexpr std::int64_t kStuckAfterMs = 6'000;
// Less than this in that time is not movement: one page would otherwise do.
inline constexpr std::uint64_t kMovementMinKib = 2048;
// A domain that has come this near is there: kernels keep a few pages more or less.
inline constexpr std::uint64_t kReachedWithinKib = 1024;
// A domain that stops this near has pages we do not know of; they become its offset. A larger one
// is believed only of a domain that was told to stay where it was, and went down from there: its
// driver counts from elsewhere, as after a wrong static-max at its boot.
inline constexpr std::uint64_t kOffsetMaxKib = 8 * 1024;
// The first penalty; each further one is twice as long, and half is forgiven for each quiet one.
inline constexpr std::int64_t kPenaltyMs = 30'000;
inline constexpr std::int64_t kPenaltyMaxMs = 600'000;

enum class Direction { none, growing, shrinking };

struct Progress {
    std::uint64_t target_kib = 0;
    std::int64_t offset_kib = 0;  // current - target of this domain when it is at its target
    std::uint64_t mark_kib = 0;   // current when movement was last seen
    std::int64_t mark_ms = 0;
    std::int64_t penalty_ms = 0;                  // how long the last penalty was
    std::int64_t stuck_until_ms = 0;              // 0: never was
    Direction stuck_direction = Direction::none;  // what it failed to do
    bool stays = false;                           // its target is where it was stuck

    [[nodiscard]] bool stuck(std::int64_t now_ms) const { return now_ms < stuck_until_ms; }
};

// Stands still short of its target: it is stuck on its way up, and was neither told anew nor has
// moved in the last kStuckAfterMs.
[[nodiscard]] bool gave_up_growing(const Progress& progress, std::int64_t now_ms);

[[nodiscard]] Direction direction(const Progress& progress, std::uint64_t current_kib);

// A domain that cannot move now (paused, stopped, not run yet, or told to grow while the host has
// nothing left) is not judged: its time starts anew.
[[nodiscard]] Progress restarted(const Progress& before, std::uint64_t target_kib,
                                 std::uint64_t current_kib, std::int64_t now_ms);

// Looks at the domain as it is now. A new target starts anew.
[[nodiscard]] Progress advance(const Progress& before, std::uint64_t target_kib,
                               std::uint64_t current_kib, std::int64_t now_ms);

}  // namespace xenpack
