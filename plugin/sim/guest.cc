// SPDX-License-Identifier: LGPL-2.1-or-later
// Guest: one step of a simulated Linux' memory. The model is described in guest.h; each constant
// here names its source, or says that it is a choice. Pure: no clock, no allocation in step().
#include "plugin/sim/guest.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace xenpack::sim {

namespace {

constexpr double kPageKib = 4;
// A struct page of 64 bytes for each page of 4096 up to maxmem: Linux makes them all at boot.
constexpr std::uint64_t kDescriptorShare = 64;
// Hash tables by the size at boot: an entry of 8 bytes of the dentry cache for each 8 KiB and of
// the inode cache for each 16 KiB (fs/dcache.c, fs/inode.c), each table rounded up to a power of
// two. Between 3/2048 and twice that; measured in the lab (Debian 12, Linux 6.1): 1.5 MiB of 640, 3
// of 2048, 12 of 6144.
constexpr std::uint64_t kHashShare = 512;
// Debian 12's kernel in the lab: pages held less MemTotal, less the above, at maxmem 640 and 2048
// MiB: 46.0 and 44.8 MiB. Of it code, data and bss are 42.1 MiB (its line "Memory:" at boot).
constexpr std::uint64_t kKernelKib = 46 * 1024;
// Linux, mm/page_alloc.c: min_free_kbytes = 4 sqrt(lowmem KiB), from 128 KiB to 256 MiB; the low
// and high watermarks lie max(min/4, 0.1 % of the zone) apart. Choice: one zone, of the size at
// boot.
constexpr double kMinFreeLeast = 128;
constexpr double kMinFreeMost = 262'144;
constexpr double kWatermarkScale = 0.001;
// Linux, mm/khugepaged.c, set_recommended_min_free_kbytes: with transparent huge pages, which
// distributions enable, it is raised to 11 page blocks of 2 MiB for each zone, but to no more than
// 5 % of memory: 44 MiB with zones DMA and DMA32, the well-known 67584 KiB where memory reaches
// over 4 GiB. Seen in the lab: 28968 KiB at maxmem 640 MiB, 45052 KiB at 2048.
constexpr double kHugePagesKibPerZone = 11 * 2048;
constexpr double kHugePagesMost = 0.05;
constexpr double kDma32Kib = 4096.0 * 1024;
// Linux, sysctl_lowmem_reserve_ratio: a lower zone keeps 1/256 of what is in the zones above it for
// those who need low memory. MemAvailable does not count it.
constexpr double kLowmemReserve = 1.0 / 256;
// Choice: pages in use are found only by ageing the active list, which the allocating task does
// itself (direct reclaim). Cold ones are found by kswapd in time, on another CPU.
constexpr double kDirectReclaimKibPerS = 2.0 * 1024 * 1024;
// Choice: the active part of anonymous memory is walked through once a second.
constexpr double kActiveRoundsPerS = 1;
// Linux gives up after 16 rounds of reclaim without progress (MAX_RECLAIM_RETRIES), which takes
// tens to hundreds of milliseconds where there is nothing to scan. Choice: 200 ms.
constexpr std::int64_t kOomAfterUs = 200'000;
// Choice: a service manager's restart, and the program's own start.
constexpr std::int64_t kRestartMs = 2'000;
// Linux, mm/memcontrol.c, calculate_high_delay: whose group is over memory.high by the share x
// sleeps 64 x^2 s for each batch of 64 pages, at most 2 s, and not at all for under 10 ms.
constexpr double kBatchKib = 64 * kPageKib;
constexpr double kSleepFactorS = 64;
constexpr double kSleepMostS = 2;
constexpr double kSleepLeastS = 0.01;
// watcher/guest/brake.h: what the brake keeps available, at least and as a part of MemTotal.
constexpr double kBrakeMarginKib = 16 * 1024;
constexpr double kBrakeMarginShare = 1.0 / 16;
constexpr double kCeilingToleranceKib = 1'024;
// ESX samples which pages were touched within 30 s (Waldspurger, OSDI 2002).
constexpr double kSamplingS = 30;

std::uint64_t whole(double kib) {
    return kib <= 0 ? 0 : static_cast<std::uint64_t>(kib);
}

double number(std::uint64_t kib) {
    return static_cast<double>(kib);
}

}  // namespace

// ---- sets of pages ------------------------------------------------------------------------------

Guest::Pages Guest::Pages::take(double kib) {
    const double taken = std::clamp(kib, 0.0, size);
    if (taken <= 0) {
        return {};
    }
    const Pages part{taken, std::min(taken, out * (taken / size))};
    size -= part.size;
    out = std::clamp(out - part.out, 0.0, size);
    return part;
}

void Guest::Pages::add(const Pages& more) {
    size += more.size;
    out += more.out;
}

void Guest::Pages::push_out(double kib) {
    out = std::min(size, out + kib);
}

void Guest::Pages::pull_in(double kib) {
    out = std::max(0.0, out - kib);
}

// ---- sizes --------------------------------------------------------------------------------------

Guest::Guest(const GuestConfig& config, std::shared_ptr<const Trace> trace)
    : config_(config),
      trace_(std::move(trace)),
      overhead_kib_(config.static_max_kib / kDescriptorShare + config.static_max_kib / kHashShare +
                    kKernelKib) {
    const double at_boot = std::max(0.0, number(config_.static_max_kib) - number(overhead_kib_));
    const double over_4g = std::max(0.0, number(config_.static_max_kib) - kDma32Kib);
    const double huge_pages = kHugePagesKibPerZone * (over_4g > 0 ? 3 : 2);
    min_kib_ = std::max(std::clamp(4 * std::sqrt(at_boot), kMinFreeLeast, kMinFreeMost),
                        std::min(huge_pages, at_boot * kHugePagesMost));
    const double apart = std::max(min_kib_ / 4, at_boot * kWatermarkScale);
    low_kib_ = min_kib_ + apart;
    high_kib_ = low_kib_ + apart;
    reserve_kib_ = high_kib_ + (at_boot + over_4g) * kLowmemReserve;
    if (config_.brake) {
        brake_.emplace(std::nullopt);
    }
    const std::int64_t length = trace_->length_ms();
    const std::int64_t start = std::max<std::int64_t>(0, config_.start_at_ms);
    place_us_ = length > 0 ? start % length * 1000 : 0;
    stats_.swap_total_kib = config_.swap_kib;
    stats_.swap_free_kib = config_.swap_kib;
}

// In whole pages, as domains hold nothing else.
std::uint64_t Guest::size_for(double kib) const {
    const double pages = std::ceil((number(overhead_kib_) + kib) / kPageKib);
    return static_cast<std::uint64_t>(pages * kPageKib);
}

std::uint64_t Guest::ease_kib(std::int64_t trace_ms) const {
    return size_for(ease_total_kib(trace_->at(trace_ms)));
}

// The brake counts cache by half; here, to be sure, as memory in use.
double Guest::ease_total_kib(const Demand& demand) const {
    const double used = number(demand.anon_kib) + number(demand.cache_kib);
    const double braked = std::max(used + reserve_kib_ + kBrakeMarginKib,
                                   (used + reserve_kib_) / (1 - kBrakeMarginShare));
    return config_.brake ? braked : used + low_kib_;
}

std::uint64_t Guest::survival_kib(std::int64_t trace_ms) const {
    const Demand demand = trace_->at(trace_ms);
    return size_for(min_kib_ + std::max(0.0, number(demand.anon_kib) - number(config_.swap_kib)));
}

double Guest::used_kib() const {
    return active_.in() + inactive_.in() + hot_.in() + warm_.in() + cold_;
}

double Guest::swap_free() const {
    return std::max(0.0, number(config_.swap_kib) - active_.out - inactive_.out);
}

// ---- reclaim ------------------------------------------------------------------------------------

double Guest::evict_unused(double want) {
    const double cold = std::clamp(want, 0.0, cold_);
    cold_ -= cold;
    const double warm = std::clamp(want - cold, 0.0, warm_.in());
    warm_.push_out(warm);
    return cold + warm;
}

double Guest::evict_hot(double want) {
    const double hot = std::clamp(want, 0.0, hot_.in());
    hot_.push_out(hot);
    return hot;
}

double Guest::swap_out(Pages& pages, double want) {
    const double most = std::min(pages.in(), swap_free());
    const double written = std::clamp(want, 0.0, most);
    pages.push_out(written);
    return written;
}

// For a page that is read, be it of a file or from swap, Linux looks for one that is not in use:
// refaults tip its balance of file and anonymous pages (since 5.9), so that what sleeps goes to
// swap.
double Guest::room_for_reading(double want) {
    double room = std::max(0.0, managed_ - used_kib() - low_kib_);
    if (room < want) {
        room += evict_unused(want - room);
    }
    if (room < want && config_.swap_kib > 0) {
        room += swap_out(inactive_, want - room);
    }
    return std::clamp(managed_ - used_kib(), 0.0, std::min(room, want));
}

// ---- a step -------------------------------------------------------------------------------------

void Guest::step(std::int64_t dt_ms, std::uint64_t pages_kib) {
    if (dt_ms <= 0) {
        return;
    }
    begin(dt_ms, pages_kib);
    if (run_ == Run::running) {
        work(demand_at_end(dt_ms), dt_ms);
    } else {
        if (run_ == Run::restarting) {
            stats_.stalled_us += static_cast<std::uint64_t>(dt_ms) * 1000;
        }
        rest();
    }
    show();
    if (brake_) {
        look_at_brake();
    }
}

// Takes note of the size, lets kswapd follow it, and of what begins to run with this step.
void Guest::begin(std::int64_t dt_ms, std::uint64_t pages_kib) {
    const double managed = std::max(0.0, number(pages_kib) - number(overhead_kib_));
    managed_ = managed;
    const double over = used_kib() + low_kib_ - managed_;
    if (over > 0) {
        evict_hot(over - evict_unused(over));
    }
    const bool starts = run_ == Run::idle && stats_.uptime_ms >= config_.idle_until_ms;
    const bool restarts = run_ == Run::restarting && stats_.uptime_ms >= restart_ms_;
    if (starts || restarts) {
        run_ = Run::running;
    }
    stats_.uptime_ms += dt_ms;
}

// What is asked for by the end of the step, if nothing stalls.
Demand Guest::demand_at_end(std::int64_t dt_ms) {
    std::int64_t at_ms = place_us_ / 1000 + dt_ms;
    const std::int64_t length = trace_->length_ms();
    if (at_ms >= length && length > 0 && config_.repeat) {
        at_ms %= length;
    }
    return trace_->at(at_ms, row_);
}

// The workload does not run: it holds nothing and wants nothing. The page cache stays.
void Guest::rest() {
    active_ = {};
    inactive_ = {};
    resize_hot_set(0);
    demand_ = {};
    stats_.stalls_now = run_ == Run::restarting;
    stats_.lacks_kib = 0;
}

void Guest::work(const Demand& demand, std::int64_t dt_ms) {
    const double seconds = static_cast<double>(dt_ms) / 1000;
    const std::int64_t dt_us = dt_ms * 1000;
    demand_ = demand;
    demand_.active_kib = std::min(demand.active_kib, demand.anon_kib);
    settle_anon(demand_);
    resize_hot_set(number(demand_.cache_kib));
    const Wait wait = allocate(demand_, seconds);
    // Of what allocating leaves of the step, each second of work costs that many seconds of disk.
    const double left_s = std::max(0.0, seconds - wait.seconds) * (1 - wait.refused);
    const double worked_s = left_s / (1 + lost_per_second(demand_));
    read_back(demand_, worked_s);
    read_files(demand_, seconds, worked_s);

    const std::int64_t work_us = std::clamp(std::llround(worked_s * 1e6), 0LL, dt_us + 0LL);
    bear(wait, dt_us - work_us);
    advance(work_us);
}

// What was lost, and how much more size would have spared it.
void Guest::bear(const Wait& wait, std::int64_t stalled_us) {
    const auto lost_us = static_cast<std::uint64_t>(stalled_us);
    stats_.stalled_us += lost_us;
    stats_.some_us += lost_us;
    stats_.full_us += lost_us;
    stats_.stalls_now = stalled_us > 0;
    const double ease = ease_total_kib(demand_);
    stats_.lacks_kib = stats_.stalls_now ? whole(std::ceil(ease - managed_)) : 0;

    vain_us_ = wait.in_vain ? vain_us_ + stalled_us : 0;
    if (vain_us_ >= kOomAfterUs) {
        kill();
    }
}

void Guest::kill() {
    ++stats_.oom_kills;
    run_ = Run::restarting;
    restart_ms_ = stats_.uptime_ms + kRestartMs;
    place_us_ = 0;
    vain_us_ = 0;
    asleep_s_ = 0;
    active_ = {};
    inactive_ = {};
}

void Guest::advance(std::int64_t work_us) {
    worked_us_ += work_us;
    stats_.worked_ms = worked_us_ / 1000;
    const std::int64_t length_us = trace_->length_ms() * 1000;
    if (run_ != Run::running || length_us == 0) {
        return;
    }
    place_us_ += work_us;
    if (place_us_ < length_us) {
        return;
    }
    if (config_.repeat) {
        place_us_ %= length_us;
        return;
    }
    worked_us_ -= place_us_ - length_us;
    stats_.worked_ms = worked_us_ / 1000;
    place_us_ = length_us;
    run_ = Run::ended;
}

// ---- anonymous memory ---------------------------------------------------------------------------

// Gives back what is no longer asked for; what is neither new nor gone may become active or not.
void Guest::settle_anon(const Demand& demand) {
    const double active = number(demand.active_kib);
    const double inactive = number(demand.anon_kib - demand.active_kib);
    const double cooling = std::min(active_.size - active, inactive - inactive_.size);
    if (cooling > 0) {
        inactive_.add(active_.take(cooling));
    }
    const double warming = std::min(inactive_.size - inactive, active - active_.size);
    if (warming > 0) {
        active_.add(inactive_.take(warming));
    }
    if (active_.size > active) {
        (void)active_.take(active_.size - active);
    }
    if (inactive_.size > inactive) {
        (void)inactive_.take(inactive_.size - inactive);
    }
}

// Takes `want` as far as there is room; what goes to the active part first.
void Guest::take_anon(const Demand& demand, double want) {
    const double active = std::clamp(number(demand.active_kib) - active_.size, 0.0, want);
    active_.size += active;
    inactive_.size += want - active;
}

Guest::Wait Guest::allocate(const Demand& demand, double seconds) {
    Wait wait = sleep_on(seconds);
    const double missing = std::max(0.0, number(demand.anon_kib) - active_.size - inactive_.size);
    double want =
        std::min(missing, number(config_.alloc_kib_per_s) * std::max(0.0, seconds - wait.seconds));
    if (want > 0 && brake_) {
        want = slowed(want, seconds, wait);
    }
    double room = managed_ - used_kib() - min_kib_;
    if (room >= want) {
        if (want > 0) {
            take_anon(demand, want);
        }
        return wait;
    }
    const double unused = evict_unused(want - room);
    const double hot = evict_hot(want - room - unused);
    double write = std::min(want - room - unused - hot, number(config_.disk_kib_per_s) * seconds);
    double written = swap_out(inactive_, write);
    written += swap_out(active_, write - written);
    const double freed = unused + hot + written;
    room += freed;

    const double granted = std::clamp(room, 0.0, want);
    take_anon(demand, granted);
    wait.seconds +=
        hot / kDirectReclaimKibPerS + (written > 0 ? written / number(config_.disk_kib_per_s) : 0);
    if (room < want) {
        wait.refused = want > 0 ? 1 - granted / want : 1;
        wait.in_vain = freed <= 0;
    }
    return wait;
}

// ---- the brake ----------------------------------------------------------------------------------

// A sleep that has begun is slept to its end.
Guest::Wait Guest::sleep_on(double seconds) {
    Wait wait;
    wait.seconds = std::min(asleep_s_, seconds);
    asleep_s_ -= wait.seconds;
    return wait;
}

// What of `want` the workload gets to touch in the rest of the step, batch by batch, as it is put
// to sleep after each that is over the limit. Before that, its group gives up the page cache that
// it can. The workload and what it reads are all there is in the group.
double Guest::slowed(double want, double seconds, Wait& wait) {
    if (!brake_->limit_kib()) {
        return want;
    }
    const double limit = std::max(1.0, number(*brake_->limit_kib()));
    const double over = used_kib() + want - limit;
    if (over > 0) {
        const double unused = evict_unused(over);
        const double hot = evict_hot(over - unused);
        wait.seconds += hot / kDirectReclaimKibPerS;
        high_events_ += std::max<std::uint64_t>(1, whole(over / kBatchKib));
    }
    double done = 0;
    while (done < want && wait.seconds < seconds) {
        done = std::min(want, done + kBatchKib);
        const double excess = std::max(0.0, (used_kib() + done - limit) / limit);
        const double sleep = std::min(kSleepMostS, kSleepFactorS * excess * excess);
        if (sleep >= kSleepLeastS) {
            asleep_s_ = std::max(0.0, wait.seconds + sleep - seconds);
            wait.seconds = std::min(seconds, wait.seconds + sleep);
        }
    }
    return done;
}

// xenpack-guest sets the limit anew.
void Guest::look_at_brake() {
    const bool at_ceiling =
        number(overhead_kib_) + managed_ + kCeilingToleranceKib >= number(config_.static_max_kib);
    brake_->look({static_cast<std::uint64_t>(stats_.uptime_ms),
                  {stats_.total_kib, stats_.free_kib, stats_.available_kib, stats_.swap_total_kib,
                   stats_.swap_free_kib},
                  whole(used_kib()),
                  whole(used_kib()),
                  high_events_,
                  at_ceiling ? guest::Ceiling::reached : guest::Ceiling::room});
}

// ---- files and swap -----------------------------------------------------------------------------

void Guest::resize_hot_set(double size) {
    if (size < hot_size_) {
        warm_.add(hot_.take(hot_.size * ((hot_size_ - size) / hot_size_)));
    } else if (size > hot_size_ && warm_.size > 0) {
        hot_.add(warm_.take(size - hot_size_));
    }
    hot_size_ = size;
}

// Seconds of disk for each second of work: of the hot set and of active anonymous memory, the
// missing share is hit as often as it is a share of what is touched.
double Guest::lost_per_second(const Demand& demand) const {
    if (hot_.out <= 0 && active_.out <= 0) {
        return 0;
    }
    const double refaults =
        hot_size_ > 0 ? number(demand.read_kib_per_s) * (hot_.out / hot_size_) : 0;
    const double swap_ins = active_.out * kActiveRoundsPerS;
    return (refaults + swap_ins) / number(std::max<std::uint64_t>(1, config_.disk_kib_per_s));
}

void Guest::read_back(const Demand& demand, double worked_s) {
    if (active_.out > 0) {
        const double read = std::min(active_.out, active_.out * kActiveRoundsPerS * worked_s);
        double room = room_for_reading(read);
        room += evict_hot(read - room);
        active_.pull_in(room);
        swapped_in_ += read;
        stats_.swap_ins = whole(swapped_in_ / kPageKib);
    }
    if (hot_.out > 0 && hot_size_ > 0) {
        const double read = number(demand.read_kib_per_s) * (hot_.out / hot_size_) * worked_s;
        hot_.pull_in(room_for_reading(std::min(read, hot_.out)));
        refaulted_ += read;
        stats_.refaults = whole(refaulted_ / kPageKib);
    }
}

// What of the hot set was never read is read as quickly as the disk allows. Where there is no room
// it is read all the same and evicted at once. The stream takes what is free, and then its own.
void Guest::read_files(const Demand& demand, double seconds, double worked_s) {
    const double unread = std::min(hot_size_ - hot_.size, number(config_.disk_kib_per_s) * seconds);
    if (unread > 0) {
        const double room = room_for_reading(unread);
        hot_.add({unread, unread - room});
    }
    if (demand.stream_kib_per_s > 0) {
        const double room = std::max(0.0, managed_ - used_kib() - low_kib_);
        cold_ += std::min(room, number(demand.stream_kib_per_s) * worked_s);
    }
}

// ---- what the kernel shows ----------------------------------------------------------------------

void Guest::show() {
    const double files = hot_.in() + warm_.in() + cold_;
    const double free = std::max(0.0, managed_ - active_.in() - inactive_.in() - files);
    // Linux, si_mem_available(): free pages but for the high watermark and what lower zones keep,
    // and file pages but for the low watermark or half of them. Choice: no slab.
    const double available = free - reserve_kib_ + files - std::min(files / 2, low_kib_);
    stats_.total_kib = whole(managed_);
    stats_.free_kib = whole(free);
    stats_.available_kib = std::min(stats_.total_kib, whole(available));
    stats_.cached_kib = whole(files);
    stats_.committed_kib = std::max(whole(active_.size + inactive_.size), demand_.anon_kib);
    const double touched = active_.in() +
                           std::min(hot_.in(), number(demand_.read_kib_per_s) * kSamplingS) +
                           std::min(cold_, number(demand_.stream_kib_per_s) * kSamplingS);
    stats_.active_kib = std::min(stats_.total_kib, whole(touched));
    stats_.swap_free_kib = whole(swap_free());
}

}  // namespace xenpack::sim
