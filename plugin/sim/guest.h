// SPDX-License-Identifier: LGPL-2.1-or-later
// Guest: the memory of one simulated Linux, in which one workload follows a trace: page cache,
// reclaim, refaults, swap, PSI, the OOM killer. Called by Host in steps of virtual time.
// Pure arithmetic; it knows nothing of Xen, of balloons or of who decides.
//
// The model. A workload is one task: at any moment it works (its trace goes on), or it is stalled
// by memory (its trace stands still), or it does not run.
// - Anonymous memory follows the trace, upwards no quicker than alloc_kib_per_s. What is given back
//   is free at once.
// - The hot set (cache_kib) is nested: a small one is a part of a larger one. Pages that leave it
//   stay in memory as long as nobody needs them ("warm"), and are hot again, without being read,
//   when the set grows back. Pages that were hot and had to be evicted are "lost": reading one is a
//   refault and waits for the disk. A page that is read for the first time is not memory's fault:
//   its time is in the trace already, and it costs only the pace of the disk.
// - The stream's pages are used once ("cold"); they fill what is free, then recycle each other.
// - Reclaim takes cold, warm, hot pages, then inactive anonymous ones, then active ones, the last
//   two as far as there is swap. Nothing is left then, and the OOM killer ends the workload.
// - PSI counts what is lost to refaults, swapping, reclaim of hot pages and waiting for memory. As
//   the workload is one task, "full" is "some".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "plugin/sim/trace.h"
#include "watcher/guest/brake.h"

namespace xenpack::sim {

struct GuestConfig {
    std::uint64_t static_max_kib = 0;  // maxmem: page descriptors and hash tables are for all of it
    std::uint64_t swap_kib = 0;        // swap disk; 0: none
    std::uint64_t disk_kib_per_s = 200 * 1024;
    std::uint64_t alloc_kib_per_s = 1024 * 1024;  // the quickest a workload can touch new memory
    // xenpack-guest --brake: the workload is slowed rather than killed, by the real brake's limit
    // (watcher/guest/brake.h), until that is lifted: then it may be killed.
    bool brake = false;
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
    std::uint64_t committed_kib = 0;  // Committed_AS: anonymous memory, held or asked for
    std::uint64_t active_kib = 0;     // pages touched of late: what sampling would find
    std::uint64_t swap_total_kib = 0;
    std::uint64_t swap_free_kib = 0;
    std::uint64_t swap_ins = 0;  // pages
    std::uint64_t refaults = 0;  // pages
    std::uint64_t some_us = 0;   // PSI memory, some
    std::uint64_t full_us = 0;
    // What only a simulation can know. Of each step in which the workload is to run, a part is
    // worked and the rest stalled; the restart after a kill is stalled time, though not in PSI.
    std::uint64_t stalled_us = 0;  // time the workload lost to memory
    std::uint64_t oom_kills = 0;   // the workload was killed and began its trace anew
    std::int64_t worked_ms = 0;    // trace time it got done, also what a kill made worthless
    bool stalls_now = false;       // lost time in the last step
    std::uint64_t lacks_kib = 0;   // what would have had to be there for it not to stall; 0 while
                                   // it reads back what it lost and there is room for it
};

class Guest {
  public:
    // The trace has at least one row. It may be shared by many guests.
    Guest(const GuestConfig& config, std::shared_ptr<const Trace> trace);

    // Lets dt_ms pass with `pages_kib` held by the domain, as the balloon left them.
    void step(std::int64_t dt_ms, std::uint64_t pages_kib);
    // What the balloon driver can allocate inside the guest now, at the cost of the page cache.
    // Linux 6.1 asks si_mem_available(), so this is MemAvailable: never anonymous memory, and not
    // the last of the page cache.
    [[nodiscard]] std::uint64_t can_give_kib() const { return stats_.available_kib; }
    [[nodiscard]] const GuestStats& stats() const { return stats_; }
    [[nodiscard]] const Trace& trace() const { return *trace_; }
    // Where in its trace the workload is: what an oracle needs to know the future.
    [[nodiscard]] std::int64_t trace_ms() const { return place_us_ / 1000; }
    // Pages that the domain holds and MemTotal does not count.
    [[nodiscard]] std::uint64_t overhead_kib() const { return overhead_kib_; }

    // The size (in pages held by the domain) at which the workload, at that point of its trace,
    // would not stall. A step of the workload looks at the trace's demand at the step's end. Who
    // follows a falling and rising trace with this size and no more pays for the cache that was
    // evicted in between.
    [[nodiscard]] std::uint64_t ease_kib(std::int64_t trace_ms) const;
    // And the size below which it would be killed.
    [[nodiscard]] std::uint64_t survival_kib(std::int64_t trace_ms) const;

  private:
    enum class Run { idle, running, restarting, ended };

    // A set of pages, in KiB: all of them, and those of them that are not in memory: in swap, or
    // evicted from the page cache.
    struct Pages {
        double size = 0;
        double out = 0;

        [[nodiscard]] double in() const { return size - out; }
        // Splits off some, with their share of what is out.
        [[nodiscard]] Pages take(double kib);
        void add(const Pages& more);
        void push_out(double kib);
        void pull_in(double kib);
    };

    // What a step's allocations cost the workload.
    struct Wait {
        double seconds = 0;    // for reclaim, and for swap to be written
        double refused = 0;    // share of the step in which no page was to be had
        bool in_vain = false;  // and reclaim found nothing at all
    };

    [[nodiscard]] std::uint64_t size_for(double kib) const;
    [[nodiscard]] double ease_total_kib(const Demand& demand) const;
    [[nodiscard]] double used_kib() const;
    [[nodiscard]] double swap_free() const;
    [[nodiscard]] Demand demand_at_end(std::int64_t dt_ms);

    void begin(std::int64_t dt_ms, std::uint64_t pages_kib);
    void rest();
    void work(const Demand& demand, std::int64_t dt_ms);
    void advance(std::int64_t work_us);
    void kill();

    void settle_anon(const Demand& demand);
    void take_anon(const Demand& demand, double want);
    [[nodiscard]] Wait allocate(const Demand& demand, double seconds);
    [[nodiscard]] Wait sleep_on(double seconds);
    [[nodiscard]] double slowed(double want, double seconds, Wait& wait);
    void look_at_brake();
    void resize_hot_set(double size);
    void read_files(const Demand& demand, double seconds, double worked_s);
    void read_back(const Demand& demand, double worked_s);
    [[nodiscard]] double lost_per_second(const Demand& demand) const;
    void bear(const Wait& wait, std::int64_t stalled_us);
    void show();

    // Reclaim; each returns what it got.
    double evict_unused(double want);
    double evict_hot(double want);
    double swap_out(Pages& pages, double want);
    double room_for_reading(double want);

    GuestConfig config_;
    std::shared_ptr<const Trace> trace_;
    GuestStats stats_;

    std::uint64_t overhead_kib_ = 0;
    double min_kib_ = 0;  // the kernel's watermarks
    double low_kib_ = 0;
    double high_kib_ = 0;
    double reserve_kib_ = 0;  // what MemAvailable leaves out of the free memory

    Run run_ = Run::idle;
    std::size_t row_ = 0;        // of the trace, where the last look was
    std::int64_t place_us_ = 0;  // in the trace
    std::int64_t worked_us_ = 0;
    std::int64_t restart_ms_ = 0;  // uptime at which `restarting` ends
    std::int64_t vain_us_ = 0;     // so long has the workload asked for pages in vain
    Demand demand_;                // of the last step

    std::optional<guest::Brake> brake_;
    std::uint64_t high_events_ = 0;  // as memory.events.local counts them
    double asleep_s_ = 0;            // the workload still has to sleep so long

    double managed_ = 0;   // MemTotal
    Pages active_;         // anonymous memory that is touched all the time
    Pages inactive_;       // the rest of it
    double hot_size_ = 0;  // of the hot set; of it, hot_.size have been read since boot
    Pages hot_;
    Pages warm_;
    double cold_ = 0;
    double refaulted_ = 0;  // KiB, of which whole pages are in stats_
    double swapped_in_ = 0;
};

}  // namespace xenpack::sim
