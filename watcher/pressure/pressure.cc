// SPDX-License-Identifier: LGPL-2.1-or-later
// Demand from samples: averages, rise, stalls, headroom.
#include "watcher/pressure/pressure.h"

#include <algorithm>
#include <cmath>

#include "watcher/kib.h"

namespace xenpack {
namespace {

// The least headroom: what a small guest's kernel needs to stay clear of its watermarks.
constexpr std::uint64_t kHeadroomMinKib = 32 * 1024;
// The least room above what is used, however short memory is and however still the zone was.
constexpr std::uint64_t kMarginMinKib = 32 * 1024;
constexpr std::uint64_t kMarginPart = 10;
// And with a brake, above what that keeps from the workload: at rest it must not slow anything.
constexpr std::uint64_t kBrakeSlackKib = 4 * 1024;
// Of a burst, what must be there before the host has answered: the rest comes out of its reserve.
constexpr std::uint64_t kFirstPartOfBurst = 5;
// What a zone may do that has not been watched for long: this much, or this part of its size.
constexpr std::uint64_t kUnknownBurstMinKib = 32 * 1024;
constexpr std::uint64_t kUnknownBurstPart = 16;
// How far ahead a rise is provided for: a report, a decision and the balloon's work take less.
constexpr std::uint64_t kLeadMs = 2'000;
// A stall asks for a little more, as a guest that stalls cannot say how much it lacks.
constexpr std::uint64_t kStallStepMinKib = 16 * 1024;
constexpr std::uint64_t kStallStepPart = 32;
// Of what was read again, so much at least is taken to have been missed all at once.
constexpr std::uint64_t kCacheStepMinKib = 48 * 1024;
// Less than this read again is no working set that is missing.
constexpr std::uint64_t kMissedLeastKib = 1024;
// Less than this is what a kernel keeps free anyway: with transparent huge pages, as distributions
// have them, up to 66 MiB where its memory ends below 4 GiB (plugin/sim/guest.cc), and page cache
// never takes the rest of it.
constexpr std::uint64_t kFreeLittleKib = 72 * 1024;
constexpr std::uint64_t kFreeLittlePart = 16;
// A stall is remembered this long, so that the pause between two reports does not look like calm.
constexpr std::int64_t kStallMemoryMs = 3'000;

// Less than this within the time ahead is no rise that matters.
constexpr std::uint64_t kRiseLeastKib = 8 * 1024;
// A gap longer than this says nothing about how quickly use rises now; nor does a silence, as a
// reporter tells of each rise that matters.
constexpr std::int64_t kRiseMaxGapMs = 5'000;

std::uint64_t halved(std::uint64_t value, std::int64_t elapsed_ms, std::int64_t half_life_ms) {
    const double halves = static_cast<double>(elapsed_ms) / static_cast<double>(half_life_ms);
    return static_cast<std::uint64_t>(static_cast<double>(value) * std::exp2(-halves));
}

std::uint64_t decayed_towards(std::uint64_t low, std::uint64_t high, std::int64_t elapsed_ms) {
    return low + halved(high - low, elapsed_ms, kCalmHalfLifeMs);
}

// Guest clocks and counters start anew with a reboot or a new reporter: only forward steps count.
bool comparable(const Report& before, const Report& now) {
    return now.uptime_ms > before.uptime_ms && now.sequence > before.sequence;
}

std::uint64_t read_again_kib(const Report& before, const Report& now) {
    return 4 * (minus(now.swap_ins, before.swap_ins) + minus(now.refaults, before.refaults));
}

std::optional<double> stalled_share(const Report& before, const Report& now) {
    if (!comparable(before, now)) {
        return std::nullopt;
    }
    const auto elapsed_ms = static_cast<double>(now.uptime_ms - before.uptime_ms);
    if (now.some_us && before.some_us) {
        const std::uint64_t stalled_us = minus(*now.some_us, *before.some_us);
        return std::min(1.0, static_cast<double>(stalled_us) / 1000.0 / elapsed_ms);
    }
    const double kib_per_s = static_cast<double>(read_again_kib(before, now)) / elapsed_ms * 1000.0;
    return std::min(1.0, kib_per_s / static_cast<double>(kThrashKibPerS) * kStallShare);
}

std::uint64_t heartbeat_ms_of(const Sample& sample) {
    switch (sample.agent) {
        case Agent::xenpack:
            return sample.report->heartbeat_s * 1000;
        case Agent::qubes:
            return kQubesHeartbeatMs;
        case Agent::xen_guest_agent:
            return kXenAgentHeartbeatMs;
        case Agent::none:
            break;
    }
    return 0;
}

bool recently_stalled(const Pressure& p, std::int64_t now_ms) {
    return p.stalled_ms >= 0 && now_ms < stall_ends_ms(p);
}

std::uint64_t beyond_brake_kib(const Pressure& p) {
    const std::uint64_t brake_kib = p.last_report ? p.last_report->brake_kib.value_or(0) : 0;
    return brake_kib > 0 ? brake_kib / 4 * 5 + kBrakeSlackKib : 0;
}

std::uint64_t with_headroom(std::uint64_t used_kib, unsigned percent) {
    return used_kib + std::max(kHeadroomMinKib, used_kib / 100 * percent);
}

// What use rises by, summed up and forgotten within seconds, and the worst of it.
void follow_rise(const Pressure& before, std::int64_t elapsed_ms, Pressure& now) {
    const std::uint64_t rise_kib = minus(now.used_kib, before.used_kib);
    const bool recent = elapsed_ms <= kRiseMaxGapMs;
    const auto at_least_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(elapsed_ms, 50));
    now.rise_kib_per_s = recent ? rise_kib * 1000 / at_least_ms : 0;
    now.climb_kib = halved(before.climb_kib, elapsed_ms, kClimbHalfLifeMs);
    // Of a long rise, what falls into one second.
    now.climb_kib += recent && elapsed_ms > 1000 ? now.rise_kib_per_s : (recent ? rise_kib : 0);
    const bool starting = now.last_ms - now.first_ms < kStartingMs;
    now.burst_kib =
        starting ? before.burst_kib
                 : std::max(halved(before.burst_kib, elapsed_ms, kBurstHalfLifeMs), now.climb_kib);
}

// Whether more size would have helped: there is nothing left that holds nothing. Where the agent
// does not tell cache from what is free, little that is available must do.
bool room_is_short(const Pressure& p) {
    if (p.last_report && p.last_report->brake_kib &&
        minus(p.total_kib, p.used_kib) < *p.last_report->brake_kib / 2 * 3) {
        return true;  // as good as nothing, for the workload
    }
    if (p.last_report && p.last_report->free_kib) {
        return *p.last_report->free_kib < std::max(kFreeLittleKib, p.total_kib / kFreeLittlePart);
    }
    return minus(p.total_kib, p.used_kib) < p.total_kib / 4;
}

// What is available and holds file pages; where the agent does not tell, nothing is taken to.
std::uint64_t cache_held_kib(const Pressure& p) {
    return p.last_report && p.last_report->free_kib
               ? minus(minus(p.total_kib, p.used_kib), *p.last_report->free_kib)
               : 0;
}

// Pages read again had been cached: with so much more it would not have missed them.
void follow_cache(const Pressure& before, std::int64_t elapsed_ms, Pressure& now) {
    now.cache_half_life_ms = std::max(before.cache_half_life_ms, kCacheHalfLifeMs);
    now.cache_kib = halved(before.cache_kib, elapsed_ms, now.cache_half_life_ms);
    now.missed_kib = halved(before.missed_kib, elapsed_ms, kMissedHalfLifeMs);
    if (!before.last_report || !now.last_report ||
        !comparable(*before.last_report, *now.last_report)) {
        return;
    }
    now.missed_kib += read_again_kib(*before.last_report, *now.last_report);
    if (!room_is_short(now) || now.missed_kib < kMissedLeastKib) {
        return;
    }
    // All that is available: what is free is what the kernel keeps free, and not available.
    const std::uint64_t held_kib = minus(now.total_kib, now.used_kib);
    const std::uint64_t wanted_kib =
        held_kib + std::min(now.missed_kib, std::max(kCacheStepMinKib, held_kib / 2));
    if (wanted_kib > now.cache_kib) {
        // It was tried with less than it had been known to need: be slower to try that again.
        if (before.cache_kib > 0 &&
            now.last_ms - before.cache_raised_ms >= now.cache_half_life_ms / 4) {
            now.cache_half_life_ms = std::min(now.cache_half_life_ms * 2, kCacheHalfLifeMaxMs);
        }
        now.cache_kib = wanted_kib;
        now.cache_raised_ms = now.last_ms;
    }
}

// What is stalled while hardly anything is available was allocating, and needs more than there was.
void follow_cushion(const Pressure& before, std::int64_t elapsed_ms, bool stalls, Pressure& now) {
    now.cushion_kib = halved(before.cushion_kib, elapsed_ms, kCalmHalfLifeMs);
    const std::uint64_t available_kib = minus(now.total_kib, now.used_kib);
    if (stalls && room_is_short(now) && available_kib < now.total_kib / 4) {
        const std::uint64_t step_kib =
            std::max({kStallStepMinKib, now.total_kib / kStallStepPart, now.climb_kib});
        now.cushion_kib = std::max(now.cushion_kib, available_kib + step_kib);
    }
}

Pressure first_heard(const Sample& sample, std::int64_t now_ms) {
    Pressure first;
    first.first_ms = now_ms;
    first.last_ms = now_ms;
    first.used_kib = sample.used_kib;
    first.used_slow_kib = sample.used_kib;
    first.burst_kib = std::max(kUnknownBurstMinKib, sample.total_kib / kUnknownBurstPart);
    return first;
}

}  // namespace

Pressure observe(const Pressure& earlier, const Sample& sample, std::int64_t now_ms) {
    const bool same_agent = earlier.agent == sample.agent;
    const Pressure before = same_agent ? earlier : first_heard(sample, now_ms);
    const std::int64_t elapsed_ms = std::max<std::int64_t>(now_ms - before.last_ms, 1);
    Pressure now = before;
    now.agent = sample.agent;
    now.last_ms = now_ms;
    now.total_kib = sample.total_kib;
    now.used_kib = sample.used_kib;
    now.heartbeat_ms = heartbeat_ms_of(sample);
    now.last_report = sample.report;
    now.used_slow_kib = before.used_slow_kib > sample.used_kib
                            ? decayed_towards(sample.used_kib, before.used_slow_kib, elapsed_ms)
                            : sample.used_kib;
    now.stalled_share = before.last_report && sample.report
                            ? stalled_share(*before.last_report, *sample.report)
                            : std::nullopt;
    follow_rise(before, elapsed_ms, now);
    follow_cache(before, elapsed_ms, now);
    const bool trigger = sample.report && sample.report->why == ReportWhy::psi;
    const bool stalls = trigger || now.stalled_share.value_or(0) >= kStallShare;
    follow_cushion(before, elapsed_ms, stalls, now);
    now.stalled_ms = stalls ? now_ms : before.stalled_ms;
    return now;
}

std::int64_t stale_at_ms(const Pressure& pressure) {
    return pressure.last_ms + kMissedHeartbeats * static_cast<std::int64_t>(pressure.heartbeat_ms) +
           kHeartbeatGraceMs;
}

std::int64_t stall_ends_ms(const Pressure& pressure) {
    return pressure.stalled_ms + kStallMemoryMs;
}

std::int64_t rise_ends_ms(const Pressure& pressure) {
    return pressure.rise_kib_per_s > 0 ? pressure.last_ms + kRiseMaxGapMs : pressure.last_ms;
}

Demand demand_of(const Pressure& p, const DemandRule& rule, std::int64_t now_ms) {
    Demand demand;
    demand.stalled = recently_stalled(p, now_ms) && room_is_short(p);
    const std::int64_t silent_ms = std::max<std::int64_t>(now_ms - p.last_ms, 0);
    const std::uint64_t base_kib = p.used_kib + rule.overhead_kib;
    demand.burst_kib = halved(p.burst_kib, silent_ms, kBurstHalfLifeMs);
    const std::uint64_t margin_kib =
        std::max({kMarginMinKib, p.used_kib / kMarginPart, demand.burst_kib / kFirstPartOfBurst,
                  beyond_brake_kib(p)});
    demand.must_kib = base_kib + margin_kib;

    const std::uint64_t cache_kib =
        halved(p.cache_kib, silent_ms, std::max(p.cache_half_life_ms, kCacheHalfLifeMs));
    // One that reads nothing again has all the cache it needs, and none to ask for.
    const bool misses = halved(p.missed_kib, silent_ms, kMissedHalfLifeMs) >= kMissedLeastKib;
    const std::uint64_t missed_cache_kib = misses || demand.stalled ? cache_kib : 0;
    const std::uint64_t cache_now_kib =
        std::max(missed_cache_kib, std::min(cache_kib, minus(p.total_kib, p.used_kib)));
    const std::uint64_t cushion_kib = halved(p.cushion_kib, silent_ms, kCalmHalfLifeMs);
    // Twice what is in use is the most that a rise alone may claim.
    const std::uint64_t lead_kib =
        now_ms < rise_ends_ms(p) ? std::min(p.rise_kib_per_s * kLeadMs / 1000, p.used_kib) : 0;
    demand.step_kib = lead_kib / 2;
    demand.cached_kib = cache_held_kib(p);
    // One that rises may be far beyond its last word by the time it is answered: all its headroom.
    const std::uint64_t rising_kib =
        lead_kib >= kRiseLeastKib ? with_headroom(p.used_kib, rule.headroom_percent) - p.used_kib
                                  : 0;
    demand.quick_kib =
        base_kib + lead_kib + std::max({margin_kib, cache_now_kib, cushion_kib, rising_kib});
    demand.kept_cache_kib =
        minus(demand.quick_kib,
              base_kib + lead_kib + std::max({margin_kib, missed_cache_kib, cushion_kib}));
    const std::uint64_t slow_used_kib =
        p.used_slow_kib > p.used_kib ? decayed_towards(p.used_kib, p.used_slow_kib, silent_ms)
                                     : p.used_kib;
    const std::uint64_t slow_kib = with_headroom(slow_used_kib, rule.headroom_percent);
    demand.slow_kib = std::max({demand.quick_kib, slow_kib + rule.overhead_kib,
                                slow_used_kib + demand.burst_kib + rule.overhead_kib,
                                slow_used_kib + cache_kib + rule.overhead_kib});
    return demand;
}

}  // namespace xenpack
