// SPDX-License-Identifier: LGPL-2.1-or-later
// Whose turn it is, who may run beside, what follows from that. Pure.
#include "watcher/fork/guard.h"

#include <algorithm>
#include <tuple>

#include "watcher/kib.h"

namespace xenpack {
namespace {

std::uint64_t lacks_kib(const GuardFork& fork) {
    return minus(fork.size_kib, fork.private_kib);
}

bool waits(const GuardFork& fork) {
    return fork.held || fork.starved;
}

// It wants memory, as far as can be seen.
bool wants(const GuardFork& fork) {
    return waits(fork) || (fork.runs && fork.grows);
}

bool counts(const GuardFork& fork) {
    return fork.runs || fork.held;
}

// What some forks could take before the next look, if that is `in_ms` away.
class Exposure {
  public:
    Exposure(const GuardView& view, std::int64_t in_ms)
        : quiet_kib_(dirty_kib(in_ms + kGuardLateMs)),
          wanting_kib_(dirty_kib(in_ms + std::clamp(view.late_ms, kGuardLateMs, kGuardLatestMs))),
          cpus_(std::max(1u, view.cpus)) {}

    void add(const GuardFork& fork) {
        const std::uint64_t each_kib = wants(fork) ? wanting_kib_ : quiet_kib_;
        most_kib_ = std::max(most_kib_, cpus_ * each_kib);
        lacks_kib_ += lacks_kib(fork);
        sum_kib_ += std::min(lacks_kib(fork), std::max(1u, fork.vcpus) * each_kib);
    }
    [[nodiscard]] std::uint64_t kib() const { return std::min(sum_kib_, most_kib_); }
    // What they could take if they were never looked at again.
    [[nodiscard]] std::uint64_t ever_kib() const { return lacks_kib_; }

  private:
    static std::uint64_t dirty_kib(std::int64_t ms) {
        return kDirtyKibPerMs * static_cast<std::uint64_t>(ms);
    }

    std::uint64_t quiet_kib_;  // one processor's
    std::uint64_t wanting_kib_;
    std::uint64_t cpus_;
    std::uint64_t most_kib_ = 0;
    std::uint64_t sum_kib_ = 0;
    std::uint64_t lacks_kib_ = 0;
};

// Of those that want memory: how much there must be so that all can have their full size one after
// the other, if each gives back what it has at its end. The nearest to its full size goes first.
std::uint64_t enough_for_turns_kib(const std::vector<GuardFork>& forks) {
    std::vector<const GuardFork*> wanting;
    for (const GuardFork& fork : forks) {
        if (wants(fork)) {
            wanting.push_back(&fork);
        }
    }
    std::ranges::sort(wanting, {}, [](const GuardFork* fork) { return lacks_kib(*fork); });
    std::uint64_t needed_kib = 0;
    std::uint64_t given_back_kib = 0;
    for (const GuardFork* fork : wanting) {
        needed_kib = std::max(needed_kib, minus(lacks_kib(*fork), given_back_kib));
        given_back_kib += fork->private_kib;
    }
    return needed_kib;
}

// Whose turn it is: of those that can have their full size, one that runs, the nearest to it; else
// the longest waiting. The same where none can.
std::optional<std::size_t> find_leader(const GuardView& view, std::uint64_t there_kib) {
    const auto rank = [&](const GuardFork& fork) {
        const bool running = fork.runs && !fork.starved;
        return std::tuple(
            lacks_kib(fork) > there_kib, !running,
            running ? static_cast<std::int64_t>(lacks_kib(fork)) : fork.waits_since_ms);
    };
    std::optional<std::size_t> leader;
    for (std::size_t i = 0; i < view.forks.size(); ++i) {
        const GuardFork& fork = view.forks[i];
        if (wants(fork) && (!leader || rank(fork) < rank(view.forks[*leader]))) {
            leader = i;
        }
    }
    return leader;
}

// In this order they are let run: the one whose turn it is, those that run and do not grow, those
// that grow, the least first, and those that wait, the longest first.
std::vector<std::size_t> by_claim(const GuardView& view, std::optional<std::size_t> leader) {
    const auto rank = [&](std::size_t i) {
        const GuardFork& fork = view.forks[i];
        const int group = i == leader ? 0 : waits(fork) ? 3 : fork.grows ? 2 : 1;
        const std::int64_t within =
            group == 3 ? fork.waits_since_ms : static_cast<std::int64_t>(fork.growth_kib);
        return std::tuple(group, within, i);
    };
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < view.forks.size(); ++i) {
        if (counts(view.forks[i])) {
            order.push_back(i);
        }
    }
    std::ranges::sort(order, {}, rank);
    return order;
}

// Who may run until a look in `in_ms`.
class Running {
  public:
    Running(const GuardView& view, std::int64_t in_ms)
        : view_(view),
          spendable_kib_(minus(view.free_kib, view.floor_kib)),
          there_kib_(spendable_kib_ + view.could_come_kib),
          all_(view, in_ms),
          others_(view, in_ms),
          may_(view.forks.size(), false) {
        leader_ = find_leader(view, there_kib_);
        leader_needs_kib_ = leader_ ? needs_kib(*leader_, beside_all(*leader_)) : 0;
        const std::uint64_t needed_kib = enough_for_turns_kib(view.forks);
        if (leader_ && needed_kib <= there_kib_) {
            for_others_kib_ =
                minus(there_kib_, std::max(needed_kib, lacks_kib(view.forks[*leader_])));
        }
        bool in_turn = true;
        for (const std::size_t i : by_claim(view, leader_)) {
            const bool waiting = waits(view.forks[i]);
            may_[i] = (!waiting || in_turn) && admit(i);
            if (waiting && in_turn && !may_[i]) {
                next_needs_kib_ = needs_kib(i, beside_all(i));
            }
            in_turn = in_turn && (!waiting || may_[i]);
        }
    }

    [[nodiscard]] bool may(std::size_t i) const { return may_[i]; }
    [[nodiscard]] std::uint64_t exposed_kib() const { return all_.kib(); }
    // What there must be to spend before the first that waits in vain goes on; 0: none does.
    [[nodiscard]] std::uint64_t next_needs_kib() const { return next_needs_kib_; }
    [[nodiscard]] std::optional<std::size_t> leader() const { return leader_; }
    // And so that the one whose turn it is runs, whoever else is held; 0: nobody wants memory.
    [[nodiscard]] std::uint64_t leader_needs_kib() const { return leader_needs_kib_; }

  private:
    [[nodiscard]] std::uint64_t needs_kib(std::size_t i, const Exposure& with) const {
        const std::uint64_t once_kib = with.kib();
        const bool once = !waits(view_.forks[i]) || (i == leader_ && 2 * once_kib > there_kib_);
        return std::min(with.ever_kib(), (once ? 1 : 2) * once_kib);
    }
    // Beside those that may run already.
    [[nodiscard]] Exposure beside_all(std::size_t i) const {
        Exposure with = all_;
        with.add(view_.forks[i]);
        return with;
    }
    [[nodiscard]] bool admit(std::size_t i) {
        const GuardFork& fork = view_.forks[i];
        const Exposure with = beside_all(i);
        // All that it and the others could ever take is there: nothing can go wrong.
        const bool plenty = with.ever_kib() <= spendable_kib_;
        const bool room = needs_kib(i, with) <= spendable_kib_;
        Exposure beside = others_;
        if (i != leader_) {
            beside.add(fork);
        }
        // One of which nothing says that it wants memory is not held for others' turns.
        const bool turns =
            i == leader_ || !wants(fork) || !for_others_kib_ || beside.kib() <= *for_others_kib_;
        if (!plenty && !(room && turns)) {
            return false;
        }
        all_ = with;
        others_ = beside;
        return true;
    }

    const GuardView& view_;
    std::uint64_t spendable_kib_;
    std::uint64_t there_kib_;  // with what zones could still give
    Exposure all_;
    Exposure others_;  // but for the one whose turn it is
    std::vector<bool> may_;
    std::optional<std::size_t> leader_;
    std::uint64_t leader_needs_kib_ = 0;
    std::uint64_t next_needs_kib_ = 0;
    std::optional<std::uint64_t> for_others_kib_;  // nothing: there is not enough for turns
};

// Whether all that run may go on running until a look so much later.
bool all_may(const GuardView& view, const Running& now, std::int64_t in_ms) {
    GuardView later = view;
    for (std::size_t i = 0; i < later.forks.size(); ++i) {
        GuardFork& fork = later.forks[i];
        // As it will be after this look's deeds.
        const bool there = counts(fork);
        fork.grows = fork.grows || (waits(fork) && now.may(i));
        fork.starved = fork.starved && !now.may(i);
        fork.held = there && !now.may(i);
        fork.runs = there && now.may(i);
    }
    const Running then(later, in_ms);
    for (std::size_t i = 0; i < later.forks.size(); ++i) {
        if (later.forks[i].runs && !then.may(i)) {
            return false;
        }
    }
    return true;
}

std::optional<std::int64_t> next_look_ms(const GuardView& view, const Running& now,
                                         const GuardPlan& plan) {
    const bool grows = std::ranges::any_of(
        view.forks, [](const GuardFork& fork) { return fork.runs && fork.grows; });
    const bool eases = !plan.let_go.empty() || !plan.feed.empty();
    if (plan.waiting == 0 && !grows && !eases && all_may(view, now, kQuietMs)) {
        return std::nullopt;
    }
    const std::int64_t most_ms = plan.waiting > 0 ? kGuardWaitLookMs : kGuardSlowLookMs;
    std::int64_t in_ms = kGuardLookMs;
    while (2 * in_ms <= most_ms && all_may(view, now, 2 * in_ms)) {
        in_ms *= 2;
    }
    return in_ms;
}

// What those that want memory could use soon. Where one has its turn it gets it step by step as
// well, as others' memory is needed where it is until then.
void note_wants(const GuardView& view, const Running& now, GuardPlan& plan) {
    bool goes_on = false;
    for (std::size_t i = 0; i < view.forks.size(); ++i) {
        const GuardFork& fork = view.forks[i];
        if (counts(fork) && wants(fork)) {
            const std::uint64_t step_kib = std::min(lacks_kib(fork), kGuardStepKib);
            plan.wanted_kib += step_kib;
            plan.wanted_by_waiting_kib += now.may(i) ? 0 : step_kib;
            goes_on = goes_on || now.may(i);
        }
    }
    if (plan.waiting > 0) {
        // No less than lets the next of those that wait go on, or it would wait for ever.
        plan.wanted_by_waiting_kib =
            std::max(plan.wanted_by_waiting_kib + now.exposed_kib(), now.next_needs_kib());
    }
    if (plan.wanted_kib > 0) {
        plan.wanted_kib = std::max(plan.wanted_kib + now.exposed_kib(), now.next_needs_kib());
        plan.wanted_by_first_kib = now.leader_needs_kib();
    }
    if (plan.waiting > 0 && !goes_on) {
        plan.stands_first = now.leader();
    }
}

}  // namespace

GuardPlan guard(const GuardView& view) {
    GuardPlan plan;
    plan.spendable_kib = minus(view.free_kib, view.floor_kib);
    std::uint64_t ever_kib = 0;
    for (const GuardFork& fork : view.forks) {
        ever_kib += counts(fork) ? lacks_kib(fork) : 0;
    }
    plan.lacking_kib = minus(ever_kib, plan.spendable_kib);
    const Running running(view, kGuardLookMs);
    for (const std::size_t i : by_claim(view, std::nullopt)) {
        const GuardFork& fork = view.forks[i];
        if (!running.may(i)) {
            ++plan.waiting;
        }
        if (fork.runs && !running.may(i)) {
            plan.hold.insert(plan.hold.begin(), i);  // those that grow most first
        }
        if (fork.starved && running.may(i)) {
            plan.feed.push_back(i);
        }
        if (fork.held && running.may(i)) {
            plan.let_go.push_back(i);
        }
    }
    if (plan.lacking_kib == 0) {
        return plan;  // whatever they do, there is enough
    }
    note_wants(view, running, plan);
    plan.look_in_ms = next_look_ms(view, running, plan);
    return plan;
}

}  // namespace xenpack
