// SPDX-License-Identifier: LGPL-2.1-or-later
// Derive: walks along the samples once, with what the last minute held beside it. Pure.
#include "watcher/record/derive.h"

#include <algorithm>
#include <cmath>

namespace xenpack::record {
namespace {

constexpr double kMsPerS = 1000;

std::uint64_t grown(std::uint64_t from, std::uint64_t to) {
    return to > from ? to - from : 0;
}

std::uint64_t less(std::uint64_t from, std::uint64_t what) {
    return from - std::min(from, what);
}

std::uint64_t per_second(std::uint64_t kib, std::int64_t ms) {
    return static_cast<std::uint64_t>(
        std::llround(static_cast<double>(kib) * kMsPerS / static_cast<double>(ms)));
}

using Samples = std::vector<const Sample*>;

// The first at or after `ms`.
Samples::const_iterator from(const Samples& samples, std::int64_t ms) {
    return std::lower_bound(
        samples.begin(), samples.end(), ms,
        [](const Sample* each, std::int64_t value) { return each->at_ms < value; });
}

class Rows {
  public:
    explicit Rows(const std::vector<Sample>& samples) {
        for (const Sample& sample : samples) {
            if (!kept_.empty() && sample.at_ms <= kept_.back()->at_ms) {
                continue;
            }
            kept_.push_back(&sample);
            if (sample.look) {
                looks_.push_back(&sample);
                (sample.look->last ? whole_ : short_).push_back(&sample);
            }
        }
    }

    std::vector<sim::TraceRow> all() {
        count_reads();
        std::vector<sim::TraceRow> rows;
        rows.reserve(kept_.size());
        for (std::size_t i = 0; i < kept_.size(); ++i) {
            const std::uint64_t cache_before = rows.empty() ? 0 : rows.back().demand.cache_kib;
            rows.push_back({kept_[i]->at_ms - kept_.front()->at_ms, demand(i, cache_before)});
        }
        // The first has nothing before it from which to count.
        if (rows.size() > 1 && rows[0].demand.cache_kib > 0) {
            rows[0].demand.read_kib_per_s = rows[1].demand.read_kib_per_s;
        }
        return rows;
    }

  private:
    // In the first minute, what is read within it stands for what was read before the recording.
    void count_reads() {
        from_cache_.assign(kept_.size(), 0);
        for (std::size_t i = 1; i < kept_.size(); ++i) {
            const std::uint64_t fetched =
                grown(kept_[i - 1]->io.fetched_kib, kept_[i]->io.fetched_kib);
            from_cache_[i] =
                less(grown(kept_[i - 1]->io.asked_kib, kept_[i]->io.asked_kib), fetched);
        }
        for (; newest_ < kept_.size() && kept_[newest_]->at_ms <= kUsedAgainMs; ++newest_) {
            read_lately_ += from_cache_[newest_];
        }
    }

    sim::Demand demand(std::size_t i, std::uint64_t cache_before) {
        const Sample& now = *kept_[i];
        sim::Demand demand;
        demand.anon_kib = now.memory.anon_kib + now.memory.kernel_kib;
        const auto touched = static_cast<std::uint64_t>(
            std::llround(static_cast<double>(now.memory.anon_kib) * touched_share(now.at_ms)));
        demand.active_kib = std::min(demand.anon_kib, now.memory.kernel_kib + touched);
        if (i == 0) {
            demand.cache_kib = cache(i);
            return demand;
        }
        const Sample& before = *kept_[i - 1];
        const std::int64_t ms = now.at_ms - before.at_ms;
        const std::uint64_t fetched = grown(before.io.fetched_kib, now.io.fetched_kib);
        demand.cache_kib = cache(i);
        if (demand.cache_kib > 0) {
            demand.read_kib_per_s = per_second(from_cache_[i], ms) + mapped_per_second(now.at_ms);
        }
        const std::uint64_t passed = fetched + grown(before.io.dirtied_kib, now.io.dirtied_kib);
        demand.stream_kib_per_s =
            per_second(less(passed, grown(cache_before, demand.cache_kib)), ms);
        return demand;
    }

    // Of the span of looks that `ms` is in, else of the last span before it, else of the first.
    // Where no span was looked at to its end, of what was seen of one.
    [[nodiscard]] double touched_share(std::int64_t ms) const {
        const Samples& spans = whole_.empty() ? short_ : whole_;
        if (spans.empty()) {
            return 1;
        }
        auto span = from(spans, ms);
        if (span == spans.end() || ((*span)->look->since_ms >= ms && span != spans.begin())) {
            --span;
        }
        const Touched& touched = (*span)->look->touched;
        return touched.anon_kib == 0 ? 1
                                     : std::min(1.0, static_cast<double>(touched.anon_touched_kib) /
                                                         static_cast<double>(touched.anon_kib));
    }

    // To be called with ascending i.
    [[nodiscard]] std::uint64_t cache(std::size_t i) {
        const Sample& now = *kept_[i];
        const std::int64_t since_ms = now.at_ms - kUsedAgainMs;
        for (; newest_ <= i; ++newest_) {
            read_lately_ += from_cache_[newest_];
        }
        for (; kept_[oldest_]->at_ms <= since_ms; ++oldest_) {
            read_lately_ -= from_cache_[oldest_];
        }
        const std::uint64_t twice =
            now.memory.active_file_kib +
            grown(kept_[oldest_]->memory.refaulted_kib, now.memory.refaulted_kib);
        std::uint64_t mapped = 0;
        for (auto each = from(looks_, since_ms + 1); each != looks_.end(); ++each) {
            if ((*each)->look->since_ms > now.at_ms) {
                break;
            }
            mapped = std::max(mapped, (*each)->look->touched.file_touched_kib);
        }
        return mapped + std::min(twice, read_lately_);
    }

    // By the last short look until then, or the first at all.
    [[nodiscard]] std::uint64_t mapped_per_second(std::int64_t ms) const {
        if (short_.empty()) {
            return 0;
        }
        auto look = from(short_, ms + 1);
        if (look != short_.begin()) {
            --look;
        }
        return per_second((*look)->look->touched.file_touched_kib,
                          std::max<std::int64_t>(1, (*look)->at_ms - (*look)->look->since_ms));
    }

    Samples kept_;
    Samples looks_;
    Samples whole_;                          // looks at the end of their span
    Samples short_;                          // looks soon after its beginning
    std::vector<std::uint64_t> from_cache_;  // got by read(2) since the sample before, in KiB
    std::uint64_t read_lately_ = 0;          // their sum from oldest_ until before newest_
    std::size_t oldest_ = 0;
    std::size_t newest_ = 0;
};

}  // namespace

std::vector<sim::TraceRow> derive_rows(const std::vector<Sample>& samples) {
    return Rows(samples).all();
}

std::optional<std::uint64_t> stalled_us(const std::vector<Sample>& samples) {
    if (samples.empty() || !samples.front().stalled_us || !samples.back().stalled_us) {
        return std::nullopt;
    }
    return grown(*samples.front().stalled_us, *samples.back().stalled_us);
}

}  // namespace xenpack::record
