// SPDX-License-Identifier: LGPL-2.1-or-later
// Need: what one zone wishes and what it could give, whatever else is on its host. Pure; called by
// Ledger, which keeps it per zone, and by balance.cc, which weighs zones against each other.
#pragma once

#include <cstdint>
#include <optional>

namespace xenpack {

struct ZoneView {
    std::uint64_t target_kib = 0;
    std::uint64_t floor_kib = 0;
    std::uint64_t ceiling_kib = 0;
    unsigned weight = 100;
    // As in struct Demand; all 0: unknown.
    std::uint64_t must_kib = 0;
    std::uint64_t quick_need_kib = 0;
    std::uint64_t kept_cache_kib = 0;  // of the quick need: page cache it has, and does not ask for
    std::uint64_t slow_need_kib = 0;
    std::uint64_t burst_kib = 0;
    std::uint64_t cached_kib = 0;
    std::uint64_t step_kib = 0;  // it should grow by no less than this, unless it is in danger
    bool stalled = false;
    std::int64_t calm_ms = 0;             // how long it has not stalled
    std::uint64_t used_kib = 0;           // for reasons only
    std::optional<double> stalled_share;  // for reasons only, 0..1
    bool may_change = false;              // runs, is not being built, saved, migrated; not stuck
    bool may_shrink = false;  // and its report is fresh, its grace is over, it is at its target
    std::uint64_t pending_kib = 0;  // still to come to it: its target is above what it holds
    std::uint64_t leaving_kib = 0;  // still to be given back by it, and it is giving
    // Of that, what it holds beyond its target: it can keep so much, and nobody has less for it.
    // Where its driver is thought to settle below its targets, it may be thought so wrongly.
    std::uint64_t still_its_own_kib = 0;
    std::int64_t last_shrink_ms = 0;       // when it was last asked to shrink; 0: never
    std::int64_t last_grow_ms = 0;         // when it was last grown; 0: never
    std::optional<std::uint64_t> pin_kib;  // an admin's fixed target
};

// Below these a change is not worth the guest's work.
inline constexpr std::uint64_t kGrowStepMinKib = 4 * 1024;
inline constexpr std::uint64_t kShrinkStepMinKib = 8 * 1024;
// A zone that is at ease is grown for its bursts to come by no less than this, and this part of it.
inline constexpr std::uint64_t kEaseStepMinKib = 16 * 1024;
inline constexpr std::uint64_t kEaseStepPart = 16;
// Shrinking without hurry: at most this part of a zone's size, at most this often. MOM takes 5 %
// each 10 s, senpai 1 % each 6 s.
inline constexpr unsigned kSlowShrinkPercent = 5;
inline constexpr std::int64_t kSlowShrinkEveryMs = 2'000;
// A zone that has not stalled for so long is tried with less page cache, where others stall.
inline constexpr std::int64_t kCalmMs = 5'000;
inline constexpr std::uint64_t kCacheTryPart = 8;

// Beyond its target, in the order in which it is granted. Whole pages.
struct Wish {
    std::uint64_t must_kib = 0;  // in danger without it; part of hard_kib
    std::uint64_t hard_kib = 0;  // in danger or stalled without it, or an admin's word
    std::uint64_t need_kib = 0;  // not at ease without it; hard_kib is part of it
    std::uint64_t ease_kib = 0;  // and what it may want before long, beyond need_kib
    std::uint64_t own_kib = 0;   // the part of need_kib that it was asked to give and still holds
};

[[nodiscard]] Wish wish_of(const ZoneView& zone);

// How much of what a zone has it must be left.
enum class Keep {
    slow,   // all that it will want before long
    quick,  // what puts it at ease now: it can grow again at once
    must    // what it cannot do without: others lose more time than it would
};
inline constexpr std::size_t kKeeps = 3;

// What it could give, 0 where that is not worth it or it must not be asked.
[[nodiscard]] std::uint64_t slack_kib(const ZoneView& zone, Keep keep);

// The most of `slack_kib` to be taken of it at a time, for others that wait. Its report is a moment
// old: a part is left, in case it has begun to want it since. `hard`: another is in danger.
[[nodiscard]] std::uint64_t cap_kib(std::uint64_t slack_kib, Keep keep, bool hard);
// And for the host's reserve, in no hurry.
[[nodiscard]] std::uint64_t slow_step_kib(const ZoneView& zone);

// One that was grown so lately may go on rising: nothing is taken of it for the host's reserve.
inline constexpr std::int64_t kGrownRestMs = 5'000;

// Long enough since it was last asked, or grown.
[[nodiscard]] bool grown_lately(const ZoneView& zone, std::int64_t now_ms);
[[nodiscard]] bool rested(const ZoneView& zone, std::int64_t now_ms);

// Where its limits demand a smaller target, whatever the host's state: that target. Over a ceiling
// it comes down by steps, to a pin at once.
[[nodiscard]] std::optional<std::uint64_t> limited_to_kib(const ZoneView& zone,
                                                          std::int64_t now_ms);
[[nodiscard]] bool over_its_limits(const ZoneView& zone);

// Its worst burst that it still has the room for.
[[nodiscard]] std::uint64_t burst_to_come_kib(const ZoneView& zone);

}  // namespace xenpack
