// SPDX-License-Identifier: LGPL-2.1-or-later
// Reporting: whether what the reporter sees now matters to the host, and when to look again.
// Called by Reporter with each sample. Pure: the time and the samples are given to it.
//
// A report is due, the first reason that holds being the one given:
//   start      none was written yet
//   psi        the kernel's pressure trigger fired, or the brake began to hold the workload, or
//              tasks stalled, too little for the trigger, for 1 % of two seconds or more
//   low        available memory is under 1/4 of the total, and it fell since the last report: to
//              cross that line by at least 2 MiB, below it by at least 1/8 (and 2 MiB)
//   change     memory in use, or MemTotal (the balloon), moved by more than 1/16 of the total and
//              more than 8 MiB since the last report
//   calm       after pressure: tasks stalled for less than 5 ms in 2 s; said once
//   heartbeat  the heartbeat's time has passed since the last report
// Reports are at least 100 ms apart, but for psi, which the kernel itself spaces by the trigger's
// window: 12 a second at the worst.
//
// The time between two looks is 100 ms while memory moves; each look that finds it still doubles
// the time, up to 2 s with half of the memory available, 1 s with a quarter, 250 ms below; to 500
// ms between psi and calm; and to 250 ms for the five minutes after use was seen to leap by a
// sixteenth between two looks. Without a pressure trigger to wake the reporter it is 100 ms where
// less than a quarter is available. It never looks later than the heartbeat is due.
#pragma once

#include <cstdint>
#include <optional>

#include "watcher/guest/sample.h"
#include "watcher/pressure/report.h"

namespace xenpack::guest {

inline constexpr std::uint64_t kQuickLookMs = 100;
inline constexpr std::uint64_t kCalmAfterMs = 2000;
inline constexpr std::uint64_t kRestlessLookMs = 250;
inline constexpr std::uint64_t kRestlessMs = 300'000;
inline constexpr std::uint64_t kSmallStallsWindowMs = 2000;
inline constexpr std::uint64_t kSmallStallsPart = 100;  // 1/100 of the window's time

class Reporting {
  public:
    // has_trigger: pressure wakes the reporter by itself. heartbeat_ms: more than 0.
    Reporting(std::uint64_t heartbeat_ms, bool has_trigger);

    struct Verdict {
        std::optional<ReportWhy> why;     // a report is due, for this reason; then call written()
        std::uint64_t look_again_ms = 1;  // from now; at least 1
    };

    struct Look {
        std::uint64_t now_ms = 0;  // any monotonic clock, never backwards
        MemorySample memory;
        std::optional<std::uint64_t> some_us;  // total stall; none: the kernel does not say
        bool trigger_fired = false;            // or the brake bit, since the look before
    };

    [[nodiscard]] Verdict look(const Look& look);

    // The report of this look was handed over for writing.
    void written(const Look& look, ReportWhy why);

    // The kernel took the trigger away: look more often.
    void lose_trigger() { has_trigger_ = false; }

    // Between a psi report and the calm one.
    [[nodiscard]] bool pressured() const { return pressured_; }

  private:
    [[nodiscard]] std::optional<ReportWhy> reason(const Look& look) const;
    [[nodiscard]] std::uint64_t pace(const MemorySample& memory, std::uint64_t now_ms);
    void follow_stalls(const Look& look);
    [[nodiscard]] bool small_stalls_add_up(const Look& look);

    struct Written {
        std::uint64_t at_ms = 0;
        MemorySample memory;
    };

    std::uint64_t heartbeat_ms_;
    bool has_trigger_;
    std::optional<Written> last_;
    std::optional<MemorySample> seen_;  // at the look before
    std::uint64_t pace_ms_ = kQuickLookMs;
    std::uint64_t restless_until_ms_ = 0;
    bool psi_pending_ = false;
    bool pressured_ = false;
    std::uint64_t stall_at_ms_ = 0;  // the last moment that counted as stalling, and the total then
    std::uint64_t stall_some_us_ = 0;
    std::uint64_t window_ms_ = 0;  // the window in which small stalls add up, and its first total
    std::optional<std::uint64_t> window_some_us_;
};

}  // namespace xenpack::guest
