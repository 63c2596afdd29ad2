// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading ahead, and the division of what there is.
#include "tests/bench/peers/oracle.h"

#include <tuple>

namespace xenpack::bench::oracle {
namespace {

// A zone grows so long before it needs to: others may have to shrink first.
constexpr std::int64_t kAheadMs = 4'000;
// Cache that is needed again within so long is kept, if nobody else needs its memory.
constexpr std::int64_t kKeepMs = 60'000;
// So that a balloon's batch more or less stalls nobody.
constexpr std::uint64_t kMarginKib = 1'024;

struct Peaks {
    std::uint64_t survival_kib = 0;
    std::uint64_t ease_kib = 0;
    std::uint64_t cache_kib = 0;
    std::uint64_t read_kib_per_s = 0;
};

// The most of each within a part of the trace. Between two rows all is even, so that the rows and
// the ends are enough.
void look(const sim::Guest& guest, std::int64_t from_ms, std::int64_t to_ms, Peaks& peaks) {
    const auto at = [&](std::int64_t ms) {
        const sim::Demand demand = guest.trace().at(ms);
        peaks.survival_kib = std::max(peaks.survival_kib, guest.survival_kib(ms));
        peaks.ease_kib = std::max(peaks.ease_kib, guest.ease_kib(ms));
        peaks.cache_kib = std::max(peaks.cache_kib, demand.cache_kib);
        peaks.read_kib_per_s = std::max(peaks.read_kib_per_s, demand.read_kib_per_s);
    };
    at(from_ms);
    at(to_ms);
    const auto& rows = guest.trace().rows;
    auto row = std::upper_bound(
        rows.begin(), rows.end(), from_ms,
        [](std::int64_t ms, const sim::TraceRow& each) { return ms < each.at_ms; });
    for (; row != rows.end() && row->at_ms < to_ms; ++row) {
        at(row->at_ms);
    }
}

// The same for what lies ahead; at its end the trace begins anew.
Peaks ahead(const sim::Guest& guest, std::int64_t for_ms) {
    Peaks peaks;
    const std::int64_t length = guest.trace().length_ms();
    const std::int64_t from = guest.trace_ms();
    if (from + for_ms <= length || length <= 0) {
        look(guest, from, from + for_ms, peaks);
    } else {
        look(guest, from, length, peaks);
        look(guest, 0, std::min(length, from + for_ms - length), peaks);
    }
    return peaks;
}

Need need_of(const sim::Domain& domain) {
    const Peaks soon = ahead(domain.guest, kAheadMs);
    const Peaks later = ahead(domain.guest, kKeepMs);
    const std::uint64_t most_kib = domain.config.max_memory_kib;
    const std::uint64_t now_cache_kib = domain.guest.stats().cached_kib;
    Need need;
    need.id = domain.domid;
    need.holds_kib = domain.current_kib;
    need.survival_kib = std::min(most_kib, soon.survival_kib + kMarginKib);
    need.ease_kib = std::clamp(soon.ease_kib + kMarginKib, need.survival_kib, most_kib);
    // Only what is there can be kept.
    const std::uint64_t kept_kib = std::min(later.cache_kib, now_cache_kib);
    const std::uint64_t beyond_kib = kept_kib - std::min(kept_kib, soon.cache_kib);
    need.keep_kib = std::min(most_kib, need.ease_kib + beyond_kib);
    need.reads_per_s = static_cast<double>(soon.read_kib_per_s) /
                       static_cast<double>(std::max<std::uint64_t>(1, soon.cache_kib));
    return need;
}

}  // namespace

std::map<std::uint32_t, std::uint64_t> divide(std::vector<Need> needs, std::uint64_t memory_kib) {
    std::map<std::uint32_t, std::uint64_t> sizes;
    const auto give = [&](const Need& need, std::uint64_t up_to_kib) {
        std::uint64_t& size_kib = sizes[need.id];
        const std::uint64_t more_kib =
            std::min(memory_kib, up_to_kib - std::min(up_to_kib, size_kib));
        size_kib += more_kib;
        memory_kib -= more_kib;
    };
    // Life first. Where there is not enough for all, those who need least beyond what they hold: so
    // the fewest are killed, and none for memory that nobody can take away from its holder.
    std::sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) {
        const auto missing = [](const Need& need) {
            return need.survival_kib - std::min(need.survival_kib, need.holds_kib);
        };
        return std::tuple(missing(a), a.id) < std::tuple(missing(b), b.id);
    });
    for (const Need& need : needs) {
        give(need, need.survival_kib);
    }
    std::sort(needs.begin(), needs.end(), [](const Need& a, const Need& b) {
        return std::tuple(-a.reads_per_s, a.id) < std::tuple(-b.reads_per_s, b.id);
    });
    for (const Need& need : needs) {
        give(need, need.ease_kib);
    }
    for (const Need& need : needs) {
        give(need, need.keep_kib);
    }
    return sizes;
}

// As little as a kernel boots in; its workload's need is seen before it begins.
sim::DomainConfig Oracle::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = full_size_kib(peak_kib);
    return start_with(48 * kMibKib + full_kib / 64, full_kib);
}

void Oracle::zone_started(const sim::Domain&, std::int64_t) {
    start_kib_ = 0;
}

void Oracle::step(sim::Host& host, std::int64_t now_ms) {
    if (!tick_.due(now_ms)) {
        return;
    }
    std::vector<Need> needs;
    std::uint64_t memory_kib = host.free_kib();
    for (const auto& domain : host.domains()) {
        needs.push_back(need_of(*domain));
        memory_kib += domain->current_kib;
    }
    memory_kib -= std::min(memory_kib, start_kib_);
    move_towards(host, divide(std::move(needs), memory_kib), start_kib_);
}

bool Oracle::make_room(sim::Host& host, std::uint64_t cost_kib) {
    start_kib_ = cost_kib;
    return spare_kib(host, 0) >= cost_kib;
}

}  // namespace xenpack::bench::oracle
