// SPDX-License-Identifier: LGPL-2.1-or-later
// Forks, in the order of their lives: asked for, built, given their identity, joined to their
// networks; or undone.
#include <algorithm>
#include <cerrno>

#include "watcher/fault_point.h"
#include "watcher/fork/forks.h"
#include "watcher/fork/forks_parts.h"
#include "watcher/fork/names.h"
#include "watcher/fork/random.h"
#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

constexpr char kBackends[] = "/local/domain/0/backend/vif";

// Its device, as Linux' netback names it where nobody gave it a name.
std::string interface_of(std::uint32_t domid, const std::string& devid,
                         const std::optional<std::string>& given) {
    return given && !given->empty() ? *given : fmt::format("vif{}.{}", domid, devid);
}

// "job-1", or "a set of 20 forks of base".
std::string owner_of(const std::vector<std::string>& names, const std::string& template_name) {
    return names.size() == 1 ? names.front()
                             : fmt::format("a set of {} forks of {}", names.size(), template_name);
}

std::string parts_sentence(const xenpack_fork_result& parts) {
    return fmt::format(
        "{:.1f} ms (domain {:.1f}, memory {:.1f}, store {:.1f}; devices {:.1f} later)",
        parts.whole_us / 1000.0, parts.create_us / 1000.0, parts.memory_us / 1000.0,
        parts.store_us / 1000.0, parts.device_us / 1000.0);
}

Expected<void> check_request(const ForksRequest& asked) {
    if (auto timeout = check_timeout(asked.timeout_ms); !timeout) {
        return timeout;
    }
    if (auto address = check_address(asked.address); !address) {
        return address;
    }
    if (asked.paused && asked.until == Until::ready) {
        return fail_with(EINVAL,
                         "a fork that is left paused does not become ready: ask for it "
                         "until it is running");
    }
    if (!asked.address.empty() && asked.count > 1) {
        return fail_with(EINVAL, "{} forks cannot all have the address {}: give it to one fork",
                         asked.count, asked.address);
    }
    return {};
}

}  // namespace

Forks::Request* Forks::request_of(const Child& child) const {
    const auto at = requests_.find(child.request);
    return at == requests_.end() ? nullptr : at->second.get();
}

Expected<void> Forks::make_forks(const ForksRequest& asked, std::uint64_t caller) {
    if (auto host = check_host(); !host) {
        return host;
    }
    const auto found = forkable_template(asked.template_name);
    if (!found) {
        return tl::unexpected(found.error());
    }
    const Zone& zone = **found;
    const std::string pattern =
        asked.name.empty() ? fmt::format("{}-{}", zone.name, kNumberMark) : asked.name;
    const auto names = choose_names(pattern, asked.count, names_taken());
    if (!names) {
        return tl::unexpected(names.error());
    }
    if (auto good = check_request(asked); !good) {
        return good;
    }
    const std::uint64_t id = ++last_request_;
    if (auto memory = mediator_.ask_memory(id, names->size(), owner_of(*names, zone.name),
                                           asked.memory_wait_ms.value_or(asked.timeout_ms));
        !memory) {
        return memory;
    }
    auto request = std::make_unique<Request>(
        Request{id, caller, asked, zone.key, zone.family.has_reporter, *names,
                Brood(names->size(), asked.until), std::vector<MadeFork>(names->size())});
    request->began_ms = Loop::now_ms();
    requests_[id] = std::move(request);
    return {};
}

void Forks::memory_answered(std::uint64_t id, const Expected<std::uint64_t>& reservation) {
    const auto at = requests_.find(id);
    if (at == requests_.end()) {
        if (reservation) {
            mediator_.memory_done(*reservation, false);
        }
        return;
    }
    Request& request = *at->second;
    request.waits_for_memory = false;
    if (!reservation) {
        give_up(request, reservation.error());
        return;
    }
    request.reservation = *reservation;
    if (request.waits_for_template) {
        seal_for_forks(request);
        return;
    }
    begin_next();
}

// First come, first served; and so many at once.
void Forks::begin_next() {
    const auto wants = [](const auto& each) {
        return each.second->reservation && !each.second->waits_for_template &&
               each.second->brood.next();
    };
    for (auto at = std::ranges::find_if(requests_, wants);
         building_ < kMostBuilding && at != requests_.end();
         at = std::ranges::find_if(requests_, wants)) {
        Request& request = *at->second;
        const std::size_t index = *request.brood.next();
        if (const auto begun = begin(request, index); !begun) {
            give_up(request, begun.error().during(request.names[index]));
        }
    }
}

Expected<void> Forks::begin(Request& request, std::size_t index) {
    const auto uuid = random_uuid();
    const auto seed = random_hex(guest::kSeedBytes);
    if (!uuid || !seed) {
        return tl::unexpected(!uuid ? uuid.error() : seed.error());
    }
    const std::string& name = request.names[index];
    if (auto written =
            intents_.write({*uuid, to_string(request.template_key.uuid), name, request.asked.pool});
        !written) {
        return written;
    }
    fault_point("fork.intent");
    ForkRequest fork;
    fork.template_domid = request.template_key.domid;
    fork.template_uuid = request.template_key.uuid;
    fork.name = name;
    fork.uuid = *uuid;
    fork.identity = {{"generation", to_string(*uuid)}, {"name", name}, {"seed", *seed}};
    if (!request.asked.address.empty()) {
        fork.identity.emplace_back("address", request.asked.address);
    }
    if (!request.indexes.empty()) {
        fork.identity.emplace_back("index", request.indexes[index]);
    }
    fork.paused = request.asked.paused;
    const std::function<void(Expected<xenpack_fork_result>)> ended =
        [this, uuid = *uuid](const Expected<xenpack_fork_result>& made) { fork_ended(uuid, made); };
    if (auto begun = rooms_.toolstack.fork(fork, if_alive(ended)); !begun) {
        forget_intent(*uuid);
        return begun;
    }
    auto child = std::make_unique<Child>();
    child->key.uuid = *uuid;
    child->name = name;
    child->request = request.id;
    child->index = index;
    child->has_reporter = request.has_reporter;
    child->paused = request.asked.paused;
    child->patience.timeout_ms = request.asked.timeout_ms;
    child->began_ms = Loop::now_ms();
    children_[*uuid] = std::move(child);
    request.brood.enter(index, Brood::Stage::building);
    ++building_;
    return {};
}

void Forks::fork_ended(const Uuid& uuid, const Expected<xenpack_fork_result>& made) {
    --building_;
    Child& child = *children_.at(uuid);
    if (made) {
        Request& request = *request_of(child);
        child.key.domid = made->domid;
        if (auto entered = enter_pool(child.key, request.asked.pool); !entered) {
            request.brood.give_up(std::move(entered.error()));
        }
    }
    forget_intent(uuid);  // it is complete, or nothing is left of it
    if (made) {
        fork_made(child, *made);
    } else {
        const std::unique_ptr<Child> lost = std::move(children_.at(uuid));
        children_.erase(uuid);
        say(ForkNews::Kind::fault, lost->name, lost->key, "it was not made: " + made.error().what);
        if (Request* request = request_of(*lost)) {
            request->brood.enter(lost->index, Brood::Stage::gone);
            give_up(*request, made.error().during(lost->name));
        }
    }
    begin_next();
    mediator_.forks_changed();
}

void Forks::fork_made(Child& child, const xenpack_fork_result& parts) {
    child.key.domid = parts.domid;
    told_.insert(child.key);
    // A request is there as long as one of its forks is being built.
    Request& request = *request_of(child);
    request.brood.enter(child.index, Brood::Stage::running);
    request.made[child.index] = {parts.domid, child.key.uuid, child.name, child.paused, parts};
    if (request.reservation) {
        mediator_.memory_taken(*request.reservation);
    }
    say(ForkNews::Kind::fork, child.name, child.key,
        fmt::format("made of {} in {}{}", request.asked.template_name, parts_sentence(parts),
                    child.paused ? ", and left paused" : ""));
    if (request.brood.failure()) {
        undo_child(child.key.uuid);
        return;
    }
    const std::uint64_t id = request.id;
    await_ready(child);
    settle(id);
}

// ---- its identity -------------------------------------------------------------------------------

void Forks::await_ready(Child& child) {
    child.stage = Child::Stage::waiting;
    const Uuid uuid = child.key.uuid;
    if (!child.has_reporter) {
        later([this, uuid] { join_networks(uuid); });
        return;
    }
    auto answer = rooms_.store.watch(domain_path(child.key.domid, guest::kForkPath),
                                     [this, uuid] { follow_child(uuid, false); });
    if (!answer) {
        later([this, uuid, why = answer.error()] { child_failed(uuid, why); });
        return;
    }
    child.answer = std::move(*answer);
    if (!child.paused) {
        child.patience.deadline_ms = Loop::now_ms() + child.patience.timeout_ms;
    }
    later([this] { arm(); });
}

void Forks::follow_child(const Uuid& uuid, bool fresh) {
    const auto at = children_.find(uuid);
    if (at == children_.end() || at->second->stage != Child::Stage::waiting ||
        !at->second->has_reporter) {
        return;
    }
    Child& child = *at->second;
    const Zone* zone = rooms_.zones.find(child.key);
    Seen seen;
    seen.there = zone != nullptr || !fresh;
    // Who waits for it waits no longer because it is held; else it has all the time that it takes.
    seen.held = keeper_.stands_still(child.key);
    seen.paused = zone == nullptr ? child.paused
                  : seen.held     ? child.request == 0
                                  : (zone->domain.flags & XENPACK_DOMAIN_IS_PAUSED) != 0;
    if (zone != nullptr && (zone->domain.flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0 &&
        !is_suspend(zone->domain.shutdown_reason)) {
        seen.stopped = zone->domain.shutdown_reason;
    }
    // What it says is told by the watch: it is read then, and before it is given up.
    const std::int64_t now_ms = Loop::now_ms();
    if (!fresh || now_ms >= child.patience.deadline_ms.value_or(now_ms + 1)) {
        seen.answer = parse_ready(read_node(child.key.domid, guest::kForkPath), to_string(uuid));
    }
    const auto judged = judge_ready(seen, child.patience, now_ms);
    if (judged && *judged) {
        join_networks(uuid);
    } else if (judged && !seen.there) {
        say(ForkNews::Kind::fault, child.name, child.key, "it has gone before it was ready");
        abandon_child(uuid, judged->error());
    } else if (judged) {
        child_failed(uuid, judged->error());
    }
}

void Forks::join_networks(const Uuid& uuid) {
    const auto at = children_.find(uuid);
    if (at == children_.end() || at->second->stage != Child::Stage::waiting) {
        return;
    }
    Child& child = *at->second;
    child.stage = Child::Stage::joining;
    child.answer.reset();
    if (const auto begun = begin_joining(child); !begun) {
        child_failed(uuid, begun.error());
    } else if (child.joining == 0) {
        child_ready(uuid);
    }
}

// Each of its networks whose other end is in dom0; another domain's are its own business.
Expected<void> Forks::begin_joining(Child& child) {
    const std::string home = fmt::format("{}/{}", kBackends, child.key.domid);
    const auto devids = rooms_.store.list(home);
    if (!devids) {
        return tl::unexpected(devids.error());
    }
    for (const std::string& devid : *devids) {
        const auto bridge = rooms_.store.read(fmt::format("{}/{}/bridge", home, devid));
        const auto given = rooms_.store.read(fmt::format("{}/{}/vifname", home, devid));
        if (!bridge || !given) {
            return tl::unexpected(!bridge ? bridge.error() : given.error());
        }
        if (!*bridge || (*bridge)->empty()) {
            continue;
        }
        const std::function<void(Expected<void>)> ended =
            [this, uuid = child.key.uuid](const Expected<void>& joined) {
                network_joined(uuid, joined);
            };
        auto joiner = Program::run(
            rooms_.loop, rooms_.joiner,
            {"vif-xenpack", "join", interface_of(child.key.domid, devid, *given), **bridge}, ended);
        if (!joiner) {
            return tl::unexpected(std::move(joiner.error()));
        }
        child.joiners.push_back(std::move(*joiner));
        ++child.joining;
    }
    return {};
}

void Forks::network_joined(const Uuid& uuid, const Expected<void>& joined) {
    Child& child = *children_.at(uuid);
    if (!joined && !child.join_failure) {
        child.join_failure = joined.error().during("its network does not join its bridge");
    }
    if (--child.joining > 0) {
        return;
    }
    // Not inside a joiner's own call.
    later([this, uuid, failure = child.join_failure] {
        if (failure) {
            child_failed(uuid, *failure);
        } else {
            child_ready(uuid);
        }
    });
}

void Forks::child_ready(const Uuid& uuid) {
    const auto at = children_.find(uuid);
    if (at == children_.end()) {
        return;
    }
    const std::unique_ptr<Child> child = std::move(at->second);
    children_.erase(at);
    // What is secret must not stay; and that it is gone says that this one is ready.
    if (const auto removed = rooms_.store.remove(domain_path(child->key.domid, kForkSeedPath));
        !removed) {
        say(ForkNews::Kind::fault, child->name, child->key, removed.error().what);
    }
    ready_.insert(child->key);
    const std::int64_t took_ms = Loop::now_ms() - child->began_ms;
    say(ForkNews::Kind::fork, child->name, child->key,
        fmt::format("ready after {}", show_ms(took_ms)));
    if (Request* request = request_of(*child)) {
        request->brood.enter(child->index, Brood::Stage::ready);
        request->made[child->index].ready_ms = took_ms;
        settle(child->request);
    }
    mediator_.forks_changed();
    arm();
}

void Forks::child_failed(const Uuid& uuid, const Error& why) {
    const auto at = children_.find(uuid);
    if (at == children_.end()) {
        return;
    }
    say(ForkNews::Kind::fault, at->second->name, at->second->key,
        fmt::format("it is destroyed: {}", why.what));
    abandon_child(uuid, why);
}

void Forks::abandon_child(const Uuid& uuid, const Error& why) {
    const Child& child = *children_.at(uuid);
    Request* const request = request_of(child);
    const std::string name = child.name;
    undo_child(uuid);
    if (request != nullptr) {
        give_up(*request, why.during(name));
    }
    arm();
}

// ---- all or none --------------------------------------------------------------------------------

// One that is there, and is to go.
void Forks::undo_child(const Uuid& uuid) {
    const auto at = children_.find(uuid);
    const std::unique_ptr<Child> child = std::move(at->second);
    children_.erase(at);
    if (Request* request = request_of(*child)) {
        request->brood.enter(child->index, Brood::Stage::leaving);
    }
    destroy_of(child->request, child->index, child->key, child->name);
}

void Forks::destroy_of(std::uint64_t request, std::size_t index, const ZoneKey& key,
                       const std::string& name) {
    destroy(key, name, false, [this, request, index](const Expected<void>&) {
        const auto found = requests_.find(request);
        if (found != requests_.end()) {
            found->second->brood.enter(index, Brood::Stage::gone);
            settle(request);
        }
    });
}

void Forks::give_up(Request& request, Error why) {
    request.brood.give_up(std::move(why));
    if (request.waits_for_memory) {
        request.waits_for_memory = false;
        mediator_.memory_not_wanted(request.id);
    }
    for (const std::size_t index : request.brood.unwanted()) {
        const MadeFork& fork = request.made[index];
        if (children_.contains(fork.uuid)) {
            undo_child(fork.uuid);
            continue;
        }
        request.brood.enter(index, Brood::Stage::leaving);
        destroy_of(request.id, index, {fork.domid, fork.uuid}, fork.name);
    }
    settle(request.id);
}

void Forks::caller_gone(std::uint64_t caller) {
    for (const auto& [key, sealing] : seals_) {
        if (sealing->caller == caller) {
            sealing->caller = 0;  // it goes on
        }
    }
    const auto at = std::ranges::find_if(
        requests_, [caller](const auto& each) { return each.second->caller == caller; });
    if (at == requests_.end()) {
        return;
    }
    Request& request = *at->second;
    if (request.takes && !request.brood.failure()) {
        say(ForkNews::Kind::fork, request.names.front(), *request.takes,
            "it is destroyed: who has taken it has hung up before it was what was asked for");
    }
    give_up(request, Error{"who asked for it has hung up", ECANCELED});
}

void Forks::settle(std::uint64_t id) {
    const auto at = requests_.find(id);
    if (at == requests_.end() || !at->second->brood.settled()) {
        return;
    }
    if (at->second->takes && !at->second->brood.failure()) {
        if (const auto kept = keep_taken(*at->second); !kept) {
            give_up(*at->second, kept.error());
            return;
        }
    }
    const std::unique_ptr<Request> request = std::move(at->second);
    requests_.erase(at);
    for (const auto& [uuid, child] : children_) {
        if (child->request == id) {
            child->request = 0;
        }
    }
    const auto& failure = request->brood.failure();
    if (request->reservation) {
        mediator_.memory_done(*request->reservation, !failure);
    }
    if (!failure) {
        mediator_.forks_answered(request->caller, request->made);
        return;
    }
    const std::size_t count = request->names.size();
    const bool one = count == 1;
    if (request->is_told()) {
        say(ForkNews::Kind::fork, request->asked.template_name, request->template_key,
            one ? fmt::format("the fork that was asked for is not left: {}", failure->what)
                : fmt::format("of {} forks none is left: {}", count, failure->what));
    }
    Error why = *failure;
    if (!one) {
        why.what += fmt::format("; of the {} forks none is left", count);
    }
    mediator_.forks_answered(request->caller, tl::unexpected(std::move(why)));
}

// ---- what was left ------------------------------------------------------------------------------

// One that is complete. Its seed is there until it is ready.
void Forks::take_up_fork(const Zone& zone) {
    const auto seed = rooms_.store.read(domain_path(zone.key.domid, kForkSeedPath));
    if (!seed) {
        return;
    }
    if (!*seed) {
        ready_.insert(zone.key);
        return;
    }
    auto child = std::make_unique<Child>();
    child->key = zone.key;
    child->name = zone.name;
    child->paused =
        (zone.domain.flags & XENPACK_DOMAIN_IS_PAUSED) != 0 && !keeper_.stands_still(zone.key);
    child->patience.timeout_ms = kAnswerMs;
    child->began_ms = Loop::now_ms();
    for (const Zone* other : rooms_.zones.all()) {
        if (to_string(other->key.uuid) == zone.family.template_uuid) {
            child->has_reporter = other->family.has_reporter;
        }
    }
    await_ready(*(children_[zone.key.uuid] = std::move(child)));
}

}  // namespace xenpack
