// SPDX-License-Identifier: LGPL-2.1-or-later
// One look at each pool: its template, who waits, what is missing, what is too much.
#include "watcher/fork/pools.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <set>
#include <utility>

#include "watcher/fork/callers.h"
#include "watcher/fork/names.h"

namespace xenpack {
namespace {

bool stands(const Zone& zone) {
    return zone.family.kind == Family::Kind::fork && !zone.family.pool.empty() &&
           zone.family.in_pool == Family::InPool::stands;
}

std::set<std::string> sealed_uuids(Zones& zones) {
    std::set<std::string> uuids;
    for (const Zone* zone : zones.all()) {
        if (zone->family.kind == Family::Kind::sealed && !is_spoilt(*zone)) {
            uuids.insert(to_string(zone->key.uuid));
        }
    }
    return uuids;
}

bool has_ended(const Zone& zone) {
    return (zone.domain.flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0;
}

}  // namespace

Pools::Pools(Loop& loop, Zones& zones, Forks& forks, Mediator& mediator)
    : zones_(zones),
      forks_(forks),
      mediator_(mediator),
      wake_(loop.make_timer([this] { mediator_.pools_changed(); })) {}

Pools::~Pools() = default;

// What was tried in vain may go well now.
void Pools::configure(const std::vector<PoolConfig>& pools) {
    std::map<std::string, Pool, std::less<>> before = std::exchange(pools_, {});
    for (const PoolConfig& config : pools) {
        Pool pool;
        if (const auto at = before.find(config.name); at != before.end()) {
            pool = std::move(at->second);
            before.erase(at);
            if (pool.config.running != config.running ||
                pool.config.template_name != config.template_name) {
                stop_making(config.name);
            }
        }
        pool.config = config;
        pool.trouble = {};
        pools_.emplace(config.name, std::move(pool));
    }
    for (auto& [name, gone] : before) {
        stop_making(name);
        refuse_all(gone, {"the pool " + name + " is not in the configuration any more", ENOENT});
    }
    mediator_.pools_changed();
}

// ---- what there is ------------------------------------------------------------------------------

std::size_t Pools::in_hand(const std::string& pool) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(making_, [&](const auto& each) { return each.second == pool; }));
}

bool Pools::is_left(const Zone& fork) const {
    return stands(fork) && !has_ended(fork) && !forks_.is_leaving(fork) && !forks_.is_awaited(fork);
}

// One that has run has taken its identity, or is about to: it cannot be given another.
std::string Pools::why_not_of(const Pool& pool, const std::string& template_uuid,
                              const Zone& fork) const {
    if (template_uuid.empty() || fork.family.template_uuid != template_uuid) {
        return fmt::format("its template is not the {} that the pool {} is of",
                           pool.config.template_name, pool.config.name);
    }
    const bool has_run = (fork.domain.flags & XENPACK_DOMAIN_NEVER_RAN) == 0 ||
                         forks_.keeper().stands_still(fork.key);
    if (has_run == pool.config.running) {
        return {};
    }
    return fmt::format("{}, and the pool {} keeps its forks {}",
                       has_run ? "it has run" : "it was left paused", pool.config.name,
                       pool.config.running ? "running" : "paused");
}

// It stands ready, but for memory, in the pool as it is now.
bool Pools::is_whole(const Pool& pool, const std::string& template_uuid, const Zone& zone) const {
    return zone.family.pool == pool.config.name && is_left(zone) &&
           (!pool.config.running || forks_.is_ready(zone) || forks_.is_left_paused(zone)) &&
           why_not_of(pool, template_uuid, zone).empty();
}

// Memory has to come for it before it goes on.
bool Pools::waits(const ZoneKey& fork) const {
    return forks_.keeper().stands_still(fork) || forks_.keeper().cannot_serve(fork);
}

// The oldest first.
std::vector<const Zone*> Pools::whole(const Pool& pool, bool waiting) const {
    const std::string wanted = uuid_of_template(pool);
    std::vector<const Zone*> list;
    for (const Zone* zone : zones_.all()) {
        if (is_whole(pool, wanted, *zone) && waits(zone->key) == waiting) {
            list.push_back(zone);
        }
    }
    return list;
}

// Those that can be handed out.
std::vector<const Zone*> Pools::standing(const Pool& pool) const {
    return whole(pool, false);
}

// Who waits for one of these gets it when it goes on.
std::vector<const Zone*> Pools::held(const Pool& pool) const {
    return whole(pool, true);
}

// Empty: there is none that is sealed.
std::string Pools::uuid_of_template(const Pool& pool) const {
    const auto found = forks_.sealed_template(pool.config.template_name);
    return found ? to_string((*found)->key.uuid) : "";
}

PoolSeen Pools::see(const Pool& pool) const {
    PoolSeen seen;
    seen.standing = standing(pool).size();
    seen.held = held(pool).size();
    seen.making = in_hand(pool.config.name);
    seen.takers = pool.takers.size();
    for (const Zone* zone : zones_.all()) {
        if (!zone->family.is_fork() || zone->family.pool != pool.config.name || has_ended(*zone) ||
            forks_.is_leaving(*zone)) {
            continue;
        }
        if (zone->family.in_pool != Family::InPool::stands) {
            ++seen.taken;
        }
    }
    // Made by an earlier daemon, and not ready yet.
    if (pool.config.running) {
        seen.making +=
            static_cast<std::size_t>(std::ranges::count_if(zones_.all(), [&](const Zone* zone) {
                return stands(*zone) && zone->family.pool == pool.config.name &&
                       !forks_.is_ready(*zone) && !forks_.is_awaited(*zone) && !has_ended(*zone) &&
                       !forks_.is_leaving(*zone) && !forks_.is_left_paused(*zone);
            }));
    }
    const auto found = forks_.sealed_template(pool.config.template_name);
    seen.no_template = found ? "" : found.error().what;
    return seen;
}

std::vector<PoolState> Pools::states() const {
    std::vector<PoolState> list;
    for (const auto& [name, pool] : pools_) {
        list.push_back({pool.config, see(pool), why_not(pool)});
    }
    std::ranges::sort(list, {}, [](const PoolState& state) { return state.config.line; });
    return list;
}

bool Pools::stands_ready(const Zone& fork) const {
    const auto pool = pools_.find(fork.family.pool);
    if (pool == pools_.end()) {
        return false;
    }
    return is_whole(pool->second, uuid_of_template(pool->second), fork) && !waits(fork.key);
}

// Where it is not said in the journal: that some are held is the guard's to say there, as it comes
// and goes.
std::string Pools::why_not(const Pool& pool) const {
    const std::size_t still = held(pool).size();
    if (still == 0) {
        return pool.why_not;
    }
    return fmt::format("{}{}{} of its forks {} held until there is memory (xenpack status)",
                       pool.why_not, pool.why_not.empty() ? "" : "; ", still,
                       still == 1 ? "is" : "are");
}

// ---- the look -----------------------------------------------------------------------------------

void Pools::follow() {
    const std::int64_t now_ms = Loop::now_ms();
    for (auto& [name, pool] : pools_) {
        follow_template(pool);
    }
    for (const Zone* zone : zones_.all()) {
        if (has_ended(*zone) && !is_suspend(zone->domain.shutdown_reason)) {
            note_end(*zone);
        }
    }
    give_up_strangers();
    waited_for_.clear();
    std::optional<std::int64_t> next_ms;
    const auto consider = [&](std::optional<std::int64_t> at_ms) {
        if (at_ms && (!next_ms || *at_ms < *next_ms)) {
            next_ms = at_ms;
        }
    };
    for (auto& [name, pool] : pools_) {
        refuse_late(pool, now_ms);
        serve_takers(pool);
        consider(forgive(pool, now_ms));
        const PoolSeen seen = see(pool);
        const PoolPlan plan =
            plan_pool({pool.config.ready, pool.config.most}, seen, pool.trouble, now_ms);
        tell(pool, plan.why_not, !seen.no_template.empty());
        give_up(pool, plan.give_up);
        make(pool, plan.make);
        const std::vector<const Zone*> still = held(pool);
        if (!pool.takers.empty() && in_hand(name) == 0 && still.empty() && see(pool).making == 0) {
            refuse_all(pool, refusal(pool, "stands ready"));
        }
        if (pool.trouble.again_ms > now_ms) {
            consider(pool.trouble.again_ms);
        }
        for (const Taker& taker : pool.takers) {
            consider(taker.until_ms);
        }
        for (const Zone* zone : still) {
            if (!pool.takers.empty()) {
                waited_for_.push_back(zone->key);
            }
        }
    }
    if (next_ms) {
        wake_->start(std::max<std::int64_t>(0, *next_ms - now_ms));
    } else {
        wake_->stop();
    }
}

bool Pools::can_go_on() const {
    return std::ranges::any_of(waited_for_, [&](const ZoneKey& key) { return !waits(key); });
}

// What was tried in vain with another may go well with this one.
void Pools::follow_template(Pool& pool) {
    const std::string uuid = uuid_of_template(pool);
    if (pool.template_uuid != uuid) {
        pool.template_uuid = uuid;
        pool.trouble = {};
    }
}

// Where one that was made since the last has died has lived for a while, all is well again. When
// that will be, where one may yet.
std::optional<std::int64_t> Pools::forgive(Pool& pool, std::int64_t now_ms) {
    if (!pool.trouble.died_ms) {
        return std::nullopt;
    }
    std::optional<std::int64_t> first_ms;
    for (const auto& [key, made_ms] : made_ms_) {
        const Zone* zone = zones_.find(key);
        if (zone != nullptr && zone->family.pool == pool.config.name && !has_ended(*zone) &&
            made_ms >= *pool.trouble.died_ms) {
            first_ms = std::min(first_ms.value_or(made_ms), made_ms);
        }
    }
    if (first_ms && now_ms - *first_ms >= kPoolYoungMs) {
        pool.trouble = {};
        return std::nullopt;
    }
    return first_ms ? std::optional(*first_ms + kPoolYoungMs) : std::nullopt;
}

// Those that no pool hands out any more: also where its template is yet to come. Of what a
// template's forks have not touched nothing is left once that one is gone.
void Pools::give_up_strangers() {
    const std::set<std::string> templates = sealed_uuids(zones_);
    for (const Zone* zone : zones_.all()) {
        if (!is_left(*zone)) {
            continue;
        }
        const auto pool = pools_.find(zone->family.pool);
        const std::string& uuid = zone->family.template_uuid;
        if (pool == pools_.end()) {
            dismiss(*zone,
                    fmt::format("the pool {} is not in the configuration", zone->family.pool));
        } else if (!templates.contains(uuid)) {
            dismiss(*zone, "its template has gone, or has run since it was sealed");
        } else if (const std::string why =
                       why_not_of(pool->second, pool->second.template_uuid, *zone);
                   !why.empty()) {
            dismiss(*zone, why);
        }
    }
}

void Pools::make(Pool& pool, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        ForksRequest asked;
        asked.template_name = pool.config.template_name;
        asked.name = pool.config.pattern;
        asked.paused = !pool.config.running;
        asked.until = pool.config.running ? Until::ready : Until::running;
        asked.pool = pool.config.name;
        if (pool.takers.empty()) {
            asked.memory_wait_ms = 0;  // nobody waits: no zone has to give for it
        }
        const std::uint64_t caller = kPoolsCaller | ++last_caller_;
        if (const auto begun = forks_.make_forks(asked, caller); !begun) {
            failed(pool, begun.error());
            return;
        }
        making_.emplace(caller, pool.config.name);
    }
}

// They would not be what the pool is to have now.
void Pools::stop_making(const std::string& pool) {
    std::vector<std::uint64_t> callers;
    for (const auto& [caller, made_for] : making_) {
        if (made_for == pool) {
            callers.push_back(caller);
        }
    }
    for (const std::uint64_t caller : callers) {
        making_.erase(caller);  // what becomes of it is no failure
        forks_.caller_gone(caller);
    }
}

// From the end: the first are the next to be taken.
void Pools::give_up(Pool& pool, std::size_t count) {
    if (count == 0) {
        return;
    }
    auto list = standing(pool);
    std::ranges::copy(held(pool), std::back_inserter(list));
    for (std::size_t i = 0; i < std::min(count, list.size()); ++i) {
        dismiss(*list[list.size() - 1 - i],
                fmt::format("the pool {} has more than it shall have", pool.config.name));
    }
}

// Its end is no failure.
void Pools::dismiss(const Zone& fork, const std::string& why) {
    made_ms_.erase(fork.key);
    forks_.give_up_standing(fork, why);
}

bool Pools::forks_answered(std::uint64_t caller, const Expected<std::vector<MadeFork>>& made) {
    const auto at = making_.find(caller);
    if (at == making_.end()) {
        return (caller & kPoolsCaller) != 0;
    }
    const auto pool = pools_.find(at->second);
    making_.erase(at);
    mediator_.pools_changed();
    if (pool == pools_.end()) {
        return true;
    }
    if (!made) {
        failed(pool->second, made.error());
        return true;
    }
    pool->second.trouble = after_success(std::move(pool->second.trouble));
    for (const MadeFork& fork : *made) {
        made_ms_[{fork.domid, fork.uuid}] = Loop::now_ms();
    }
    return true;
}

void Pools::failed(Pool& pool, const Error& why) {
    pool.trouble = after_failure(pool.trouble, why.what, why.code == ENOMEM, Loop::now_ms());
    tell(pool, pool.trouble.why, false);
    mediator_.pools_changed();  // follow() refuses who waits, where nothing else comes
}

// Once, when it is first seen: from then on its place is empty, though its domain may be there yet.
void Pools::note_end(const Zone& fork) {
    const auto made = made_ms_.find(fork.key);
    if (made == made_ms_.end()) {
        return;
    }
    const bool young = Loop::now_ms() - made->second < kPoolYoungMs;
    made_ms_.erase(made);
    const auto own = pools_.find(fork.family.pool);
    if (own != pools_.end() && stands(fork) && young) {
        Pool& pool = own->second;
        pool.trouble = after_death(pool.trouble,
                                   fmt::format("{} has gone as soon as it stood there", fork.name),
                                   Loop::now_ms());
        tell(pool, pool.trouble.why, false);
    }
}

void Pools::forget(const Zone& gone) {
    note_end(gone);
    if (!stands(gone)) {  // else two that die at once would wake each other
        for (auto& [name, pool] : pools_) {
            if (pool.trouble.lacks_memory) {
                pool.trouble = try_again_now(pool.trouble);
            }
        }
    }
    if (gone.family.kind == Family::Kind::sealed) {
        mediator_.pools_changed();
    }
}

// A cause is said when it comes to be, and that it is over once; not each time that it is tried,
// nor how far a template is that has yet to come.
void Pools::tell(Pool& pool, std::string why_not, bool lacks_template) {
    pool.why_not = std::move(why_not);
    const bool waits_on = std::exchange(pool.lacks_template, lacks_template) && lacks_template;
    if (!pool.why_not.empty() && pool.why_not != pool.said) {
        const bool tried_before = pool.trouble.failures > 1 && !pool.said.empty();
        pool.said = pool.why_not;
        if (!tried_before && !waits_on) {
            mediator_.pool_said(
                fmt::format("the pool {} is not full: {}", pool.config.name, pool.why_not));
        }
    } else if (pool.why_not.empty() && !pool.said.empty() && !pool.trouble.died_ms &&
               standing(pool).size() >= pool.config.ready) {
        pool.said.clear();
        mediator_.pool_said(fmt::format("the pool {} is full again", pool.config.name));
    }
}

// ---- handing out --------------------------------------------------------------------------------

// What no fork of the pool can be, whichever it is: else one would be made for it in vain.
Expected<void> Pools::check_take(const Pool& pool, const TakeRequest& asked) const {
    if (auto good = forks_.check_take(asked); !good) {
        return good;
    }
    if (!asked.address.empty() && pool.config.running) {
        return fail_with(EINVAL,
                         "forks of the pool {} have their identity already, and cannot be given an "
                         "address: those of pools with keep = paused can",
                         pool.config.name);
    }
    const auto found = forks_.sealed_template(pool.config.template_name);
    if (!asked.address.empty() && found && !(*found)->family.has_reporter) {
        return fail_with(EINVAL, "forks of {} take no identity, and so no address", (*found)->name);
    }
    for (const auto& [name, other] : pools_) {
        if (!asked.name.empty() && std::ranges::any_of(other.takers, [&](const Taker& taker) {
                return taker.asked.name == asked.name;
            })) {
            return fail_with(EEXIST,
                             "somebody who waits for a fork has asked for the name {} already: "
                             "choose another name",
                             asked.name);
        }
    }
    return {};
}

Expected<void> Pools::take(const std::string& name, const TakeRequest& asked,
                           std::uint64_t caller) {
    const auto at = pools_.find(name);
    if (at == pools_.end()) {
        return fail_with(ENOENT, "there is no pool {}: xenpack pool list shows which there are",
                         quoted(name));
    }
    Pool& pool = at->second;
    if (auto good = check_take(pool, asked); !good) {
        return good;
    }
    // First come, first served.
    if (pool.takers.empty()) {
        for (const Zone* zone : standing(pool)) {
            auto taken = forks_.take(zone->key, asked, caller);
            if (taken || taken.error().code != ESRCH) {
                mediator_.pools_changed();
                return taken;
            }
        }
    }
    pool.trouble = try_again_now(pool.trouble);
    PoolSeen seen = see(pool);
    ++seen.takers;
    const PoolPlan plan =
        plan_pool({pool.config.ready, pool.config.most}, seen, pool.trouble, Loop::now_ms());
    if (plan.make == 0 && seen.making == 0 && seen.held == 0) {
        return fail_with(EAGAIN, "no fork of the pool {} stands ready: {}", name, plan.why_not);
    }
    pool.takers.push_back({caller, asked, Loop::now_ms() + asked.timeout_ms});
    mediator_.pools_changed();
    return {};
}

void Pools::serve_takers(Pool& pool) {
    const auto list = standing(pool);
    auto next = list.begin();
    while (!pool.takers.empty() && next != list.end()) {
        const Zone& zone = **next++;
        const Taker& taker = pool.takers.front();
        const auto taken = forks_.take(zone.key, taker.asked, taker.caller);
        if (!taken && taken.error().code == ESRCH) {
            continue;
        }
        const std::uint64_t caller = taker.caller;
        pool.takers.pop_front();
        if (!taken) {
            mediator_.take_refused(caller, taken.error());
            --next;
        }
    }
}

void Pools::refuse_late(Pool& pool, std::int64_t now_ms) {
    std::erase_if(pool.takers, [&](const Taker& taker) {
        if (now_ms < taker.until_ms) {
            return false;
        }
        mediator_.take_refused(
            taker.caller,
            refusal(pool, fmt::format("stood ready within {}", show_ms(taker.asked.timeout_ms))));
        return true;
    });
}

Error Pools::refusal(const Pool& pool, const std::string& what) const {
    const bool lacks_memory =
        !held(pool).empty() || (pool.trouble.lacks_memory && pool.why_not == pool.trouble.why);
    const std::string why = why_not(pool);
    return {fmt::format("no fork of the pool {} {}{}{}", pool.config.name, what,
                        why.empty() ? "" : ": ", why),
            lacks_memory ? ENOMEM : EAGAIN};
}

void Pools::refuse_all(Pool& pool, const Error& why) {
    for (const Taker& taker : std::exchange(pool.takers, {})) {
        mediator_.take_refused(taker.caller, why);
    }
}

void Pools::caller_gone(std::uint64_t caller) {
    for (auto& [name, pool] : pools_) {
        std::erase_if(pool.takers, [&](const Taker& taker) { return taker.caller == caller; });
    }
}

}  // namespace xenpack
