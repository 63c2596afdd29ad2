// SPDX-License-Identifier: LGPL-2.1-or-later
// Pressure: what a zone's samples, taken together, say it needs. Pure: values in, values out; the
// caller brings the time. Called by zones/ for each sample and by the watcher before a decision.
#pragma once

#include <cstdint>
#include <optional>

#include "watcher/pressure/agents.h"

namespace xenpack {

// What is remembered of one zone's samples. A value.
struct Pressure {
    Agent agent = Agent::none;
    std::int64_t first_ms = 0;    // when this agent was first heard
    std::int64_t last_ms = 0;     // when it was last heard
    std::uint64_t total_kib = 0;  // as last said; 0: unknown
    std::uint64_t used_kib = 0;   // as last said
    // The most used of late: rises with used_kib at once, falls towards it by kCalmHalfLife. Growth
    // follows the quick one, shrinking the slow one (the maximum of two averages, as ESX does it).
    std::uint64_t used_slow_kib = 0;
    std::uint64_t rise_kib_per_s = 0;  // how quickly used_kib is growing; 0 when it is not
    // How much use rises within about a second: now, and at its worst, which is forgotten slowly.
    std::uint64_t climb_kib = 0;
    std::uint64_t burst_kib = 0;
    // Page cache that it was seen to miss when it had less; forgotten slowly, so that a zone is
    // tried with less of it now and then, the more slowly the more often that was a mistake.
    std::uint64_t missed_kib = 0;  // read again within about two seconds
    std::uint64_t cache_kib = 0;
    std::int64_t cache_half_life_ms = 0;
    std::int64_t cache_raised_ms = 0;
    // Room above what it uses, without which it stalled when it allocated; forgotten soon.
    std::uint64_t cushion_kib = 0;
    std::optional<double> stalled_share;  // of the time between the last two samples, 0..1
    std::int64_t stalled_ms = -1;         // when a stall was last seen; -1: never
    std::uint64_t heartbeat_ms = 0;       // a silence of twice this means a dead reporter
    std::optional<Report> last_report;
};

inline constexpr std::int64_t kCalmHalfLifeMs = 20'000;
inline constexpr std::int64_t kClimbHalfLifeMs = 1'000;
inline constexpr std::int64_t kMissedHalfLifeMs = 2'000;
inline constexpr std::int64_t kBurstHalfLifeMs = 180'000;
// What a workload takes when it starts is no burst that will come again.
inline constexpr std::int64_t kStartingMs = 30'000;
// Twice as long after each time that less was a mistake, up to an hour. senpai gives back at most
// 1 % each 6 s while nothing stalls, which is a half-life of 7 minutes.
inline constexpr std::int64_t kCacheHalfLifeMs = 120'000;
inline constexpr std::int64_t kCacheHalfLifeMaxMs = 3'600'000;

// A zone counts as stalled above this share of its time lost to memory. oomd acts at 60 % for 30 s,
// by killing; senpai aims at 0.1 %. Growing is cheap, so it begins well before work is lost.
inline constexpr double kStallShare = 0.01;
// Without PSI: so many KiB a second read back that had been there before.
inline constexpr std::uint64_t kThrashKibPerS = 2048;
// A silence of this many heartbeats, plus a grace for a busy host, is a dead reporter.
inline constexpr std::int64_t kMissedHeartbeats = 2;
inline constexpr std::int64_t kHeartbeatGraceMs = 5'000;
// xe-guest-utilities writes every 120 s, xen-guest-agent every 60 s, Qubes only on a change.
inline constexpr std::uint64_t kXenAgentHeartbeatMs = 180'000;
inline constexpr std::uint64_t kQubesHeartbeatMs = 300'000;

[[nodiscard]] Pressure observe(const Pressure& before, const Sample& sample, std::int64_t now_ms);

// When the silence becomes a dead reporter, unless it speaks before.
[[nodiscard]] std::int64_t stale_at_ms(const Pressure& pressure);

// When a stall that is not heard of again is forgotten; the past where there was none.
[[nodiscard]] std::int64_t stall_ends_ms(const Pressure& pressure);

// When a rise that is not heard of again is over; last_ms where there was none.
[[nodiscard]] std::int64_t rise_ends_ms(const Pressure& pressure);

// What a zone needs, as sizes of its domain, each at least the one before.
struct Demand {
    std::uint64_t must_kib = 0;   // below this it is in danger: use, and room for a first rise
    std::uint64_t quick_kib = 0;  // at ease now: also its bursts, its cache, and an end to a stall
    // Of quick_kib, page cache that it has and does not miss: not to be asked for if it is gone.
    std::uint64_t kept_cache_kib = 0;
    std::uint64_t slow_kib = 0;    // at ease for long: also its recent peak, and all its headroom
    std::uint64_t burst_kib = 0;   // what it may come to want within a second, beyond must
    std::uint64_t step_kib = 0;    // while it rises, grow it by no less: each change costs
    std::uint64_t cached_kib = 0;  // page cache it has beyond what it uses, in use or not
    bool stalled = false;          // it is losing time to memory now
};

struct DemandRule {
    std::uint64_t overhead_kib = 0;  // pages the domain holds that its kernel does not manage
    unsigned headroom_percent = 25;
};

[[nodiscard]] Demand demand_of(const Pressure& pressure, const DemandRule& rule,
                               std::int64_t now_ms);

}  // namespace xenpack
