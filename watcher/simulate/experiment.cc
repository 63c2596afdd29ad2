// SPDX-License-Identifier: LGPL-2.1-or-later
// One run in virtual time: zones start one after another, then all of them are watched.
#include "watcher/simulate/experiment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

namespace xenpack::simulate {
namespace {

// A start that finds no room for so long is refused.
constexpr std::int64_t kStartPatienceMs = 60'000;
// Between two starts: from one to three seconds, by the seed.
constexpr std::int64_t kStartGapMs = 1'000;
constexpr std::uint64_t kStartGapSpreadMs = 2'000;
// A guest boots for so long before its workload begins.
constexpr std::int64_t kBootMs = 5'000;
// In its first seconds a workload asks for all at once that its place in the trace says, as no
// program does that starts. Who is killed in them is not counted.
constexpr std::int64_t kSettledMs = kBootMs + 10'000;
// Stall time, memory and changes are counted from so long after the last start (at most from a
// fifth of the run): before that, caches are cold and sizes are what they were at the start.
// Kills and refusals count from the beginning.
constexpr std::int64_t kWarmUpMs = 60'000;
constexpr std::int64_t kSampleMs = 1'000;
// A stall is over when there was none for so long: one that flickers is one.
constexpr std::int64_t kStallGapMs = 1'000;

// The stall of one zone that more memory would end.
class StallWatch {
  public:
    // After each step. Adds to `grants` how long a stall that is over, or served, had lasted.
    void step(const sim::Domain& domain, std::int64_t now_ms, std::int64_t dt_ms,
              std::vector<std::int64_t>& grants) {
        const sim::GuestStats& stats = domain.guest.stats();
        const bool lacks = stats.stalls_now && stats.lacks_kib > 0;
        if (open_ && domain.current_kib >= wanted_kib_) {
            grants.push_back(now_ms - since_ms_);
            open_ = false;
        } else if (open_ && !lacks && now_ms - last_ms_ >= kStallGapMs) {
            close(grants);
        }
        if (!lacks) {
            return;
        }
        if (!open_) {
            open_ = true;
            since_ms_ = now_ms - dt_ms;
            wanted_kib_ = domain.current_kib + stats.lacks_kib;
        }
        last_ms_ = now_ms;
    }
    // It ended by itself, or the run did.
    void close(std::vector<std::int64_t>& grants) {
        if (open_) {
            grants.push_back(last_ms_ - since_ms_);
        }
        open_ = false;
    }

  private:
    bool open_ = false;
    std::int64_t since_ms_ = 0;
    std::int64_t last_ms_ = 0;
    std::uint64_t wanted_kib_ = 0;
};

// A workload begins at a quiet point of its trace, as it would after a boot, and not in the midst
// of a peak: the row of least demand in the eighth of the trace that follows a random point.
std::int64_t quiet_start_ms(const sim::Trace& trace, std::uint64_t random) {
    const std::int64_t length = trace.length_ms();
    if (length <= 0) {
        return 0;
    }
    const auto from = static_cast<std::int64_t>(random % static_cast<std::uint64_t>(length));
    std::int64_t best = from;
    const sim::Demand first = trace.at(from);
    std::uint64_t least = first.anon_kib + first.cache_kib;
    auto row = std::lower_bound(
        trace.rows.begin(), trace.rows.end(), from,
        [](const sim::TraceRow& each, std::int64_t ms) { return each.at_ms < ms; });
    for (; row != trace.rows.end() && row->at_ms < from + length / 8; ++row) {
        const std::uint64_t wants = row->demand.anon_kib + row->demand.cache_kib;
        if (wants < least) {
            least = wants;
            best = row->at_ms;
        }
    }
    return best;
}

struct Zone {
    sim::Domain* domain = nullptr;
    StallWatch watch;
    // As they were when measuring began, or at the last sample.
    std::uint64_t stalled_us_before = 0;
    std::uint64_t stalled_us_sampled = 0;
    std::int64_t worked_ms_before = 0;
    std::uint64_t kills_before = 0;  // it settled
};

// Says of a run's outcome so far that nobody needs the rest. `measured_ms` is how long it will be.
using Hopeless = std::function<bool(const Outcome& so_far, std::int64_t measured_ms)>;

class Run {
  public:
    Run(const Setup& setup, Policy& policy)
        : setup_(setup), policy_(policy), host_(setup.host), random_(setup.seed) {
        const std::int64_t warm_up = std::min(kWarmUpMs, setup.duration_ms / 5);
        measured_ms_ = setup.duration_ms - warm_up;
        plan_next();
    }

    Outcome finish(const Hopeless& hopeless) {
        while (asked_ < setup_.zones || host_.now_ms() < last_start_ms_ + setup_.duration_ms) {
            if (asked_ < setup_.zones && host_.now_ms() >= next_start_ms_) {
                try_start();
            }
            policy_.step(host_, host_.now_ms());
            host_.step(setup_.step_ms);
            observe();
            if (host_.now_ms() % kSampleMs < setup_.step_ms) {
                add_up();
                sample();
                tell();
                if (hopeless && hopeless(outcome_, measured_ms_)) {
                    break;
                }
            }
        }
        close();
        return std::move(outcome_);
    }

  private:
    // Each start is a while after the one before, however long that may have to wait.
    void tell() const {
        if (!setup_.progress) {
            return;
        }
        const std::int64_t now_ms = host_.now_ms();
        const std::int64_t to_start_ms =
            (setup_.zones - asked_) * (kStartGapMs + kStartGapSpreadMs / 2);
        const std::int64_t last_start_ms = to_start_ms > 0 ? now_ms + to_start_ms : last_start_ms_;
        const auto end_ms = static_cast<double>(last_start_ms + setup_.duration_ms);
        setup_.progress(setup_.zones, std::min(static_cast<double>(now_ms) / end_ms, 1.0));
    }

    void plan_next() {
        if (asked_ >= setup_.zones) {
            return;
        }
        next_trace_ = setup_.traces[asked_ % setup_.traces.size()];
        next_place_ms_ = quiet_start_ms(*next_trace_, random_());
        next_start_ms_ =
            host_.now_ms() + kStartGapMs + static_cast<std::int64_t>(random_() % kStartGapSpreadMs);
    }

    void try_start() {
        const std::int64_t now = host_.now_ms();
        // Asked at each try: a policy may start a zone smaller where there is less.
        sim::DomainConfig config = policy_.zone_config(next_trace_->peak_kib());
        config.guest.static_max_kib = config.max_memory_kib;
        config.guest.swap_kib = setup_.swap_kib;
        config.guest.start_at_ms = next_place_ms_;
        config.guest.idle_until_ms = kBootMs;
        sim::Domain* domain = nullptr;
        if (policy_.make_room(host_, sim::Host::start_cost_kib(config))) {
            domain = host_.create(config, next_trace_);
        }
        if (domain != nullptr) {
            zones_.emplace_back().domain = domain;
            outcome_.follows.push_back(asked_ % setup_.traces.size());
            ++outcome_.zones_started;
            policy_.zone_started(*domain, now);
        } else if (now - next_start_ms_ >= kStartPatienceMs) {
            ++outcome_.zones_refused;
        } else {
            return;
        }
        ++asked_;
        last_start_ms_ = now;
        plan_next();
    }

    void begin_measuring() {
        measures_ = true;
        changes_before_ = policy_.target_changes();
        for (Zone& zone : zones_) {
            zone.stalled_us_before = zone.domain->guest.stats().stalled_us;
            zone.worked_ms_before = zone.domain->guest.stats().worked_ms;
        }
    }

    void observe() {
        const std::int64_t since_last_start = host_.now_ms() - last_start_ms_;
        if (!measures_ && asked_ == setup_.zones &&
            since_last_start > setup_.duration_ms - measured_ms_) {
            begin_measuring();
        }
        if (!measures_) {
            return;
        }
        for (Zone& zone : zones_) {
            zone.watch.step(*zone.domain, host_.now_ms(), setup_.step_ms,
                            outcome_.stall_to_grant_ms);
            held_kib_ += static_cast<double>(zone.domain->current_kib);
        }
        ++steps_;
        outcome_.zone_ms += zones_.size() * static_cast<std::uint64_t>(setup_.step_ms);
    }

    // What the guests have counted themselves.
    void add_up() {
        std::uint64_t stalled_us = 0;
        std::uint64_t kills = 0;
        std::int64_t worked_ms = 0;
        for (Zone& zone : zones_) {
            const sim::GuestStats& stats = zone.domain->guest.stats();
            if (stats.uptime_ms <= kSettledMs) {
                zone.kills_before = stats.oom_kills;
            }
            kills += stats.oom_kills - zone.kills_before;
            stalled_us += stats.stalled_us - zone.stalled_us_before;
            worked_ms += stats.worked_ms - zone.worked_ms_before;
        }
        outcome_.oom_kills = kills;
        if (measures_) {
            outcome_.stalled_ms = stalled_us / 1000;
            outcome_.worked_ms = static_cast<std::uint64_t>(worked_ms);
        }
    }

    // Once a second: what needs no finer steps, and a row for the drawing.
    void sample() {
        if (measures_) {
            for (const Zone& zone : zones_) {
                const sim::Guest& guest = zone.domain->guest;
                ease_kib_ += static_cast<double>(guest.ease_kib(guest.trace_ms()));
            }
            ++seconds_;
        }
        if (setup_.sample) {
            keep_sample();
        }
    }

    void keep_sample() {
        Sample kept;
        kept.at_ms = host_.now_ms();
        kept.free_kib = host_.free_kib();
        for (Zone& zone : zones_) {
            const sim::Guest& guest = zone.domain->guest;
            kept.current_kib.push_back(zone.domain->current_kib);
            kept.target_kib.push_back(zone.domain->target_kib);
            kept.oom_kills.push_back(guest.stats().oom_kills);
            kept.ease_kib.push_back(guest.ease_kib(guest.trace_ms()));
            kept.stalled_us.push_back(guest.stats().stalled_us - zone.stalled_us_sampled);
            zone.stalled_us_sampled = guest.stats().stalled_us;
        }
        outcome_.samples.push_back(std::move(kept));
    }

    void close() {
        add_up();
        for (Zone& zone : zones_) {
            zone.watch.close(outcome_.stall_to_grant_ms);
        }
        outcome_.target_changes = measures_ ? policy_.target_changes() - changes_before_ : 0;
        outcome_.mean_held_kib = steps_ == 0 ? 0 : held_kib_ / static_cast<double>(steps_);
        outcome_.mean_ease_kib = seconds_ == 0 ? 0 : ease_kib_ / static_cast<double>(seconds_);
    }

    const Setup& setup_;
    Policy& policy_;
    sim::Host host_;
    std::mt19937_64 random_;
    std::vector<Zone> zones_;
    Outcome outcome_;

    unsigned asked_ = 0;  // zones started or refused
    std::shared_ptr<const sim::Trace> next_trace_;
    std::int64_t next_place_ms_ = 0;  // in its trace
    std::int64_t next_start_ms_ = 0;
    std::int64_t last_start_ms_ = 0;

    bool measures_ = false;
    std::int64_t measured_ms_ = 0;
    std::uint64_t changes_before_ = 0;
    double held_kib_ = 0;
    std::uint64_t steps_ = 0;
    double ease_kib_ = 0;
    std::uint64_t seconds_ = 0;
};

bool good(const Outcome& outcome, unsigned zones, double stall_budget) {
    return outcome.zones_started == zones && outcome.oom_kills == 0 &&
           outcome.stalled_share() <= stall_budget;
}

// Whether that many zones do, by every seed; then `first` is the outcome of the first.
bool fits(Setup& setup, unsigned zones, MakePolicy make, double stall_budget,
          const std::vector<std::uint64_t>& seeds, Outcome& first) {
    setup.zones = zones;
    const Hopeless hopeless = [&](const Outcome& so_far, std::int64_t measured_ms) {
        const double budget_ms = stall_budget * zones * static_cast<double>(measured_ms);
        return so_far.zones_refused > 0 || so_far.oom_kills > 0 ||
               static_cast<double>(so_far.stalled_ms) > budget_ms;
    };
    for (const std::uint64_t seed : seeds) {
        setup.seed = seed;
        const std::unique_ptr<Policy> policy = make();
        Outcome outcome = Run(setup, *policy).finish(hopeless);
        if (!good(outcome, zones, stall_budget)) {
            return false;
        }
        if (seed == seeds.front()) {
            first = std::move(outcome);
        }
    }
    return true;
}

}  // namespace

std::optional<std::int64_t> Outcome::stall_to_grant_percentile_ms(double share) const {
    if (stall_to_grant_ms.empty()) {
        return std::nullopt;
    }
    std::vector<std::int64_t> values = stall_to_grant_ms;
    const auto rank =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    const std::size_t at = std::clamp<std::size_t>(rank, 1, values.size()) - 1;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at),
                     values.end());
    return values[at];
}

Outcome run(const Setup& setup, Policy& policy) {
    return Run(setup, policy).finish(nullptr);
}

Capacity capacity(Setup setup, MakePolicy make, double stall_budget,
                  const std::vector<std::uint64_t>& seeds, unsigned most) {
    Capacity best;
    unsigned too_many = most + 1;
    // Doubles as long as it fits, then halves the gap.
    for (unsigned next = 1; best.zones + 1 < too_many;) {
        Outcome outcome;
        if (fits(setup, next, make, stall_budget, seeds, outcome)) {
            best = {next, std::move(outcome)};
        } else {
            too_many = next;
        }
        const bool found_limit = too_many <= most;
        next =
            found_limit ? best.zones + (too_many - best.zones) / 2 : std::min(best.zones * 2, most);
    }
    return best;
}

}  // namespace xenpack::simulate
