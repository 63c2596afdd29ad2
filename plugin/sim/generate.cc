// SPDX-License-Identifier: LGPL-2.1-or-later
// Generate: traces from a few figures and a seed. Called by experiments, benchmarks and tests.
// It must not use the standard library's distributions or libm: they differ between machines.
#include "plugin/sim/generate.h"

#include <algorithm>
#include <utility>

namespace xenpack::sim {

namespace {

// A task cannot start or end in no time; a step in a trace takes this long.
constexpr std::int64_t kEdgeMs = 20;
// Rows of a day: one for each quarter of an hour.
constexpr std::int64_t kDayRows = 96;

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): any seed is a good one.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9E3779B97F4A7C15U;
        std::uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
        return mixed ^ (mixed >> 31U);
    }
    // Evenly from [least, most].
    std::uint64_t from(std::uint64_t least, std::uint64_t most) {
        return most <= least ? least : least + next() % (most - least + 1);
    }
    // From half to one and a half of it.
    std::uint64_t around(std::uint64_t mean) { return from(mean / 2, mean + mean / 2); }
    std::int64_t around_ms(std::int64_t mean) {
        return static_cast<std::int64_t>(
            around(static_cast<std::uint64_t>(std::max<std::int64_t>(0, mean))));
    }

  private:
    std::uint64_t state_;
};

// Memory that is taken evenly, held, and given back.
struct Pulse {
    std::int64_t start_ms = 0;
    std::int64_t rise_ms = kEdgeMs;
    std::int64_t hold_ms = 0;
    std::uint64_t kib = 0;

    [[nodiscard]] std::int64_t full_ms() const { return start_ms + rise_ms; }
    [[nodiscard]] std::int64_t fall_ms() const { return full_ms() + hold_ms; }
    [[nodiscard]] std::int64_t end_ms() const { return fall_ms() + kEdgeMs; }
    [[nodiscard]] std::uint64_t at(std::int64_t ms) const {
        if (ms <= start_ms || ms >= end_ms()) {
            return 0;
        }
        if (ms < full_ms()) {
            return kib * static_cast<std::uint64_t>(ms - start_ms) /
                   static_cast<std::uint64_t>(rise_ms);
        }
        if (ms <= fall_ms()) {
            return kib;
        }
        return kib * static_cast<std::uint64_t>(end_ms() - ms) / kEdgeMs;
    }
};

std::int64_t time_for(std::uint64_t kib, std::uint64_t kib_per_s) {
    if (kib_per_s == 0) {
        return kEdgeMs;
    }
    return std::max(kEdgeMs, static_cast<std::int64_t>(kib * 1000 / kib_per_s));
}

Demand blend(const Demand& from, const Demand& to, double share) {
    const auto mix = [share](std::uint64_t a, std::uint64_t b) {
        const double from_kib = static_cast<double>(a);
        const double mixed = from_kib + (static_cast<double>(b) - from_kib) * share;
        return mixed <= 0 ? 0 : static_cast<std::uint64_t>(mixed);
    };
    Demand demand{mix(from.anon_kib, to.anon_kib), mix(from.active_kib, to.active_kib),
                  mix(from.cache_kib, to.cache_kib), mix(from.read_kib_per_s, to.read_kib_per_s),
                  mix(from.stream_kib_per_s, to.stream_kib_per_s)};
    demand.active_kib = std::min(demand.active_kib, demand.anon_kib);
    return demand;
}

// A trace of `base` plus the pulses, which are touched while they are held. It has rows where a
// pulse changes, and at the `corners`.
std::vector<TraceRow> with_pulses(const Demand& base, std::vector<Pulse> pulses,
                                  std::int64_t length_ms, std::vector<std::int64_t> corners = {}) {
    std::sort(pulses.begin(), pulses.end(),
              [](const Pulse& a, const Pulse& b) { return a.start_ms < b.start_ms; });
    corners.insert(corners.end(), {0, std::max<std::int64_t>(1, length_ms)});
    for (const Pulse& pulse : pulses) {
        for (const std::int64_t at_ms :
             {pulse.start_ms, pulse.full_ms(), pulse.fall_ms(), pulse.end_ms()}) {
            if (at_ms > 0 && at_ms < length_ms) {
                corners.push_back(at_ms);
            }
        }
    }
    std::sort(corners.begin(), corners.end());
    corners.erase(std::unique(corners.begin(), corners.end()), corners.end());

    std::vector<TraceRow> rows;
    rows.reserve(corners.size());
    std::vector<Pulse> open;
    std::size_t next = 0;
    for (const std::int64_t at_ms : corners) {
        for (; next < pulses.size() && pulses[next].start_ms <= at_ms; ++next) {
            open.push_back(pulses[next]);
        }
        std::erase_if(open, [at_ms](const Pulse& pulse) { return pulse.end_ms() <= at_ms; });
        Demand demand = base;
        for (const Pulse& pulse : open) {
            demand.anon_kib += pulse.at(at_ms);
            demand.active_kib += pulse.at(at_ms);
        }
        rows.push_back({at_ms, demand});
    }
    return rows;
}

}  // namespace

Trace bursts(const Bursts& shape) {
    Random random(shape.seed);
    std::vector<Pulse> pulses;
    std::int64_t start_ms = random.around_ms(shape.gap_ms) / 2;
    while (start_ms < shape.length_ms) {
        Pulse pulse;
        pulse.start_ms = start_ms;
        pulse.kib = random.around(shape.burst_kib);
        pulse.rise_ms = time_for(pulse.kib, shape.rate_kib_per_s);
        pulse.hold_ms = random.around_ms(shape.hold_ms);
        pulses.push_back(pulse);
        start_ms += std::max(2 * kEdgeMs, random.around_ms(shape.gap_ms));
    }
    return {"bursts",
            fmt::format("generated: bursts of about {} MiB at {} MiB/s for {} ms, one each {} ms, "
                        "seed {}",
                        shape.burst_kib / 1024, shape.rate_kib_per_s / 1024, shape.hold_ms,
                        shape.gap_ms, shape.seed),
            with_pulses(shape.base, std::move(pulses), shape.length_ms)};
}

Trace day(const Day& shape) {
    Random random(shape.seed);
    Trace trace{"day",
                fmt::format("generated: a day in {} ms, off by {} % at most, seed {}",
                            shape.length_ms, shape.uneven_percent, shape.seed),
                {}};
    const std::uint64_t uneven = std::min(shape.uneven_percent, 50U) * 10ULL;
    std::int64_t before_ms = -1;
    for (std::int64_t i = 0; i <= kDayRows; ++i) {
        const std::int64_t at_ms = shape.length_ms * i / kDayRows;
        if (at_ms <= before_ms) {
            continue;
        }
        before_ms = at_ms;
        const std::int64_t from_midnight = std::min(i, kDayRows - i);
        const double up = static_cast<double>(from_midnight) * 2 / kDayRows;
        double share = up * up * (3 - 2 * up);
        // The day ends as it began, so that it may be repeated without a jump.
        if (from_midnight > 0) {
            const double off =
                static_cast<double>(random.from(0, 2 * uneven)) - static_cast<double>(uneven);
            share = std::clamp(share + off / 1000, 0.0, 1.0);
        }
        trace.rows.push_back({at_ms, blend(shape.night, shape.noon, share)});
    }
    return trace;
}

Trace idle(const Idle& shape) {
    Random random(shape.seed);
    std::vector<Pulse> pulses;
    const std::int64_t period_ms = std::max(shape.period_ms, 4 * kEdgeMs);
    std::int64_t start_ms =
        static_cast<std::int64_t>(random.from(0, static_cast<std::uint64_t>(period_ms)));
    for (; start_ms < shape.length_ms; start_ms += period_ms) {
        Pulse pulse;
        pulse.start_ms = start_ms;
        pulse.hold_ms = std::max<std::int64_t>(0, shape.job_ms);
        pulse.kib = random.around(shape.job_kib);
        pulses.push_back(pulse);
    }
    return {"idle",
            fmt::format("generated: idle, about {} MiB for {} ms each {} ms, seed {}",
                        shape.job_kib / 1024, shape.job_ms, period_ms, shape.seed),
            with_pulses(shape.base, std::move(pulses), shape.length_ms)};
}

Trace ramp(const Ramp& shape) {
    const std::int64_t begin_ms = std::max<std::int64_t>(1, shape.begin_ms);
    const std::int64_t end_ms = std::max(begin_ms + 1, shape.end_ms);
    const std::int64_t length_ms = std::max(end_ms + 1, shape.length_ms);
    return {"ramp",
            fmt::format("generated: from {} to {} MiB between {} and {} ms",
                        shape.from.anon_kib / 1024, shape.to.anon_kib / 1024, begin_ms, end_ms),
            {{0, blend(shape.from, shape.to, 0)},
             {begin_ms, blend(shape.from, shape.to, 0)},
             {end_ms, blend(shape.from, shape.to, 1)},
             {length_ms, blend(shape.from, shape.to, 1)}}};
}

Trace sawtooth(const Sawtooth& shape) {
    Random random(shape.seed);
    Trace trace{"sawtooth",
                fmt::format("generated: a heap of {} MiB live, collected at {} MiB, seed {}",
                            shape.live_kib / 1024, shape.heap_kib / 1024, shape.seed),
                {}};
    const auto add = [&](std::int64_t at_ms, std::uint64_t heap_kib, std::uint64_t live_kib) {
        trace.rows.push_back(
            {at_ms,
             {heap_kib, std::min(heap_kib, live_kib), shape.cache_kib, shape.read_kib_per_s, 0}});
    };
    const std::uint64_t live_least = shape.live_kib - shape.live_kib / 10;
    const std::uint64_t live_most = shape.live_kib + shape.live_kib / 10;
    std::int64_t at_ms = 0;
    std::uint64_t live_kib = shape.live_kib;
    add(0, live_kib, live_kib);
    while (at_ms < shape.length_ms) {
        const std::uint64_t top_kib = std::max(shape.heap_kib, live_kib);
        at_ms += time_for(top_kib - live_kib, random.around(shape.rate_kib_per_s));
        add(at_ms, top_kib, live_kib);
        at_ms += std::max(kEdgeMs, shape.collect_ms);
        live_kib = random.from(live_least, live_most);
        add(at_ms, live_kib, live_kib);
    }
    return trace;
}

Trace training(const Training& shape) {
    Random random(shape.seed);
    const std::int64_t checkpoint_ms = std::max(2 * kEdgeMs, shape.checkpoint_ms);
    const std::int64_t work_ms = std::max(shape.epoch_ms - checkpoint_ms, 8 * kEdgeMs);
    const std::int64_t epoch_ms = work_ms + checkpoint_ms;
    std::vector<Pulse> pulses;
    std::vector<std::int64_t> checkpoints;
    for (unsigned epoch = 0; epoch < shape.epochs; ++epoch) {
        const std::int64_t checkpoint = epoch * epoch_ms + work_ms;
        checkpoints.insert(checkpoints.end(),
                           {checkpoint - 1, checkpoint, checkpoint + checkpoint_ms - 1,
                            checkpoint + checkpoint_ms});
        for (unsigned worker = 0; worker < shape.workers; ++worker) {
            Pulse pulse;
            const std::int64_t most_ms = work_ms - 4 * kEdgeMs;
            const std::int64_t hold_ms = std::min(random.around_ms(shape.worker_ms), most_ms);
            const auto spare_ms = static_cast<std::uint64_t>(most_ms - hold_ms);
            pulse.start_ms = epoch * epoch_ms + static_cast<std::int64_t>(random.from(0, spare_ms));
            pulse.hold_ms = hold_ms;
            pulse.kib = random.around(shape.worker_kib);
            pulses.push_back(pulse);
        }
    }
    const Demand base{shape.main_kib, shape.main_kib / 2, shape.main_kib / 8, shape.main_kib / 8,
                      shape.data_kib_per_s};
    Trace trace{"training",
                fmt::format("generated: {} epochs with {} workers of about {} MiB, seed {}",
                            shape.epochs, shape.workers, shape.worker_kib / 1024, shape.seed),
                with_pulses(base, std::move(pulses),
                            std::max<std::int64_t>(epoch_ms, shape.epochs * epoch_ms),
                            std::move(checkpoints))};
    for (TraceRow& row : trace.rows) {
        if (row.at_ms % epoch_ms >= work_ms) {
            row.demand.stream_kib_per_s = shape.checkpoint_kib_per_s;
        }
    }
    return trace;
}

}  // namespace xenpack::sim
