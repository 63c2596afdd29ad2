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
// Choice: code, data and early allocations of a distribution's kernel; `dmesg` of Debian 12 on a
// small guest shows 14 to 20 MiB reserved beside the descriptors.
constexpr std::uint64_t kKernelKib = 16 * 1024;
// Linux, mm/page_alloc.c: min_free_kbytes = 4 sqrt(lowmem KiB), from 128 KiB to 256 MiB; the low
// and high watermarks lie max(min/4, 0.1 % of the zone) apart. Choice: one zone, of the size at
// boot.
constexpr double kMinFreeLeast = 128;
constexpr double kMinFreeMost = 262'144;
constexpr double kWatermarkScale = 0.001;
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
// watcher/guest/brake.h: the brake is lifted when it held in vain for so long, MemTotal not having
// grown; at its ceiling the zone is not made to wait that long.
constexpr std::int64_t kBrakeDeadlineMs = 10'000;
constexpr std::int64_t kCeilingSettleMs = 3'000;
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
      overhead_kib_(config.static_max_kib / kDescriptorShare + kKernelKib) {
    const double at_boot = std::max(0.0, number(config_.static_max_kib) - number(overhead_kib_));
    min_kib_ = std::clamp(4 * std::sqrt(at_boot), kMinFreeLeast, kMinFreeMost);
    const double apart = std::max(min_kib_ / 4, at_boot * kWatermarkScale);
    low_kib_ = min_kib_ + apart;
    high_kib_ = low_kib_ + apart;
    const std::int64_t length = trace_->length_ms();
    const std::int64_t start = std::max<std::int64_t>(0, config_.start_at_ms);
    place_us_ = length > 0 ? start % length * 1000 : 0;
    stats_.swap_total_kib = config_.swap_kib;
    stats_.swap_free_kib = config_.swap_kib;
}

std::uint64_t Guest::size_for(double kib) const {
    return overhead_kib_ + static_cast<std::uint64_t>(std::ceil(kib));
}

std::uint64_t Guest::ease_kib(std::int64_t trace_ms) const {
    const Demand demand = trace_->at(trace_ms);
    return size_for(low_kib_ + number(demand.anon_kib) + number(demand.cache_kib));
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
    return std::min(room, want);
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
}

// Takes note of the size, lets kswapd follow it, and of what begins to run with this step.
void Guest::begin(std::int64_t dt_ms, std::uint64_t pages_kib) {
    const double managed = std::max(0.0, number(pages_kib) - number(overhead_kib_));
    if (managed > managed_) {
        grown_ms_ = stats_.uptime_ms;
    }
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
    const double ease = low_kib_ + number(demand_.anon_kib) + number(demand_.cache_kib);
    stats_.lacks_kib = stats_.stalls_now ? whole(std::ceil(ease - managed_)) : 0;

    vain_us_ = wait.in_vain ? vain_us_ + stalled_us : 0;
    if (vain_us_ < kOomAfterUs) {
        held_ms_ = -1;
    } else if (!config_.brake || held_too_long()) {
        kill();
    }
}

// Once the brake is lifted, the OOM killer ends the workload; the next one is braked again.
bool Guest::held_too_long() {
    held_ms_ = held_ms_ < 0 ? stats_.uptime_ms : held_ms_;
    const bool at_ceiling =
        number(overhead_kib_) + managed_ + kCeilingToleranceKib >= number(config_.static_max_kib);
    const std::int64_t patience_ms = at_ceiling ? kCeilingSettleMs : kBrakeDeadlineMs;
    return stats_.uptime_ms >= std::max(held_ms_, grown_ms_) + patience_ms;
}

void Guest::kill() {
    ++stats_.oom_kills;
    run_ = Run::restarting;
    restart_ms_ = stats_.uptime_ms + kRestartMs;
    place_us_ = 0;
    vain_us_ = 0;
    held_ms_ = -1;
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

Guest::Wait Guest::allocate(const Demand& demand, double seconds) {
    const double missing = std::max(0.0, number(demand.anon_kib) - active_.size - inactive_.size);
    const double want = std::min(missing, number(config_.alloc_kib_per_s) * seconds);
    double room = managed_ - used_kib() - min_kib_;
    if (room >= want) {
        if (want > 0) {
            const double active = std::clamp(number(demand.active_kib) - active_.size, 0.0, want);
            active_.size += active;
            inactive_.size += want - active;
        }
        return {};
    }
    const double unused = evict_unused(want - room);
    const double hot = evict_hot(want - room - unused);
    double write = std::min(want - room - unused - hot, number(config_.disk_kib_per_s) * seconds);
    double written = swap_out(inactive_, write);
    written += swap_out(active_, write - written);
    const double freed = unused + hot + written;
    room += freed;

    const double granted = std::clamp(room, 0.0, want);
    const double active = std::clamp(number(demand.active_kib) - active_.size, 0.0, granted);
    active_.size += active;
    inactive_.size += granted - active;
    Wait wait;
    wait.seconds =
        hot / kDirectReclaimKibPerS + (written > 0 ? written / number(config_.disk_kib_per_s) : 0);
    if (room < want) {
        wait.refused = want > 0 ? 1 - granted / want : 1;
        wait.in_vain = freed <= 0;
    }
    return wait;
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
    // Linux, si_mem_available(): free pages but for the high watermark, and file pages but for the
    // low watermark or half of them. Choice: no slab.
    const double available = free - high_kib_ + files - std::min(files / 2, low_kib_);
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
