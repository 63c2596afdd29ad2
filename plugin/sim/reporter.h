// SPDX-License-Identifier: LGPL-2.1-or-later
// Reporter: xenpack-guest in a simulated zone: its pressure trigger, its pace, its reports, by the
// real reporter's rules (watcher/guest/reporting.h). Called with what the guest's kernel shows,
// after each step. Pure; it must not see what only a simulation can know.
#pragma once

#include <cstdint>
#include <optional>

#include "plugin/sim/guest.h"
#include "watcher/guest/reporting.h"
#include "watcher/pressure/report.h"

namespace xenpack::sim {

class Reporter {
  public:
    // In seconds; within kHeartbeatMinS and kHeartbeatMaxS.
    explicit Reporter(std::uint64_t heartbeat_s = 30, bool brake = false);

    // What it writes now, if it does.
    [[nodiscard]] std::optional<Report> look(const GuestStats& stats);

  private:
    [[nodiscard]] bool trigger(const GuestStats& stats);
    [[nodiscard]] Report report(const GuestStats& stats, ReportWhy why);

    std::uint64_t heartbeat_s_;
    bool brake_;
    guest::Reporting reporting_;
    std::uint64_t next_look_ms_ = 0;
    std::uint64_t sequence_ = 0;
    std::int64_t window_ms_ = 0;
    std::uint64_t window_some_us_ = 0;
};

}  // namespace xenpack::sim
