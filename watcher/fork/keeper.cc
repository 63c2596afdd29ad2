// SPDX-License-Identifier: LGPL-2.1-or-later
// In the order of a look: what is new, what others have done, what is decided, what is said of it.
#include "watcher/fork/keeper.h"

#include <algorithm>
#include <cerrno>

#include "watcher/fault_point.h"
#include "watcher/fork/progress.h"
#include "watcher/kib.h"

namespace xenpack {
namespace {

bool is_paused(const Zone& zone) {
    return (zone.domain.flags & XENPACK_DOMAIN_IS_PAUSED) != 0;
}

// One that writes, or may: it has not ended, and is complete or runs already before that. `held`:
// by us, which says that it ran.
bool is_kept(const Zone& zone, bool held) {
    constexpr std::uint32_t kEnded = XENPACK_DOMAIN_IS_SHUTDOWN | XENPACK_DOMAIN_IS_DYING;
    if (!zone.family.is_fork() || (zone.domain.flags & kEnded) != 0) {
        return false;
    }
    return zone.family.kind == Family::Kind::fork || held || !is_paused(zone);
}

// The most it may come to hold: Xen refuses it more, and its kernel knows of no more.
std::uint64_t size_kib(const Zone& fork) {
    return std::min(fork.domain.limit_kib, fork.static_max_kib.value_or(fork.domain.limit_kib));
}

}  // namespace

Keeper::Keeper(Store& store, Toolstack& toolstack, Say say)
    : store_(store), toolstack_(toolstack), say_(std::move(say)) {}

bool Keeper::stands_still(const ZoneKey& key) const {
    const auto at = kept_.find(key);
    return at != kept_.end() && (at->second.held || at->second.starved);
}

bool Keeper::holds(const ZoneKey& key) const {
    const auto at = kept_.find(key);
    return at != kept_.end() && at->second.held;
}

bool Keeper::cannot_serve(const ZoneKey& key) const {
    const auto at = kept_.find(key);
    return at != kept_.end() && !at->second.served && at->second.serve_ms > 0;
}

std::optional<Keeper::Waiting> Keeper::waiting(const ZoneKey& key) const {
    if (!stands_still(key)) {
        return std::nullopt;
    }
    const Kept& kept = kept_.at(key);
    return Waiting{
        kept.held, kept.starved, kept.waits_since_ms,
        fmt::format("{}; {} MiB are free for forks",
                    kept.starved ? "Xen had no memory left when it wrote, and it waits for some"
                                 : "it is held until there is room for what it may write",
                    mib(spendable_kib_))};
}

// ---- what there is ------------------------------------------------------------------------------

void Keeper::follow(const std::vector<Zone*>& zones, std::int64_t now_ms) {
    for (const Zone* zone : zones) {
        const auto at = kept_.find(zone->key);
        const bool known = at != kept_.end();
        if (!is_kept(*zone, known && at->second.held)) {
            kept_.erase(zone->key);
        } else if (!known) {
            take_in(*zone, now_ms);
        } else {
            note_others(*zone, at->second, now_ms);
        }
    }
}

void Keeper::take_in(const Zone& fork, std::int64_t now_ms) {
    Kept& kept = kept_[fork.key];
    kept.last_kib = kept.base_kib = fork.domain.current_kib;
    kept.base_ms = now_ms;
    const auto node = store_.read(domain_path(fork.key.domid, kHeldPath));
    if (node && *node && **node == kHeldByGuard) {
        if (is_paused(fork)) {
            kept.held = true;
            kept.waits_since_ms = now_ms;
            say_(&fork, false, "it was held for want of memory when xenpackd ended, and still is");
        } else {
            remove_node(fork);
        }
    }
    if (starved_early_.erase(fork.key) > 0) {
        starved(fork.key, now_ms);
    }
}

void Keeper::note_others(const Zone& fork, Kept& kept, std::int64_t now_ms) {
    if (kept.held && !is_paused(fork)) {
        kept.held = false;
        kept.grew_ms = now_ms;
        say_(&fork, false, "somebody has unpaused it, which was held for want of memory");
        remove_node(fork);
    }
}

void Keeper::starved(const ZoneKey& key, std::int64_t now_ms) {
    const auto at = kept_.find(key);
    if (at == kept_.end()) {
        starved_early_.insert(key);
    } else if (!at->second.starved) {
        at->second.starved = true;
        at->second.waits_since_ms = at->second.held ? at->second.waits_since_ms : now_ms;
    }
}

void Keeper::forget(const ZoneKey& key) {
    kept_.erase(key);
    starved_early_.erase(key);
}

// ---- what is done -------------------------------------------------------------------------------

void Keeper::act(const Host& host, const std::vector<Zone*>& zones, std::int64_t now_ms) {
    const std::int64_t asked_ms = std::exchange(next_look_ms_, std::nullopt).value_or(now_ms);
    late_now_ms_ = std::max<std::int64_t>(0, now_ms - asked_ms);
    wanted_ = {};
    std::vector<const Zone*> forks;
    GuardView view;
    view.free_kib = host.free_kib;
    view.floor_kib = host.floor_kib;
    view.could_come_kib = host.could_come_kib;
    view.cpus = host.cpus;
    view.late_ms = std::max(kGuardLateMs, late_ms_);
    for (const Zone* zone : zones) {
        const auto at = kept_.find(zone->key);
        if (at != kept_.end()) {
            forks.push_back(zone);
            view.forks.push_back(view_of(*zone, at->second, host, now_ms));
        }
    }
    const GuardPlan plan = guard(view);
    for (const std::size_t i : plan.hold) {
        hold(*forks[i], kept_.at(forks[i]->key), now_ms);
    }
    // Not before who is to be held is: what an earlier daemon's fork waits for is tried again by
    // it.
    const auto serve_ms = serve_all(forks, now_ms);
    for (const std::size_t i : plan.feed) {
        feed(*forks[i], kept_.at(forks[i]->key));
    }
    for (const std::size_t i : plan.let_go) {
        let_go(*forks[i], kept_.at(forks[i]->key), now_ms);
    }
    wanted_ = {plan.wanted_kib, plan.wanted_by_waiting_kib, plan.wanted_by_first_kib};
    spendable_kib_ = plan.spendable_kib;
    if (plan.look_in_ms) {
        next_look_ms_ = now_ms + *plan.look_in_ms;
    }
    if (serve_ms) {
        next_look_ms_ = std::min(next_look_ms_.value_or(*serve_ms), *serve_ms);
    }
    note_standstill(plan, host, forks, now_ms);
    tell(plan, forks, now_ms);
}

void Keeper::acted(std::int64_t began_ms, std::int64_t ended_ms) {
    const std::int64_t late_ms = late_now_ms_ + (ended_ms - began_ms);
    if (late_ms >= late_ms_ || ended_ms - late_at_ms_ >= kLateWithinMs) {
        late_ms_ = late_ms;
        late_at_ms_ = ended_ms;
    }
}

GuardFork Keeper::view_of(const Zone& fork, Kept& kept, const Host& host, std::int64_t now_ms) {
    const std::uint64_t private_kib = fork.domain.current_kib;
    if (private_kib >= kept.base_kib + kGrowsKib) {
        kept.grew_ms = now_ms;
        kept.base_kib = private_kib;
        kept.base_ms = now_ms;
    } else if (private_kib < kept.base_kib || now_ms - kept.base_ms >= kGrowsWithinMs) {
        kept.base_kib = private_kib;
        kept.base_ms = now_ms;
    }
    GuardFork view;
    view.private_kib = private_kib;
    view.size_kib = size_kib(fork);
    view.vcpus = std::max(1u, fork.domain.vcpus_online);
    view.runs = !is_paused(fork) && !kept.held;
    view.held = kept.held;
    view.starved = kept.starved;
    view.grows = private_kib > host.fork_reserve_kib && kept.grew_ms &&
                 now_ms - *kept.grew_ms < kGrowsWithinMs;
    view.growth_kib = minus(private_kib, kept.last_kib);
    view.waits_since_ms = kept.waits_since_ms;
    kept.last_kib = private_kib;
    return view;
}

// Without its node the next daemon would not know whom to let go; but unheld it may be corrupted.
// Who destroys a fork takes its nodes away first, and they must not come to be again.
void Keeper::note_held(const Zone& fork, Kept& kept) {
    const auto noted =
        store_.write_guarded(domain_path(fork.key.domid, "vm"), "/vm/" + to_string(fork.key.uuid),
                             {{domain_path(fork.key.domid, kHeldPath), kHeldByGuard}});
    if (!noted && noted.error().code != ESRCH) {
        fault(fork, kept, noted.error(), "that it is held is not known after a restart");
    }
}

void Keeper::hold(const Zone& fork, Kept& kept, std::int64_t now_ms) {
    note_held(fork, kept);
    fault_point("guard.noted");
    if (const auto held = toolstack_.hold(fork.key.domid, fork.key.uuid); !held) {
        remove_node(fork);
        if (held.error().code != ESRCH) {
            fault(fork, kept, held.error(), "it cannot be held while memory is short");
        }
        return;
    }
    fault_point("guard.held");
    kept.held = true;
    kept.fault.clear();
    kept.waits_since_ms = kept.starved ? kept.waits_since_ms : now_ms;
}

// When to try again, or to look anew at whom that has shown to be held.
std::optional<std::int64_t> Keeper::serve_all(const std::vector<const Zone*>& forks,
                                              std::int64_t now_ms) {
    std::optional<std::int64_t> again_ms;
    for (const Zone* fork : forks) {
        Kept& kept = kept_.at(fork->key);
        const bool was_held = kept.held;
        serve(*fork, kept, now_ms);
        if (!kept.served) {
            again_ms = std::min(again_ms.value_or(kept.serve_ms), kept.serve_ms);
        } else if (kept.held != was_held) {
            again_ms = now_ms;
        }
    }
    return again_ms;
}

// ENOSYS: nothing is served here, and nothing starves. ESRCH is seen at the next look.
void Keeper::serve(const Zone& fork, Kept& kept, std::int64_t now_ms) {
    if (kept.served || now_ms < kept.serve_ms) {
        return;
    }
    const auto adopted = toolstack_.adopt(fork.key.domid, fork.key.uuid);
    kept.served = adopted || adopted.error().code == ENOSYS;
    kept.serve_ms = now_ms + kServeAgainMs;
    if (adopted && *adopted && !kept.held) {
        note_held(fork, kept);
        kept.held = true;
        kept.waits_since_ms = now_ms;
        say_(&fork, false, "it is paused since an earlier xenpackd ended");
    }
    if (kept.served) {
        kept.fault.clear();
    } else if (adopted.error().code != ESRCH) {
        fault(fork, kept, adopted.error(), "it is not told of yet where it finds no memory");
    }
}

void Keeper::feed(const Zone& fork, Kept& kept) {
    if (const auto fed = toolstack_.feed(fork.key.domid, fork.key.uuid); fed) {
        kept.starved = false;
        kept.fault.clear();
    } else if (fed.error().code != ESRCH) {
        fault(fork, kept, fed.error(), "it waits for memory and cannot be fed");
    }
}

void Keeper::let_go(const Zone& fork, Kept& kept, std::int64_t now_ms) {
    const auto gone = toolstack_.let_go(fork.key.domid, fork.key.uuid);
    if (!gone && gone.error().code != ESRCH) {
        fault(fork, kept, gone.error(), "it is held and cannot be let go");
        return;
    }
    fault_point("guard.let_go");
    kept.held = false;
    kept.fault.clear();
    kept.grew_ms = now_ms;  // it may be about to
    remove_node(fork);
}

void Keeper::remove_node(const Zone& fork) {
    if (const auto removed = store_.remove(domain_path(fork.key.domid, kHeldPath)); !removed) {
        say_(&fork, true, removed.error().what);
    }
}

void Keeper::fault(const Zone& fork, Kept& kept, const Error& error, const char* during) {
    if (kept.fault != error.what) {
        kept.fault = error.what;
        say_(&fork, true, fmt::format("{}: {}", during, error.what));
    }
}

// ---- what is said -------------------------------------------------------------------------------

void Keeper::note_standstill(const GuardPlan& plan, const Host& host,
                             const std::vector<const Zone*>& forks, std::int64_t now_ms) {
    if (!plan.stands_first) {
        none_goes_on_ms_.reset();
        standstill_.clear();
        return;
    }
    none_goes_on_ms_ = none_goes_on_ms_.value_or(now_ms);
    if (now_ms - *none_goes_on_ms_ < kStandstillMs) {
        return;
    }
    standstill_ = fmt::format(
        "none of the {} forks that are held for want of memory can go on: {} is the next and needs "
        "{} MiB above what is kept for zones in danger ([host] emergency, {} MiB), {} MiB are free "
        "in all, and zones could give {} MiB more; end a fork or a zone, or lower a zone's ceiling "
        "or floor (xenpack set)",
        plan.waiting, forks[*plan.stands_first]->name, mib_above(plan.wanted_by_first_kib),
        mib(host.floor_kib), mib(host.free_kib), mib(host.could_come_kib));
    if (!standstill_said_ms_ || now_ms - *standstill_said_ms_ >= kStandstillAgainMs) {
        standstill_said_ms_ = now_ms;
        say_(nullptr, true, standstill_);
    }
}

void Keeper::tell(const GuardPlan& plan, const std::vector<const Zone*>& forks,
                  std::int64_t now_ms) {
    std::vector<std::string> unsaid;
    for (const Zone* fork : forks) {
        Kept& kept = kept_.at(fork->key);
        if ((kept.held || kept.starved) && !std::exchange(kept.held_said, true)) {
            unsaid.push_back(fork->name);
        }
        if (kept.starved && !std::exchange(kept.starved_said, true)) {
            say_(fork, true,
                 "it wrote where Xen had no memory left, and waits until there is some");
        }
    }
    if (plan.waiting > 0) {
        if (!began_ms_) {
            began_ms_ = now_ms;
            say_(nullptr, false,
                 fmt::format("{} MiB are free for forks, which could write {} MiB more than that; "
                             "held until there is room: {}",
                             mib(plan.spendable_kib), mib(plan.lacking_kib), list_of(unsaid)));
        } else if (!unsaid.empty()) {
            say_(nullptr, false,
                 fmt::format("{} MiB are free for forks; held as well: {}", mib(plan.spendable_kib),
                             list_of(unsaid)));
        }
        last_waiting_ms_ = now_ms;
        return;
    }
    if (!began_ms_) {
        return;
    }
    if (now_ms - last_waiting_ms_ < kKeeperCalmMs) {
        const std::int64_t over_ms = last_waiting_ms_ + kKeeperCalmMs;
        next_look_ms_ = std::min(next_look_ms_.value_or(over_ms), over_ms);
        return;
    }
    say_(nullptr, false,
         fmt::format("no fork has to be held for want of memory any more, which began {} ago",
                     show_ms(now_ms - *began_ms_)));
    began_ms_.reset();
    for (auto& [key, kept] : kept_) {
        kept.held_said = kept.starved_said = false;
    }
}

}  // namespace xenpack
