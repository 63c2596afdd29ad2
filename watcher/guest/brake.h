// SPDX-License-Identifier: LGPL-2.1-or-later
// Brake: which memory.high a workload's cgroup should have, so that an allocator which outruns the
// balloon is slowed rather than killed. Called by Reporter with each sample. Pure: no file access.
//
// Why. Without swap and with little page cache, a kernel goes from "enough" to its OOM killer in
// the milliseconds that the remaining free memory lasts; no balloon is that fast. memory.high never
// kills: tasks of the group that allocate above it are put to sleep on their way out of the kernel,
// for longer the further the group is above. Linux (mm/memcontrol.c, calculate_high_delay, 5.4 and
// later) sleeps 64 x^2 seconds per batch of 64 pages, where x is the excess relative to the limit,
// at most 2 s and not at all where it would be under 10 ms. The sleep counts as a memory stall, so
// it fires the reporter's pressure trigger, which asks the host for more. A sleep that has begun is
// slept to its end, also when the limit is raised meanwhile.
//
// The limit is  usage + free + cache/2 - margin,  where "cache" is the part of MemAvailable that is
// not free, and margin = max(16 MiB, MemTotal/16).
// - While only the group allocates, usage and free move by the same amount in opposite ways: the
//   limit does not move, the kernel enforces it by itself, and no surge is too quick for it. It
//   moves with MemTotal, and with what the rest of the zone uses.
// - Cache is counted by half: it may be the group's own and thus in its usage already, it may turn
//   out dirty or in use, and eating it is slow enough for the reporter to see and adjust. With more
//   cache than two margins the limit is out of reach: reading files never hits the brake then.
// - At rest more than the margin is available, usage is below the limit, nothing is slowed.
// - By the formula above a group 1.25% over is not yet slowed, one 6.25% over is slowed to 1 MiB/s
//   for each thread. That is what MemTotal/16 buys. 16 MiB is for small zones: the kernel's own
//   reserve and the rest of the zone must live in it.
// - The limit is never under 7/8 of the usage: that far over, the sleep is near its longest anyway,
//   and if the rest of the zone eats the memory, the group need not be squeezed for it.
//
// No workload hangs for ever. The limit is lifted (to what it was before the brake)
// - at the ceiling: the zone's target has reached its static-max, and MemTotal has not grown for
//   3 s; braked again when there is room below the ceiling;
// - in vain: tasks have been slowed for 10 s in which MemTotal did not grow; braked again once
//   MemTotal grows, or two margins are available (the workload gave way, or was killed).
// "Slowed" is what the kernel counts as `high` in memory.events.local. A sleeper is counted again
// after 2 s at the latest, so 2.5 s without a count mean that nobody is held.
#pragma once

#include <cstdint>
#include <optional>

#include "watcher/guest/sample.h"

namespace xenpack::guest {

inline constexpr std::uint64_t kBrakeDeadlineMs = 10'000;
inline constexpr std::uint64_t kCeilingSettleMs = 3'000;
inline constexpr std::uint64_t kHeldWindowMs = 2'500;

// Of what is available, so much is out of the workload's reach.
[[nodiscard]] constexpr std::uint64_t brake_margin_kib(std::uint64_t total_kib) {
    return total_kib / 16 > 16 * 1024 ? total_kib / 16 : 16 * 1024;
}

// Whether the host could still give this zone more, as its xenstore keys have it.
enum class Ceiling {
    unknown,  // not read yet, or not readable
    room,
    reached,
};

// Both in KiB as in xenstore. A toolstack keeps up to a MiB between the two, hence the tolerance.
[[nodiscard]] Ceiling ceiling_of(std::optional<std::uint64_t> target_kib,
                                 std::optional<std::uint64_t> static_max_kib);

enum class BrakeState {
    armed,              // limit set, nobody slowed
    holding,            // limit set, and tasks are slowed by it
    lifted_at_ceiling,  // no limit of ours
    lifted_in_vain,     // no limit of ours
};

class Brake {
  public:
    // own_limit_kib: the group's memory.high before the brake, none for `max`. Never exceeded.
    explicit Brake(std::optional<std::uint64_t> own_limit_kib);

    struct Look {
        std::uint64_t now_ms = 0;  // any monotonic clock, never backwards
        MemorySample memory;
        // The group's memory.current, read before `memory` and after it. The reporter may have to
        // wait for the processor in between, and the lower of the two counts no page twice: what
        // the group took meanwhile would be in the later one and in what was free as well.
        std::uint64_t usage_before_kib = 0;
        std::uint64_t usage_after_kib = 0;
        std::uint64_t high_events = 0;  // `high` of its memory.events.local
        Ceiling ceiling = Ceiling::unknown;
    };

    // The state from now on; limit_kib() is what memory.high should be. It stays what it was while
    // the better value is less than max(1 MiB, margin/16) away.
    BrakeState look(const Look& look);

    [[nodiscard]] BrakeState state() const { return state_; }
    // None: own_limit_kib, or `max`.
    [[nodiscard]] std::optional<std::uint64_t> limit_kib() const { return limit_kib_; }

  private:
    void follow_growth(const Look& look);
    void follow_events(const Look& look);
    [[nodiscard]] BrakeState next_state(const Look& look) const;
    [[nodiscard]] bool may_brake_again(const Look& look) const;
    [[nodiscard]] bool settled_at_ceiling(const Look& look) const;
    [[nodiscard]] bool held(const Look& look) const;
    void set_limit(const Look& look);

    std::optional<std::uint64_t> own_limit_kib_;
    BrakeState state_ = BrakeState::armed;
    std::optional<std::uint64_t> limit_kib_;
    std::optional<std::uint64_t> reference_total_kib_;  // MemTotal that growth is measured from
    std::optional<std::uint64_t> grew_at_ms_;
    std::optional<std::uint64_t> high_events_;
    std::optional<std::uint64_t> slowed_at_ms_;  // of the last count of `high`
    std::uint64_t held_since_ms_ = 0;
    std::uint64_t lifted_at_ms_ = 0;
};

}  // namespace xenpack::guest
