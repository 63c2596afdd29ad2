// SPDX-License-Identifier: LGPL-2.1-or-later
// Reporting: the rules that reporting.h lists, as code. Reporter calls it. Pure: no I/O, no clock.
#include "watcher/guest/reporting.h"

#include <algorithm>

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kMib = 1024;  // in KiB
constexpr std::uint64_t kSpacingMs = 100;
constexpr std::uint64_t kCalmStallUs = 5000;
constexpr std::uint64_t kLowPart = 4;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : b - a;
}

std::uint64_t low_line(const MemorySample& memory) {
    return memory.total_kib / kLowPart;
}

bool fell_low(const MemorySample& then, const MemorySample& now) {
    if (now.available_kib >= low_line(now) || now.available_kib >= then.available_kib) {
        return false;
    }
    const bool was_low = then.available_kib < low_line(then);
    const std::uint64_t step = was_low ? std::max(then.available_kib / 8, 2 * kMib) : 2 * kMib;
    return then.available_kib - now.available_kib >= step;
}

bool changed(const MemorySample& then, const MemorySample& now) {
    const std::uint64_t step = std::max(now.total_kib / 16, 8 * kMib);
    return distance(then.used_kib(), now.used_kib()) > step ||
           distance(then.total_kib, now.total_kib) > step;
}

// Less than what would ever be reported, so that a movement is followed closely before it matters.
bool moving(const MemorySample& then, const MemorySample& now) {
    const std::uint64_t step = std::max(now.total_kib / 256, kMib);
    return distance(then.used_kib(), now.used_kib()) > step ||
           distance(then.total_kib, now.total_kib) > step;
}

std::uint64_t slowest_look_ms(const MemorySample& memory, bool has_trigger, bool restless) {
    if (memory.available_kib < low_line(memory)) {
        return has_trigger ? 250 : kQuickLookMs;
    }
    if (restless) {
        return kRestlessLookMs;
    }
    return memory.available_kib >= memory.total_kib / 2 ? 2000 : 1000;
}

}  // namespace

Reporting::Reporting(std::uint64_t heartbeat_ms, bool has_trigger)
    : heartbeat_ms_(heartbeat_ms), has_trigger_(has_trigger) {}

Reporting::Verdict Reporting::look(const Look& look) {
    follow_stalls(look);
    Verdict verdict{reason(look), pace(look.memory, look.now_ms)};
    if (!last_) {
        return verdict;
    }
    const std::uint64_t since_ms = look.now_ms - last_->at_ms;
    if (verdict.why && *verdict.why != ReportWhy::psi && since_ms < kSpacingMs) {
        return {std::nullopt, kSpacingMs - since_ms};
    }
    if (since_ms < heartbeat_ms_) {
        verdict.look_again_ms = std::min(verdict.look_again_ms, heartbeat_ms_ - since_ms);
    }
    return verdict;
}

void Reporting::written(const Look& look, ReportWhy why) {
    last_ = Written{look.now_ms, look.memory};
    psi_pending_ = false;
    if (why == ReportWhy::calm) {
        pressured_ = false;
    }
}

std::optional<ReportWhy> Reporting::reason(const Look& look) const {
    if (!last_) {
        return ReportWhy::start;
    }
    if (psi_pending_) {
        return ReportWhy::psi;
    }
    if (fell_low(last_->memory, look.memory)) {
        return ReportWhy::low;
    }
    if (changed(last_->memory, look.memory)) {
        return ReportWhy::change;
    }
    if (pressured_ && look.now_ms - stall_at_ms_ >= kCalmAfterMs) {
        return ReportWhy::calm;
    }
    if (look.now_ms - last_->at_ms >= heartbeat_ms_) {
        return ReportWhy::heartbeat;
    }
    return std::nullopt;
}

std::uint64_t Reporting::pace(const MemorySample& memory, std::uint64_t now_ms) {
    if (seen_ &&
        memory.used_kib() > seen_->used_kib() + std::max(memory.total_kib / 16, 8 * kMib)) {
        restless_until_ms_ = now_ms + kRestlessMs;
    }
    const bool restless = now_ms < restless_until_ms_;
    const bool moved = !seen_ || moving(*seen_, memory);
    seen_ = memory;
    pace_ms_ = moved ? kQuickLookMs
                     : std::min(pace_ms_ * 2, slowest_look_ms(memory, has_trigger_, restless));
    // The end of pressure is worth knowing in time: another zone may wait for this memory.
    return pressured_ ? std::min(pace_ms_, kCalmAfterMs / 4) : pace_ms_;
}

void Reporting::follow_stalls(const Look& look) {
    const std::uint64_t some_us = look.some_us.value_or(stall_some_us_);
    if (small_stalls_add_up(look) || look.trigger_fired) {
        psi_pending_ = true;
        pressured_ = true;
        stall_at_ms_ = look.now_ms;
        stall_some_us_ = some_us;
    } else if (pressured_ && some_us > stall_some_us_ + kCalmStallUs) {
        stall_at_ms_ = look.now_ms;
        stall_some_us_ = some_us;
    }
}

// What the trigger does not tell: a zone that is a little too small stalls a little all the time.
bool Reporting::small_stalls_add_up(const Look& look) {
    const std::uint64_t elapsed_ms = look.now_ms - window_ms_;
    if (look.trigger_fired) {  // told already
        window_ms_ = look.now_ms;
        window_some_us_ = look.some_us;
        return false;
    }
    if (!look.some_us || (window_some_us_ && elapsed_ms < kSmallStallsWindowMs)) {
        return false;
    }
    const std::uint64_t before_us = window_some_us_.value_or(*look.some_us);
    const std::uint64_t stalled_us = *look.some_us - std::min(before_us, *look.some_us);
    window_ms_ = look.now_ms;
    window_some_us_ = look.some_us;
    const bool over = pressured_ && look.now_ms - stall_at_ms_ > kCalmAfterMs / 2;
    return !over && stalled_us > 0 && stalled_us * kSmallStallsPart >= elapsed_ms * 1000;
}

}  // namespace xenpack::guest
