// SPDX-License-Identifier: LGPL-2.1-or-later
// The first policy: grow by need out of free memory, divide by weight what is not enough, take from
// whom can spare it. In the order of plan(): wants, grants, what is lacking, donors, next look.
#include "watcher/balance/balance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;
// A donor with little to spare gives that at once rather than in ever smaller halves.
constexpr std::uint64_t kGiveWholeKib = 32 * kMib;
// While zones wait for each other's memory, smaller grants than this would only be more writes.
constexpr std::uint64_t kPartialGrantMinKib = 8 * kMib;
// When a shortage has no donor, demand that fades may make one; look as often as that shows.
constexpr std::int64_t kFadingEveryMs = 2'000;

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}
std::uint64_t whole_mib(std::uint64_t kib) {
    return (kib + kMib - 1) / kMib * kMib;
}
std::uint64_t whole_pages(std::uint64_t kib) {
    return kib / 4 * 4;
}
std::uint64_t mib(std::uint64_t kib) {
    return (kib + kMib / 2) / kMib;
}

// Where the zone's target should be at least, now.
std::uint64_t goal_kib(const ZoneView& z) {
    const std::uint64_t wish = z.pin_kib.value_or(z.quick_need_kib);
    const std::uint64_t low = std::min(z.floor_kib, z.ceiling_kib);
    return std::min(whole_mib(std::clamp(wish, low, z.ceiling_kib)), z.ceiling_kib);
}

std::uint64_t want_kib(const ZoneView& z) {
    if (!z.may_change || (z.quick_need_kib == 0 && !z.pin_kib && z.target_kib >= z.floor_kib)) {
        return 0;
    }
    const std::uint64_t want = whole_pages(minus(goal_kib(z), z.target_kib));
    const bool worth_it = want >= kGrowStepMinKib || z.pin_kib || z.target_kib < z.floor_kib;
    return worth_it ? want : 0;
}

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

// Whether a zone's recent peak is left to it too. Where another waits it is not: that one may be
// killed for want of what this one has stopped using, and this one can grow again at once.
enum class Hurry { no, yes };

// What a zone keeps when it gives.
std::uint64_t keep_kib(const ZoneView& z, Hurry hurry) {
    const std::uint64_t need =
        hurry == Hurry::yes ? z.quick_need_kib : std::max(z.slow_need_kib, z.quick_need_kib);
    return std::max(z.floor_kib, whole_mib(need));
}

struct Taking {
    std::vector<std::uint64_t> taken;  // by zone

    [[nodiscard]] std::uint64_t total() const {
        return std::accumulate(taken.begin(), taken.end(), std::uint64_t{0});
    }
};

bool can_give(const ZoneView& z) {
    return z.may_change && z.may_shrink && !z.stalled && !z.pin_kib && z.slow_need_kib > 0;
}

std::uint64_t slack_kib(const ZoneView& z, Hurry hurry) {
    const std::uint64_t slack = can_give(z) ? minus(z.target_kib, keep_kib(z, hurry)) : 0;
    return slack >= kShrinkStepMinKib ? slack : 0;
}

// Takes `needed` from those with slack, the more the idler and the lighter they are.
Taking take(std::uint64_t needed_kib, const std::vector<ZoneView>& zones,
            const std::vector<std::uint64_t>& caps, Hurry hurry) {
    std::vector<std::uint64_t> weights(zones.size(), 0);
    for (std::size_t i = 0; i < zones.size(); ++i) {
        weights[i] = slack_kib(zones[i], hurry) * 100 / std::max(1u, zones[i].weight);
    }
    Taking taking{divide(needed_kib, caps, weights)};
    for (std::size_t i = 0; i < zones.size(); ++i) {
        if (taking.taken[i] > 0) {
            taking.taken[i] =
                std::min(std::max(whole_mib(taking.taken[i]), kShrinkStepMinKib), caps[i]);
        }
    }
    return taking;
}

std::vector<std::uint64_t> quick_caps(const std::vector<ZoneView>& zones) {
    std::vector<std::uint64_t> caps(zones.size(), 0);
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const std::uint64_t slack = slack_kib(zones[i], Hurry::yes);
        caps[i] = std::max(slack / 2, std::min(slack, kGiveWholeKib));
    }
    return caps;
}

bool rested(const ZoneView& z, std::int64_t now_ms) {
    return z.last_shrink_ms == 0 || now_ms - z.last_shrink_ms >= kSlowShrinkEveryMs;
}

std::vector<std::uint64_t> slow_caps(const std::vector<ZoneView>& zones, std::int64_t now_ms) {
    std::vector<std::uint64_t> caps(zones.size(), 0);
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const std::uint64_t slack = slack_kib(zones[i], Hurry::no);
        const std::uint64_t step =
            std::max(zones[i].target_kib / 100 * kSlowShrinkPercent, kShrinkStepMinKib);
        caps[i] = rested(zones[i], now_ms)
                      ? std::min({slack, std::max(slack / 2, kShrinkStepMinKib), step})
                      : 0;
    }
    return caps;
}

std::string give_reason(const ZoneView& z, ChangeWhy why, const Plan& plan, const HostView& host) {
    if (why == ChangeWhy::give) {
        return fmt::format("needs only {} MiB; other zones wait for {} MiB", mib(z.quick_need_kib),
                           mib(plan.waiting_kib));
    }
    return fmt::format("needs only {} MiB; the host has {} MiB free, its reserve is {} MiB",
                       mib(std::max(z.slow_need_kib, z.quick_need_kib)), mib(host.free_kib),
                       mib(host.reserve_kib));
}

// Shrinking that limits demand, whatever the host's state: over the ceiling, or over a pin.
void add_limit_shrinks(const std::vector<ZoneView>& zones, std::int64_t now_ms, Plan& plan) {
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const ZoneView& z = zones[i];
        if (!z.may_change || !z.may_shrink) {
            continue;
        }
        if (z.pin_kib && goal_kib(z) < z.target_kib) {
            plan.shrink.push_back({i, z.target_kib, goal_kib(z), ChangeWhy::limits,
                                   fmt::format("pinned at {} MiB", mib(*z.pin_kib))});
        } else if (!z.pin_kib && z.target_kib > z.ceiling_kib && rested(z, now_ms)) {
            const std::uint64_t step =
                std::max(z.target_kib / 100 * kSlowShrinkPercent, kShrinkStepMinKib);
            const std::uint64_t to = std::max(z.ceiling_kib, minus(z.target_kib, step));
            plan.shrink.push_back({i, z.target_kib, to, ChangeWhy::limits,
                                   fmt::format("its ceiling is {} MiB", mib(z.ceiling_kib))});
        }
    }
}

void add_shrinks(const std::vector<ZoneView>& zones, const Taking& taking, ChangeWhy why,
                 const HostView& host, Plan& plan) {
    for (std::size_t i = 0; i < zones.size(); ++i) {
        if (taking.taken[i] == 0) {
            continue;
        }
        const ZoneView& z = zones[i];
        plan.shrink.push_back({i, z.target_kib, z.target_kib - taking.taken[i], why,
                               give_reason(z, why, plan, host)});
    }
}

struct Spent {
    std::uint64_t free_kib = 0;     // of the host's free memory
    std::uint64_t leaving_kib = 0;  // of what was leaving its zone and now stays
};

// Grants what free memory backs, and first of all what a zone was asked to give and still holds:
// those pages are its own, and were never counted as free.
Spent add_grows(const std::vector<ZoneView>& zones, Plan& plan) {
    std::vector<std::uint64_t> own(zones.size());
    std::vector<std::uint64_t> wants(zones.size());
    std::vector<std::uint64_t> weights(zones.size());
    for (std::size_t i = 0; i < zones.size(); ++i) {
        const std::uint64_t want = want_kib(zones[i]);
        own[i] = std::min(want, whole_pages(zones[i].leaving_kib));
        wants[i] = want - own[i];
        weights[i] = std::max(1u, zones[i].weight);
    }
    const std::vector<std::uint64_t> grants = divide(plan.spendable_kib, wants, weights);
    plan.waiting_by_zone_kib.assign(zones.size(), 0);
    Spent spent;
    for (std::size_t i = 0; i < zones.size(); ++i) {
        // Less than a partial grant's minimum waits to become one.
        std::uint64_t more = whole_pages(grants[i]);
        if (more < wants[i] && more < kPartialGrantMinKib) {
            more = 0;
        }
        plan.waiting_by_zone_kib[i] = wants[i] - more;
        plan.waiting_kib += wants[i] - more;
        const std::uint64_t grant = own[i] + more;
        if (grant > 0) {
            spent.free_kib += more;
            spent.leaving_kib += own[i];
            const ChangeWhy why = grow_why(zones[i]);
            plan.grow.push_back({i, zones[i].target_kib, zones[i].target_kib + grant, why,
                                 grow_reason(zones[i], why, wants[i] - more)});
        }
    }
    return spent;
}

std::optional<std::int64_t> next_look(const std::vector<ZoneView>& zones, const Plan& plan,
                                      std::int64_t now_ms) {
    bool moving = !plan.grow.empty() || !plan.shrink.empty();
    bool leaving = !plan.shrink.empty();
    bool fading = false;
    bool resting = false;
    for (const ZoneView& z : zones) {
        moving = moving || z.pending_kib > 0 || z.leaving_kib > 0;
        leaving = leaving || z.leaving_kib > 0;
        fading =
            fading || (z.may_change && z.slow_need_kib > z.quick_need_kib + kShrinkStepMinKib &&
                       z.target_kib > std::max(z.floor_kib, z.quick_need_kib));
        resting = resting || (slack_kib(z, Hurry::no) > 0 && !rested(z, now_ms));
    }
    if (plan.waiting_kib > 0 && leaving) {
        return now_ms + kConfirmEveryMs;
    }
    if (moving) {
        return now_ms + kConfirmSlowlyEveryMs;
    }
    // A zone that waits is looked after though nothing moves: memory may come free untold, when
    // another toolstack gives some back or a dead domain's last pages are unmapped.
    if (plan.waiting_kib > 0 || (plan.state != HostState::plenty && (fading || resting))) {
        return now_ms + kFadingEveryMs;
    }
    return std::nullopt;
}

}  // namespace

Plan plan(const HostView& host, const std::vector<ZoneView>& zones, std::int64_t now_ms) {
    Plan plan;
    std::uint64_t pending_kib = host.promised_kib;
    std::uint64_t leaving_kib = 0;
    for (const ZoneView& z : zones) {
        pending_kib += z.pending_kib;
        leaving_kib += z.leaving_kib;
    }
    plan.spendable_kib = minus(host.free_kib, host.emergency_kib + pending_kib);
    const Spent spent = add_grows(zones, plan);
    leaving_kib -= spent.leaving_kib;

    const std::uint64_t left_kib = minus(host.free_kib, pending_kib + spent.free_kib);
    const std::uint64_t lacking_kib = minus(host.reserve_kib, left_kib);
    plan.state = plan.waiting_kib > 0 ? HostState::shortage
                 : lacking_kib > 0    ? HostState::tight
                                      : HostState::plenty;

    add_limit_shrinks(zones, now_ms, plan);
    if (plan.state == HostState::shortage) {
        const std::uint64_t needed_kib = minus(plan.waiting_kib, leaving_kib);
        add_shrinks(zones, take(needed_kib, zones, quick_caps(zones), Hurry::yes), ChangeWhy::give,
                    host, plan);
    } else if (plan.state == HostState::tight) {
        const std::uint64_t needed_kib = minus(lacking_kib, leaving_kib);
        add_shrinks(zones, take(needed_kib, zones, slow_caps(zones, now_ms), Hurry::no),
                    ChangeWhy::reserve, host, plan);
    }
    plan.look_again_ms = next_look(zones, plan, now_ms);
    return plan;
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
    for (const Row& row : kRows) {
        if (size_kib < row.below_mib * kMib) {
            return row.base_mib * kMib + size_kib / row.divisor;
        }
    }
    return size_kib / 32;
}

}  // namespace xenpack
