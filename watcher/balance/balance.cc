// SPDX-License-Identifier: LGPL-2.1-or-later
// The policy. In the order of plan(): what is granted of the wishes, what is lacking, who gives it,
// when to look again.
#include "watcher/balance/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "watcher/kib.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;
// While zones wait for each other's memory, smaller grants than this would only be more writes.
constexpr std::uint64_t kPartialGrantMinKib = 8 * kMib;
// When a shortage has no donor, demand that fades may make one; look as often as that shows.
constexpr std::int64_t kFadingEveryMs = 2'000;
// So many donors that may not be asked just now are passed over in search of one that may.
constexpr std::size_t kPassOverMost = 64;

// ---- What is granted.

// Divides `amount` by weight; who wants less than a share leaves the rest to the others.
std::vector<std::uint64_t> divide(std::uint64_t amount, const std::vector<std::uint64_t>& wants,
                                  const std::vector<std::uint64_t>& weights) {
    std::vector<std::uint64_t> grants(wants.size(), 0);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < wants.size(); ++i) {
        if (wants[i] > 0 && weights[i] > 0) {
            open.push_back(i);
        }
    }
    while (!open.empty() && amount > 0) {
        std::uint64_t weight_sum = 0;
        for (const std::size_t i : open) {
            weight_sum += weights[i];
        }
        const auto share = [&](std::size_t i) {
            return static_cast<std::uint64_t>(static_cast<double>(amount) *
                                              static_cast<double>(weights[i]) /
                                              static_cast<double>(weight_sum));
        };
        const auto content = std::partition(open.begin(), open.end(),
                                            [&](std::size_t i) { return wants[i] > share(i); });
        if (content == open.end()) {
            for (const std::size_t i : open) {
                grants[i] = share(i);
            }
            break;
        }
        for (auto it = content; it != open.end(); ++it) {
            grants[*it] = wants[*it];
            amount -= wants[*it];
        }
        open.erase(content, open.end());
    }
    return grants;
}

std::string grow_reason(const ZoneView& z, ChangeWhy why, std::uint64_t missing_kib) {
    std::string text;
    if (why == ChangeWhy::limits) {
        text = z.pin_kib ? fmt::format("pinned at {} MiB", mib(*z.pin_kib))
                         : fmt::format("its floor is {} MiB", mib(z.floor_kib));
    } else if (why == ChangeWhy::pressure) {
        const double percent = z.stalled_share.value_or(0) * 100;
        text = fmt::format("stalls on memory{}, uses {} MiB, needs {} MiB",
                           percent >= 1 ? fmt::format(" ({:.0f} % of its time)", percent) : "",
                           mib(z.used_kib), mib(z.quick_need_kib));
    } else {
        text = fmt::format("uses {} MiB, needs {} MiB with headroom", mib(z.used_kib),
                           mib(z.quick_need_kib));
    }
    if (z.quick_need_kib > z.ceiling_kib && why != ChangeWhy::limits) {
        text += fmt::format("; its ceiling is {} MiB", mib(z.ceiling_kib));
    }
    if (missing_kib >= kGrowStepMinKib) {
        text += fmt::format("; {} MiB more must come from other zones first", mib(missing_kib));
    }
    return text;
}

ChangeWhy grow_why(const ZoneView& z) {
    if (z.pin_kib || z.quick_need_kib <= z.target_kib) {
        return ChangeWhy::limits;
    }
    return z.stalled ? ChangeWhy::pressure : ChangeWhy::demand;
}

Change grown(Ledger::Slot slot, const ZoneView& z, std::uint64_t by_kib, std::uint64_t waits_kib) {
    const ChangeWhy why = grow_why(z);
    return {slot, z.target_kib, z.target_kib + by_kib, why, grow_reason(z, why, waits_kib)};
}

// The zones that wish for more, and what they are given.
struct Wishing {
    std::vector<Ledger::Slot> slots;
    std::vector<std::uint64_t> weights;
    std::vector<std::uint64_t> grants;

    explicit Wishing(const Ledger& zones)
        : slots(zones.wishing().begin(), zones.wishing().end()), grants(slots.size(), 0) {
        for (const Ledger::Slot slot : slots) {
            weights.push_back(std::max(1u, zones.view(slot).weight));
        }
    }

    // Divides by weight what is there for one kind of wish among all of them; returns what is left.
    std::uint64_t grant(std::uint64_t there_kib, const std::vector<std::uint64_t>& wants) {
        std::uint64_t wanted_kib = 0;
        for (const std::uint64_t want : wants) {
            wanted_kib += want;
        }
        const bool enough = wanted_kib <= there_kib;  // nearly always
        const std::vector<std::uint64_t> shares =
            enough ? wants : divide(there_kib, wants, weights);
        for (std::size_t i = 0; i < slots.size(); ++i) {
            // Less than a partial grant's minimum waits to become one.
            const std::uint64_t share = whole_pages(shares[i]);
            grants[i] += share < wants[i] && share < kPartialGrantMinKib ? 0 : share;
        }
        return enough ? there_kib - wanted_kib : 0;
    }
};

struct Spent {
    std::uint64_t free_kib = 0;      // of the host's free memory
    std::uint64_t leaving_kib = 0;   // of what was leaving its zone and now stays
    bool danger = false;             // a zone has to wait for what it must have
    std::uint64_t pressing_kib = 0;  // waited for by zones that stall or are in danger
};

// Those at ease are grown ahead of the bursts they are known for, out of what nobody needs: what
// they have they need not wait for. Returns what was spent.
std::uint64_t add_comforts(const Ledger& zones, std::uint64_t surplus_kib, Plan& plan) {
    std::uint64_t left_kib = surplus_kib;
    for (const Ledger::Slot slot : zones.liking()) {
        const std::uint64_t grant_kib = whole_pages(std::min(zones.wish(slot).ease_kib, left_kib));
        if (grant_kib < kEaseStepMinKib) {
            break;
        }
        const ZoneView& z = zones.view(slot);
        left_kib -= grant_kib;
        plan.grow.push_back({slot, z.target_kib, z.target_kib + grant_kib, ChangeWhy::comfort,
                             fmt::format("may rise by {} MiB within a second, and memory is plenty",
                                         mib(z.burst_kib))});
    }
    return surplus_kib - left_kib;
}

// What each of the wishing zones lacks, in the order in which it is granted; its own pages taken
// off.
struct Lacks {
    std::vector<std::uint64_t> must, hard, need, ease;

    Lacks(const Ledger& zones, const Wishing& wishing) {
        for (const Ledger::Slot slot : wishing.slots) {
            const Wish& wish = zones.wish(slot);
            must.push_back(minus(wish.must_kib, wish.own_kib));
            hard.push_back(minus(wish.hard_kib, wish.own_kib) - must.back());
            need.push_back(wish.need_kib - wish.own_kib - must.back() - hard.back());
            ease.push_back(wish.ease_kib);
        }
    }
};

// Grants what free memory backs, and first of all what a zone was asked to give and still holds:
// those pages are its own, and were never counted as free.
Spent add_grows(const HostView& host, const Ledger& zones, Plan& plan) {
    Wishing wishing(zones);
    const Lacks lacks(zones, wishing);
    const std::uint64_t least_kib = std::min(host.emergency_kib, kEmergencyLeastKib);
    const std::uint64_t in_danger_kib =
        minus(host.free_kib, least_kib + host.promised_kib + zones.pending_kib());
    const std::uint64_t granted_kib = in_danger_kib - wishing.grant(in_danger_kib, lacks.must);
    const std::vector<std::uint64_t> must_grants = wishing.grants;
    const std::uint64_t first_fork_kib = host.wanted_by_first_fork_kib;
    std::uint64_t left_kib =
        wishing.grant(minus(plan.spendable_kib, granted_kib + first_fork_kib), lacks.hard);
    const std::vector<std::uint64_t> hard_grants = wishing.grants;
    const std::uint64_t forks_kib = std::max(host.wanted_by_waiting_forks_kib, first_fork_kib);
    left_kib = wishing.grant(minus(left_kib, host.start_reserve_kib + (forks_kib - first_fork_kib)),
                             lacks.need);
    const std::vector<std::uint64_t> need_grants = wishing.grants;
    // What zones only would like comes out of what the host keeps for no one.
    const std::uint64_t kept_kib = minus(
        host.reserve_kib + host.wanted_by_starts_kib + minus(host.wanted_by_forks_kib, forks_kib),
        host.emergency_kib + host.start_reserve_kib);
    const std::uint64_t surplus_kib = wishing.grant(minus(left_kib, kept_kib), lacks.ease);

    Spent spent;
    for (std::size_t i = 0; i < wishing.slots.size(); ++i) {
        const Ledger::Slot slot = wishing.slots[i];
        const Wish& wish = zones.wish(slot);
        const std::uint64_t waits = lacks.must[i] + lacks.hard[i] + lacks.need[i] - need_grants[i];
        if (waits > 0) {
            plan.waiting.push_back(slot);
            plan.waiting_kib += waits;
        }
        spent.pressing_kib += lacks.must[i] + lacks.hard[i] - hard_grants[i];
        spent.danger =
            spent.danger || wish.own_kib + must_grants[i] + kGrowStepMinKib <= wish.must_kib;
        if (wish.own_kib + wishing.grants[i] > 0) {
            spent.free_kib += wishing.grants[i];
            spent.leaving_kib += wish.own_kib;
            plan.grow.push_back(
                grown(slot, zones.view(slot), wish.own_kib + wishing.grants[i], waits));
        }
    }
    spent.free_kib += add_comforts(zones, surplus_kib, plan);
    return spent;
}

// ---- Who gives.

// The most of its needs that the new size still meets.
std::uint64_t need_met_kib(const ZoneView& z, std::uint64_t to_kib) {
    for (const std::uint64_t need : {z.slow_need_kib, z.quick_need_kib}) {
        if (need <= to_kib) {
            return need;
        }
    }
    return z.must_kib;
}

std::string give_reason(const ZoneView& z, std::uint64_t to_kib, ChangeWhy why, const Plan& plan,
                        const HostView& host) {
    const std::uint64_t need = need_met_kib(z, to_kib);
    if (why == ChangeWhy::give) {
        return fmt::format("needs only {} MiB; {} for {} MiB", mib(need),
                           !plan.waiting.empty()           ? "other zones wait"
                           : host.wanted_by_starts_kib > 0 ? "a start waits"
                                                           : "forks wait",
                           mib(plan.waiting_kib));
    }
    return fmt::format("needs only {} MiB; the host has {} MiB free, its reserve is {} MiB",
                       mib(need), mib(host.free_kib), mib(host.reserve_kib));
}

// Shrinking that limits demand, whatever the host's state: over the ceiling, or over a pin.
void add_limit_shrinks(const Ledger& zones, std::int64_t now_ms, Plan& plan) {
    for (const Ledger::Slot slot : zones.over_limits()) {
        const ZoneView& z = zones.view(slot);
        if (const auto to_kib = limited_to_kib(z, now_ms)) {
            plan.shrink.push_back({slot, z.target_kib, *to_kib, ChangeWhy::limits,
                                   z.pin_kib
                                       ? fmt::format("pinned at {} MiB", mib(*z.pin_kib))
                                       : fmt::format("its ceiling is {} MiB", mib(z.ceiling_kib))});
        }
    }
}

// What is taken of each donor. As few as will do: each change is work for a guest.
class Taking {
  public:
    // Not of those that the plan lets grow.
    Taking(const Ledger& zones, std::int64_t now_ms, const Plan& plan)
        : zones_(zones), now_ms_(now_ms) {
        for (const Change& change : plan.grow) {
            grown_.push_back(change.zone);
        }
        std::sort(grown_.begin(), grown_.end());
    }

    enum class Pace { waited_for, waited_for_in_danger, urgent, reserve };

    // From the idlest first; returns what is still needed.
    std::uint64_t take(std::uint64_t needed_kib, Keep keep, Pace pace) {
        std::size_t passed_over = 0;
        for (const auto& [rank, slot] : zones_.donors(keep)) {
            if (needed_kib == 0 || passed_over > kPassOverMost) {
                break;
            }
            const std::uint64_t cap = cap_of(slot, keep, pace);
            if (cap == 0) {
                ++passed_over;
                continue;
            }
            const std::uint64_t amount =
                std::min(std::max(whole_mib(needed_kib), kShrinkStepMinKib), cap);
            taken_[slot] += amount;
            needed_kib = minus(needed_kib, amount);
        }
        return needed_kib;
    }

    void add_to(Plan& plan, ChangeWhy why, const HostView& host) const {
        for (const auto& [slot, amount] : taken_) {
            const ZoneView& z = zones_.view(slot);
            plan.shrink.push_back({slot, z.target_kib, z.target_kib - amount, why,
                                   give_reason(z, z.target_kib - amount, why, plan, host)});
        }
    }

  private:
    [[nodiscard]] std::uint64_t cap_of(Ledger::Slot slot, Keep keep, Pace pace) const {
        const ZoneView& z = zones_.view(slot);
        const std::uint64_t slack = minus(zones_.slack_kib(slot, keep), taken_of(slot));
        const bool hard = pace == Pace::waited_for_in_danger;
        // What costs the donor something is tried slowly, unless another is in danger.
        const bool tries_cache = keep == Keep::must && !hard;
        if (slack < kShrinkStepMinKib || over_its_limits(z) ||
            std::binary_search(grown_.begin(), grown_.end(), slot) ||
            (tries_cache && (z.calm_ms < kCalmMs || !rested(z, now_ms_))) ||
            (pace == Pace::urgent && grown_lately(z, now_ms_)) ||
            (pace == Pace::reserve && !rested(z, now_ms_))) {
            return 0;
        }
        const std::uint64_t cap = cap_kib(slack, keep, hard);
        return pace == Pace::reserve ? std::min(cap, slow_step_kib(z)) : cap;
    }

    [[nodiscard]] std::uint64_t taken_of(Ledger::Slot slot) const {
        const auto found = taken_.find(slot);
        return found == taken_.end() ? 0 : found->second;
    }

    const Ledger& zones_;
    std::int64_t now_ms_;
    std::vector<Ledger::Slot> grown_;  // in ascending order
    std::map<Ledger::Slot, std::uint64_t> taken_;
};

// For what is waited for: from those who lose nothing by it, then from those who lose little. What
// the reserve lacks is taken along, or the next one would wait as well.
void take_for_waiting(std::uint64_t needed_kib, std::uint64_t lacking_kib, const Spent& spent,
                      const Ledger& zones, std::int64_t now_ms, const HostView& host, Plan& plan) {
    Taking taking(zones, now_ms, plan);
    const auto pace = spent.danger ? Taking::Pace::waited_for_in_danger : Taking::Pace::waited_for;
    std::uint64_t left_kib = taking.take(needed_kib + lacking_kib, Keep::slow, pace);
    left_kib = taking.take(minus(left_kib, lacking_kib / 2), Keep::quick, pace);
    left_kib = minus(left_kib, lacking_kib - lacking_kib / 2);
    // Page cache in use only moves to where it saves more: else zones at ease would pass it round.
    const std::uint64_t pressing_kib =
        spent.pressing_kib + host.wanted_by_starts_kib + host.wanted_by_forks_kib;
    (void)taking.take(std::min(left_kib, pressing_kib), Keep::must, pace);
    taking.add_to(plan, ChangeWhy::give, host);
}

void take_for_reserve(std::uint64_t needed_kib, const Ledger& zones, std::int64_t now_ms,
                      const HostView& host, Plan& plan) {
    Taking taking(zones, now_ms, plan);
    // Under half of the reserve the next burst may find nothing: then it is no time to be slow.
    const std::uint64_t urgent_kib = minus(needed_kib, host.reserve_kib / 2);
    std::uint64_t left_kib = taking.take(urgent_kib, Keep::slow, Taking::Pace::urgent);
    left_kib = taking.take(left_kib, Keep::quick, Taking::Pace::urgent);
    if (urgent_kib == 0) {
        (void)taking.take(needed_kib, Keep::slow, Taking::Pace::reserve);
    }
    taking.add_to(plan, ChangeWhy::reserve, host);
}

// ---- When to look again.

std::optional<std::int64_t> next_look(const Ledger& zones, const Plan& plan, std::int64_t now_ms) {
    const bool leaving = !plan.shrink.empty() || zones.leaving_kib() > 0;
    if (plan.waiting_kib > 0 && leaving) {
        return now_ms + kConfirmEveryMs;
    }
    if (!plan.grow.empty() || leaving || zones.moving()) {
        return now_ms + kConfirmSlowlyEveryMs;
    }
    // A zone that waits is looked after though nothing moves: memory may come free untold, when
    // another toolstack gives some back or a dead domain's last pages are unmapped.
    if (plan.waiting_kib > 0 || (plan.state != HostState::plenty && zones.fading())) {
        return now_ms + kFadingEveryMs;
    }
    return std::nullopt;
}

// No more is kept free than what zones and starts could come to want and the host does not have:
// keeping more would take from all of them what none of them can ever be given.
HostView keeping_what_may_be_wanted(const HostView& host, const Ledger& zones) {
    const std::uint64_t free_kib = minus(host.free_kib, host.promised_kib + zones.pending_kib());
    const std::uint64_t beyond_kib = minus(
        zones.growable_kib() + host.wanted_by_starts_kib + host.wanted_by_forks_kib, free_kib);
    HostView view = host;
    view.emergency_kib = std::min(host.emergency_kib, std::max(beyond_kib, kEmergencyLeastKib));
    const std::uint64_t least_kib =
        view.emergency_kib + std::min(host.start_reserve_kib, beyond_kib);
    view.reserve_kib = std::min(host.reserve_kib, std::max(least_kib, beyond_kib));
    return view;
}

}  // namespace

Plan plan(const HostView& real_host, const Ledger& zones, std::int64_t now_ms) {
    Plan plan;
    const HostView host = keeping_what_may_be_wanted(real_host, zones);
    plan.emergency_kib = host.emergency_kib;
    plan.reserve_kib = host.reserve_kib;
    const std::uint64_t pending_kib = host.promised_kib + zones.pending_kib();
    plan.spendable_kib = minus(host.free_kib, host.emergency_kib + pending_kib);
    const Spent spent = add_grows(host, zones, plan);
    // Running zones come first; what they have left may be enough for the starts.
    plan.left_kib = minus(plan.spendable_kib, spent.free_kib);
    plan.waiting_kib += minus(host.wanted_by_starts_kib + host.wanted_by_forks_kib, plan.left_kib);
    const std::uint64_t leaving_kib = minus(zones.leaving_kib(), spent.leaving_kib);

    const std::uint64_t left_kib = minus(host.free_kib, pending_kib + spent.free_kib);
    const std::uint64_t lacking_kib = minus(host.reserve_kib, left_kib);
    plan.state = plan.waiting_kib > 0 ? HostState::shortage
                 : lacking_kib > 0    ? HostState::tight
                                      : HostState::plenty;

    add_limit_shrinks(zones, now_ms, plan);
    if (plan.state == HostState::shortage) {
        take_for_waiting(minus(plan.waiting_kib, leaving_kib),
                         minus(lacking_kib, minus(leaving_kib, plan.waiting_kib)), spent, zones,
                         now_ms, host, plan);
    } else if (plan.state == HostState::tight) {
        take_for_reserve(minus(lacking_kib, leaving_kib), zones, now_ms, host, plan);
    }
    plan.look_again_ms = next_look(zones, plan, now_ms);
    return plan;
}

std::uint64_t learned_reserve_kib(const Ledger& zones, std::uint64_t host_total_kib) {
    std::uint64_t learned_kib = 0;
    unsigned part = 1;
    for (const auto& [burst_kib, slot] : zones.bursts()) {
        learned_kib += burst_kib / part;
        part *= 2;
        if (part > 8) {  // further ones change nothing that matters
            break;
        }
    }
    return std::clamp(learned_kib, host_total_kib / 100 * kLearnedReserveMinPercent,
                      host_total_kib / 100 * kLearnedReserveMaxPercent);
}

std::string_view name_of(HostState state) {
    switch (state) {
        case HostState::plenty:
            return "plenty";
        case HostState::tight:
            return "tight";
        case HostState::shortage:
            return "short";
    }
    return "";
}

std::uint64_t floor_for_size_kib(std::uint64_t size_kib) {
    // base + size/divisor, by size: hv_balloon's compute_balloon_floor(), in KiB.
    struct Row {
        std::uint64_t below_mib, base_mib, divisor;
    };
    static constexpr std::array<Row, 5> kRows{{{128, 8, 2},
                                               {512, 40, 4},
                                               {2048, 104, 8},
                                               {8192, 232, 16},
                                               {~std::uint64_t{0} / kMib, 488, 32}}};
    // Linux' xen-selfballoon: 99 MiB and 1/32 of the rest.
    constexpr std::uint64_t kBaseKib = 99 * kMib;
    const std::uint64_t by_base_kib = kBaseKib + minus(size_kib, kBaseKib) / 32;
    for (const Row& row : kRows) {
        if (size_kib < row.below_mib * kMib) {
            return std::min(row.base_mib * kMib + size_kib / row.divisor, by_base_kib);
        }
    }
    return by_base_kib;
}

}  // namespace xenpack
