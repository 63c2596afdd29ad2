// SPDX-License-Identifier: LGPL-2.1-or-later
// Guest: the memory of one simulated Linux, in which one workload follows a trace: page cache,
// reclaim, refaults, swap, PSI, the OOM killer. Called by Host in steps of virtual time.
// Pure arithmetic; it knows nothing of Xen, of balloons or of who decides.
#pragma once

#include <cstdint>
#include <memory>

#include "plugin/sim/trace.h"

namespace xenpack::sim {

struct GuestConfig {
    std::uint64_t static_max_kib = 0;  // maxmem: page descriptors cost 1/64 of it
    std::uint64_t swap_kib = 0;        // swap disk; 0: none
    std::uint64_t disk_kib_per_s = 200 * 1024;
    std::uint64_t alloc_kib_per_s = 1024 * 1024;  // the quickest a workload can touch new memory
    bool brake = false;  // xenpack-guest --brake: the workload is held rather than killed
    bool repeat = true;  // the trace begins anew at its end; else the workload exits there
    std::int64_t start_at_ms = 0;    // where in the trace the workload begins
    std::int64_t idle_until_ms = 0;  // guest time before which the workload does not run
};

// What the guest's kernel shows, counted since its boot, as in /proc.
struct GuestStats {
    std::int64_t uptime_ms = 0;
    std::uint64_t total_kib = 0;      // MemTotal
    std::uint64_t free_kib = 0;       // MemFree
    std::uint64_t available_kib = 0;  // MemAvailable
    std::uint64_t cached_kib = 0;     // Cached: hot and cold file pages
    std::uint64_t committed_kib = 0;  // Committed_AS
    std::uint64_t active_kib = 0;     // pages touched of late: what sampling would find
    std::uint64_t swap_total_kib = 0;
    std::uint64_t swap_free_kib = 0;
    std::uint64_t swap_ins = 0;  // pages
    std::uint64_t refaults = 0;  // pages
    std::uint64_t some_us = 0;   // PSI memory, some
    std::uint64_t full_us = 0;
    // What only a simulation can know.
    std::uint64_t stalled_us = 0;  // time the workload lost to memory
    std::uint64_t oom_kills = 0;   // the workload was killed and began its trace anew
    std::int64_t worked_ms = 0;    // trace time it got done
    bool stalls_now = false;       // lost time in the last step
    std::uint64_t lacks_kib = 0;   // what would have had to be there for it not to stall
};

class Guest {
  public:
    Guest(const GuestConfig& config, std::shared_ptr<const Trace> trace);

    // Lets dt_ms pass with `pages_kib` held by the domain, as the balloon left them.
    void step(std::int64_t dt_ms, std::uint64_t pages_kib);
    // What the balloon driver can allocate inside the guest now, at the cost of the page cache.
    [[nodiscard]] std::uint64_t can_give_kib() const;
    [[nodiscard]] const GuestStats& stats() const { return stats_; }
    [[nodiscard]] const Trace& trace() const { return *trace_; }
    // Where in its trace the workload is: what an oracle needs to know the future.
    [[nodiscard]] std::int64_t trace_ms() const;
    // Pages that the domain holds and MemTotal does not count.
    [[nodiscard]] std::uint64_t overhead_kib() const;

    // The size (in pages held by the domain) at which the workload, at that point of its trace,
    // would not stall.
    [[nodiscard]] std::uint64_t ease_kib(std::int64_t trace_ms) const;
    // And the size below which it would be killed.
    [[nodiscard]] std::uint64_t survival_kib(std::int64_t trace_ms) const;

  private:
    GuestConfig config_;
    std::shared_ptr<const Trace> trace_;
    GuestStats stats_;
    // further state belongs to guest.cc's author
};

}  // namespace xenpack::sim
