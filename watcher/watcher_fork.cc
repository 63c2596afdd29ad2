// SPDX-License-Identifier: LGPL-2.1-or-later
// The watcher's part in templates and forks: what a request asks for, the memory that is promised
// to forks, and what is shown of them. Their lives are fork/'s.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "watcher/fork/callers.h"
#include "watcher/kib.h"
#include "watcher/loop/loop.h"
#include "watcher/watcher.h"
#include "watcher/watcher_asked.h"

namespace xenpack {
namespace {

using nlohmann::json;

// What is kept for forks that never come must not be kept for ever.
constexpr std::int64_t kForksDeadlineMs = 3'600'000;

const char* state_of_template(const Zone& zone) {
    return is_spoilt(zone)                            ? "spoilt"
           : zone.family.kind == Family::Kind::sealed ? "sealed"
                                                      : "sealing";
}

Expected<TemplateRequest> parse_template(const json& asked) {
    static constexpr std::array<std::string_view, 4> kKnown{"zone", "name", "identity",
                                                            "timeout_ms"};
    static constexpr std::array<std::string_view, 2> kIdentities{"guest", "none"};
    const auto known = check_members(asked, kKnown, "a template");
    const auto zone = asked_text(asked, "zone");
    const auto name = asked_text(asked, "name");
    const auto identity = asked_word(asked, "identity", kIdentities);
    const auto timeout_ms =
        asked_number<std::int64_t>(asked, "timeout_ms", kAnswerMs, kAnswerMostMs);
    if (const Error* error = first_error(known, zone, name, identity, timeout_ms)) {
        return tl::unexpected(*error);
    }
    if (zone->empty()) {
        return fail_with(EINVAL,
                         "zone must be the name or domid of the zone to make a template of");
    }
    return TemplateRequest{*zone, *name, *identity == 0, *timeout_ms};
}

Expected<ForksRequest> parse_forks(const json& asked) {
    static constexpr std::array<std::string_view, 7> kKnown{
        "template", "count", "name", "until", "paused", "address", "timeout_ms"};
    static constexpr std::array<std::string_view, 2> kUntil{"ready", "running"};
    const auto known = check_members(asked, kKnown, "a request for forks");
    const auto template_name = asked_text(asked, "template");
    const auto count = asked_number<unsigned>(asked, "count", 1, 1'000'000);
    const auto name = asked_text(asked, "name");
    const auto until = asked_word(asked, "until", kUntil);
    const auto paused = asked_yes(asked, "paused");
    const auto address = asked_text(asked, "address");
    const auto timeout_ms =
        asked_number<std::int64_t>(asked, "timeout_ms", kAnswerMs, kAnswerMostMs);
    if (const Error* error =
            first_error(known, template_name, count, name, until, paused, address, timeout_ms)) {
        return tl::unexpected(*error);
    }
    if (template_name->empty()) {
        return fail_with(EINVAL, "template must be the name of one");
    }
    return ForksRequest{
        *template_name,
        *count,
        *name,
        *until == 1 || (*paused && !asked.contains("until")) ? Until::running : Until::ready,
        *paused,
        *address,
        *timeout_ms};
}

DecisionKind kind_of(ForkNews::Kind kind) {
    switch (kind) {
        case ForkNews::Kind::sealed:
            return DecisionKind::sealed;
        case ForkNews::Kind::fork:
            return DecisionKind::fork;
        case ForkNews::Kind::fault:
            return DecisionKind::fault;
    }
    return DecisionKind::fault;
}

json fork_json(const MadeFork& fork) {
    const xenpack_fork_result& parts = fork.parts;
    return {{"name", fork.name},
            {"domid", fork.domid},
            {"uuid", to_string(fork.uuid)},
            {"made_ms", parts.whole_us / 1000.0},
            {"unpaused_ms", fork.paused ? json(nullptr) : json(parts.whole_us / 1000.0)},
            {"ready_ms", fork.ready_ms ? json(*fork.ready_ms) : json(nullptr)},
            {"phases_us",
             {{"create", parts.create_us},
              {"memory", parts.memory_us},
              {"store", parts.store_us},
              {"devices", parts.device_us}}}};
}

}  // namespace

// ---- requests -----------------------------------------------------------------------------------

// Requests are judged by what there is now.
Expected<void> Watcher::look_at_forks() {
    if (auto learned = learn(); !learned) {
        return learned;
    }
    forks_->follow();
    return {};
}

Expected<void> Watcher::make_template(const json& asked, const Control::Caller& caller) {
    const auto request = parse_template(asked);
    if (!request) {
        return tl::unexpected(request.error());
    }
    const auto looked = look_at_forks();
    return looked ? forks_->make_template(*request, caller.request) : looked;
}

Expected<void> Watcher::remove_template(const std::string& name, const Control::Caller& caller) {
    const auto looked = look_at_forks();
    return looked ? forks_->remove_template(name, caller.request) : looked;
}

Expected<void> Watcher::make_forks(const json& asked, const Control::Caller& caller) {
    const auto request = parse_forks(asked);
    if (!request) {
        return tl::unexpected(request.error());
    }
    if (auto looked = look_at_forks(); !looked) {
        return looked;
    }
    follow_starts();
    return forks_->make_forks(*request, caller.request);
}

// ---- answers ------------------------------------------------------------------------------------

void Watcher::fork_news(const ForkNews& news) {
    Decision decision = about_host(kind_of(news.kind), news.sentence);
    if (news.key != ZoneKey{}) {
        decision.zone = news.name;
        decision.domid = news.key.domid;
        decision.uuid = to_string(news.key.uuid);
    }
    publish(decision);
}

void Watcher::template_answered(std::uint64_t caller, const Expected<MadeTemplate>& made) {
    if (control_ != nullptr) {
        control_->answer(caller, made.map([](const MadeTemplate& one) {
            return json{{"name", one.name},
                        {"domid", one.key.domid},
                        {"uuid", to_string(one.key.uuid)},
                        {"took_ms", one.took_ms}};
        }));
    }
}

void Watcher::removal_answered(std::uint64_t caller, const Expected<void>& removed) {
    if (control_ != nullptr && !SelfForks::is_own(caller)) {
        control_->answer(caller, removed.map([] { return json::object(); }));
    }
}

void Watcher::forks_answered(std::uint64_t caller, const Expected<std::vector<MadeFork>>& made) {
    const bool own =
        pools_->forks_answered(caller, made) || self_forks_->forks_answered(caller, made);
    if (!own && control_ != nullptr) {
        control_->answer(caller, made.map([](const std::vector<MadeFork>& forks) {
            if (!forks.front().taken_from.empty()) {
                return taken_json(forks.front());
            }
            json list = json::array();
            for (const MadeFork& fork : forks) {
                list.push_back(fork_json(fork));
            }
            return json{{"forks", list}};
        }));
    }
}

// ---- memory -------------------------------------------------------------------------------------

// The daemon itself is the owner: what it has asked for ends with it, as does the request.
Expected<void> Watcher::ask_memory(std::uint64_t request, std::size_t forks,
                                   const std::string& owner, std::int64_t wait_ms) {
    const std::int64_t now_ms = Loop::now_ms();
    Reservation r;
    r.owner = owner;
    r.pid = ::getpid();
    r.size_kib = forks * config_.fork_reserve_kib;
    r.wait_until_ms = now_ms + wait_ms;
    r.at_once = wait_ms == 0;
    r.deadline_ms = now_ms + wait_ms + kForksDeadlineMs;
    return desk_->ask(std::move(r), supply(), kForksCaller | request);
}

bool Watcher::is_for_forks(std::uint64_t caller) {
    return (caller & kForksCaller) != 0;
}

void Watcher::forks_memory_answered(std::uint64_t caller, const Reservation& reservation,
                                    const Expected<void>& granted) {
    forks_->memory_answered(caller & ~kForksCaller, granted.map([&] { return reservation.id; }));
}

void Watcher::memory_not_wanted(std::uint64_t request) {
    desk_->caller_gone(kForksCaller | request);
}

void Watcher::memory_taken(std::uint64_t reservation) {
    desk_->use(reservation, config_.fork_reserve_kib);
}

void Watcher::memory_done(std::uint64_t reservation, bool all_taken) {
    if (all_taken) {
        desk_->hand_over(reservation);
    } else {
        (void)desk_->release(reservation);  // it may have ended by itself
    }
}

// Before the plan is carried out: who is to be held is held before zones grow. Below the floor is
// what zones in danger may still be given, and what Xen needs for itself.
void Watcher::guard_forks(const HostView& host, const Plan& decided, std::int64_t now_ms) {
    Keeper& keeper = forks_->keeper();
    Keeper::Host found;
    if (keeper.has_forks()) {
        std::uint64_t promised_kib = host.promised_kib + ledger_.pending_kib();
        for (const Change& change : decided.grow) {
            promised_kib += minus(change.to_kib, change.from_kib);
        }
        found.free_kib = minus(host.free_kib, promised_kib);
        found.floor_kib = std::max(decided.emergency_kib, kEmergencyLeastKib);
        found.could_come_kib = supply_beside(0).could_give_kib;
        found.cpus = host_.cpus;
        found.fork_reserve_kib = config_.fork_reserve_kib;
    }
    keeper.act(found, zones_->all(), now_ms);
    if (keeper.has_forks()) {
        keeper.acted(now_ms, Loop::now_ms());
    }
    if (pools_->can_go_on()) {
        look_soon();
    }
}

// ---- what is shown ------------------------------------------------------------------------------

json Watcher::templates_json() const {
    json list = json::array();
    for (const Zone* zone : zones_->all()) {
        if (zone->family.is_template()) {
            list.push_back({{"name", zone->name},
                            {"domid", zone->key.domid},
                            {"uuid", to_string(zone->key.uuid)},
                            {"state", state_of_template(*zone)},
                            {"identity", zone->family.has_reporter ? "guest" : "none"},
                            {"template", template_json(*zone)},
                            {"children", forks_->children_of(zone->key.uuid).size()},
                            {"memory_kib", zone->domain.current_kib + zone->domain.shared_kib},
                            {"shared_kib", zone->domain.shared_kib}});
        }
    }
    return list;
}

// The name of what it was forked of, or the uuid where that has gone; null: of nothing.
json Watcher::template_json(const Zone& zone) const {
    if (zone.family.template_uuid.empty()) {
        return nullptr;
    }
    for (const Zone* other : zones_->all()) {
        if (other->family.is_template() && zone.family.is_child_of(to_string(other->key.uuid))) {
            return other->name;
        }
    }
    return zone.family.template_uuid;
}

// What a fork has beside what any domain has.
void Watcher::add_fork_json(const Zone& zone, json& members) const {
    if (!zone.family.is_fork()) {
        return;
    }
    members["template"] = template_json(zone);
    members["fork_state"] = zone.family.kind == Family::Kind::fork ? "complete" : "building";
    members["ready"] = forks_->is_ready(zone);
    members["paused"] = forks_->is_left_paused(zone);
    members["shared_kib"] = zone.domain.shared_kib;
    const auto waiting = forks_->keeper().waiting(zone.key);
    members["held"] = waiting && waiting->held;
    members["starved"] = waiting && waiting->starved;
    members["waits_ms"] = waiting ? json(Loop::now_ms() - waiting->since_ms) : json(nullptr);
    members["waits_why"] = waiting ? json(waiting->why) : json(nullptr);
    if (!zone.family.pool.empty()) {
        members["pool"] = zone.family.pool;
        members["taken"] = zone.family.in_pool != Family::InPool::stands;
        members["stands_ready"] = pools_->stands_ready(zone);
    }
}

}  // namespace xenpack
