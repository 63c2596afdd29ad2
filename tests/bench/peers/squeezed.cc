// SPDX-License-Identifier: LGPL-2.1-or-later
// The rule, one attempt to follow it, and the daemon that tries every ten seconds and at each
// start.
#include "tests/bench/peers/squeezed.h"

#include <cstdlib>

namespace xenpack::bench::squeezed {
namespace {

constexpr std::int64_t kStuckAfterMs = 5'000;
constexpr std::int64_t kBalanceMs = 10'000;
constexpr std::int64_t kLookMs = 1'000;
// XenServer supports a static maximum of up to four times the dynamic minimum.
constexpr std::uint64_t kMostPerLeast = 4;

std::int64_t as_signed(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

bool is_hit(const View& view, std::int64_t target) {
    return std::abs(view.actual - target) <= view.inaccuracy;
}

std::int64_t can_free(const View& view) {
    return std::max<std::int64_t>(0, view.actual - view.least - 2 * view.inaccuracy);
}

std::int64_t range(const View& view) {
    return std::max<std::int64_t>(0, view.most - view.least);
}

}  // namespace

std::map<std::uint32_t, std::int64_t> proportional(const std::vector<View>& views,
                                                   std::int64_t free_kib,
                                                   std::int64_t leave_free_kib) {
    std::int64_t surplus = free_kib - leave_free_kib;
    std::int64_t ranges = 0;
    for (const View& view : views) {
        surplus += can_free(view);
        ranges += range(view);
    }
    const double share =
        ranges == 0
            ? 0
            : std::clamp(static_cast<double>(surplus) / static_cast<double>(ranges), 0., 1.);
    std::map<std::uint32_t, std::int64_t> targets;
    for (const View& view : views) {
        targets[view.id] =
            view.least + static_cast<std::int64_t>(share * static_cast<double>(range(view)));
    }
    return targets;
}

void Squeezer::watch(const std::vector<View>& views, std::int64_t now_ms) {
    for (const View& view : views) {
        Progress& progress =
            progress_.try_emplace(view.id, Progress{view.actual, now_ms, false}).first->second;
        const std::int64_t moved = view.actual - progress.last_actual;
        progress.last_actual = view.actual;
        const bool wants_move = !is_hit(view, view.target);
        const bool grows = view.target > view.actual;
        if (wants_move && ((moved > 0 && grows) || (moved < 0 && !grows))) {
            progress.moved_ms = now_ms;
            progress.stuck = false;
        }
        if (wants_move && now_ms - progress.moved_ms > kStuckAfterMs) {
            progress.stuck = true;
        }
    }
}

Step Squeezer::look(const std::vector<View>& views, std::int64_t free_kib,
                    std::int64_t leave_free_kib, bool success, std::int64_t now_ms) {
    watch(views, now_ms);
    Step step;
    std::vector<View> active;
    for (const View& view : views) {
        if (!progress_[view.id].stuck) {
            active.push_back(view);
            continue;
        }
        step.stuck.insert(view.id);
        if (!stuck_.contains(view.id)) {
            step.newly_stuck.insert(view.id);
        }
    }
    stuck_ = step.stuck;
    // Who frees comes first; who takes, once nobody is freeing.
    std::map<std::uint32_t, std::int64_t> freeing;
    std::map<std::uint32_t, std::int64_t> taking;
    const auto targets = proportional(active, free_kib, leave_free_kib);
    bool reached = true;
    for (const View& view : active) {
        const std::int64_t target = targets.at(view.id);
        const bool frees = !is_hit(view, target) && target < view.actual;
        (frees ? freeing : taking)[view.id] = target;
        reached = reached && is_hit(view, view.target);
    }
    step.targets = freeing.empty() ? std::move(taking) : std::move(freeing);
    const bool changes = std::any_of(active.begin(), active.end(), [&](const View& view) {
        const auto target = step.targets.find(view.id);
        return target != step.targets.end() && target->second != view.target;
    });
    if (!reached || changes) {
        step.verdict = Verdict::adjust;
    } else {
        step.verdict = success ? Verdict::success : Verdict::failure;
        step.targets.clear();
    }
    return step;
}

// A start is served like a zone that is there already: with its share of what can be freed.
sim::DomainConfig Squeezed::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    View starting;
    starting.least = as_signed(full_kib / kMostPerLeast);
    starting.most = as_signed(full_kib);
    const std::uint64_t aside_kib =
        sim::Host::start_cost_kib(start_with(full_kib, full_kib)) - full_kib;
    std::vector<View> all = seen_;
    all.push_back(starting);
    const std::int64_t target =
        proportional(all, seen_free_kib_ - as_signed(aside_kib), kHostFreeKib).at(starting.id);
    return start_with(static_cast<std::uint64_t>(target), full_kib);
}

void Squeezed::zone_started(const sim::Domain&, std::int64_t now_ms) {
    next_balance_ms_ = now_ms;
}

std::vector<View> Squeezed::views(const sim::Host& host) const {
    std::vector<View> result;
    for (const auto& domain : host.domains()) {
        View view;
        view.id = domain->domid;
        view.most = as_signed(domain->config.max_memory_kib);
        view.least = view.most / as_signed(kMostPerLeast);
        view.target = as_signed(domain->target_kib);
        view.actual = as_signed(domain->current_kib);
        // Before its driver is up, its size is fixed.
        if (domain->guest.stats().uptime_ms >= domain->config.balloon.boot_ms) {
            result.push_back(view);
        }
    }
    return result;
}

void Squeezed::step(sim::Host& host, std::int64_t now_ms) {
    seen_ = views(host);
    seen_free_kib_ = as_signed(host.free_kib());
    if (!run_ && now_ms >= next_balance_ms_) {
        run_.emplace();
        for_start_ = false;
        leave_free_kib_ = kHostFreeKib;
        next_look_ms_ = now_ms;
    }
    if (run_ && now_ms >= next_look_ms_) {
        look(host, now_ms);
    }
}

void Squeezed::look(sim::Host& host, std::int64_t now_ms) {
    const std::int64_t free_kib = as_signed(host.free_kib());
    const bool success =
        for_start_ ? free_kib >= leave_free_kib_ : free_kib - kHostFreeKib < kToleranceKib;
    const Step step = run_->look(seen_, free_kib, leave_free_kib_, success, now_ms);
    for (const std::uint32_t id : step.newly_stuck) {
        if (sim::Domain* domain = host.find(id)) {
            const std::uint64_t most_kib = domain->config.max_memory_kib;
            const std::uint64_t holds_kib = std::min(domain->target_kib, domain->current_kib);
            host.set_limit(*domain, std::clamp(holds_kib, most_kib / kMostPerLeast, most_kib));
        }
    }
    for (const auto& [id, target] : step.targets) {
        if (sim::Domain* domain = host.find(id)) {
            set_target(host, *domain, static_cast<std::uint64_t>(target));
        }
    }
    next_look_ms_ = now_ms + kLookMs;
    if (step.verdict != Verdict::adjust) {
        run_.reset();
        next_balance_ms_ = now_ms + kBalanceMs;
    }
}

bool Squeezed::make_room(sim::Host& host, std::uint64_t cost_kib) {
    const std::int64_t wanted_kib = as_signed(cost_kib) + kHostFreeKib;
    if (as_signed(host.free_kib()) >= wanted_kib) {
        run_.reset();
        return true;
    }
    if (!run_ || !for_start_) {
        run_.emplace();
        for_start_ = true;
        next_look_ms_ = host.now_ms();
    }
    leave_free_kib_ = wanted_kib;
    return false;
}

}  // namespace xenpack::bench::squeezed
