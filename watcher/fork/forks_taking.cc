// SPDX-License-Identifier: LGPL-2.1-or-later
// Forks that were made for pools: marked as theirs, handed out one by one, given up. A fork that is
// handed out is a request of one that is there already: all else happens to it as to any other.
#include <algorithm>
#include <cerrno>

#include "watcher/fault_point.h"
#include "watcher/fork/forks.h"
#include "watcher/fork/forks_parts.h"
#include "watcher/fork/names.h"
#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

// It has run, and may have read who it is.
bool may_have_identity(const Zone& zone) {
    return (zone.domain.flags & XENPACK_DOMAIN_NEVER_RAN) == 0;
}

Expected<void> is_taken(const std::string& name) {
    return fail_with(EEXIST, "a domain is named {} already: choose another name", name);
}

}  // namespace

bool Forks::is_awaited(const Zone& fork) const {
    const auto at = children_.find(fork.key.uuid);
    return at != children_.end() && at->second->request != 0;
}

bool Forks::is_left_paused(const Zone& fork) const {
    return (fork.domain.flags & XENPACK_DOMAIN_IS_PAUSED) != 0 && !keeper_.holds(fork.key);
}

bool Forks::is_being_taken(const Zone& fork) const {
    return std::ranges::any_of(requests_,
                               [&](const auto& each) { return each.second->takes == fork.key; });
}

Expected<void> Forks::enter_pool(const ZoneKey& key, const std::string& pool) {
    if (pool.empty()) {
        return {};
    }
    return write_nodes(key, {{kPoolPath, pool}});
}

// Who destroys it takes its nodes away first: they must not come to be again.
Expected<void> Forks::write_nodes(const ZoneKey& key, const NodesBelow& nodes) {
    std::vector<std::pair<std::string, std::string>> writes;
    for (const auto& [below, value] : nodes) {
        writes.emplace_back(domain_path(key.domid, below), value);
    }
    auto written = rooms_.store.write_guarded(domain_path(key.domid, "vm"),
                                              "/vm/" + to_string(key.uuid), writes);
    rooms_.zones.read_again(key);
    return written;
}

Expected<void> Forks::check_take(const TakeRequest& asked) const {
    if (auto timeout = check_timeout(asked.timeout_ms); !timeout) {
        return timeout;
    }
    if (auto address = check_address(asked.address); !address) {
        return address;
    }
    if (asked.name.empty()) {
        return {};
    }
    if (auto good = check_name(asked.name); !good) {
        return good;
    }
    return names_taken().contains(asked.name) ? is_taken(asked.name) : Expected<void>();
}

// Also to itself, by the name that it has now, where it cannot have been told yet who it is.
Expected<void> Forks::rename(const Zone& zone, const TakeRequest& asked) {
    const ZoneKey key = zone.key;
    if (!asked.name.empty() && asked.name != zone.name) {
        if (names_taken().contains(asked.name)) {  // since it was checked
            return is_taken(asked.name);
        }
        if (auto renamed = rooms_.toolstack.rename(key.domid, key.uuid, asked.name); !renamed) {
            return renamed;
        }
    }
    if (may_have_identity(zone)) {
        return {};
    }
    const std::string& name = asked.name.empty() ? zone.name : asked.name;
    NodesBelow nodes;
    if (name != zone.family.identity_name) {
        nodes.emplace_back(kForkNamePath, name);
    }
    if (!asked.address.empty()) {
        nodes.emplace_back(guest::kAddressPath, asked.address);
    }
    return nodes.empty() ? Expected<void>() : write_nodes(key, nodes);
}

void Forks::take_back_name(const Zone& zone, const std::string& name) {
    const ZoneKey key = zone.key;
    (void)rooms_.toolstack.rename(key.domid, key.uuid, name);
    if (!may_have_identity(zone)) {
        (void)write_nodes(key, {{kForkNamePath, name}});
    }
    (void)rooms_.store.remove(domain_path(key.domid, guest::kAddressPath));
    (void)rooms_.store.remove(domain_path(key.domid, kPoolStatePath));
    rooms_.zones.read_again(key);
}

// All of it, or it stands there as before.
Expected<void> Forks::let_out(const Zone& zone, const TakeRequest& asked) {
    const ZoneKey key = zone.key;
    const std::string old_name = zone.name;
    if (auto marked = write_nodes(key, {{kPoolStatePath, "taking"}}); !marked) {
        return marked;
    }
    fault_point("take.marked");
    Expected<void> done = rename(zone, asked);
    if (done && is_left_paused(zone)) {
        fault_point("take.renamed");
        done = rooms_.toolstack.unpause(key.domid, key.uuid);
        fault_point("take.unpaused");
    }
    if (!done) {
        take_back_name(zone, old_name);
    }
    return done;
}

// From now on it is that request's only one.
void Forks::await_for(Child& child, const Request& taker) {
    child.name = taker.names.front();
    child.request = taker.id;
    child.index = 0;
    child.paused = false;
    child.patience = {taker.asked.timeout_ms, taker.began_ms + taker.asked.timeout_ms};
    child.began_ms = taker.began_ms;
}

Expected<const Zone*> Forks::can_be_taken(const ZoneKey& key, const TakeRequest& asked) const {
    const Zone* zone = rooms_.zones.find(key);
    if (zone == nullptr || zone->family.kind != Family::Kind::fork || is_leaving(*zone) ||
        (!is_ready(*zone) && !children_.contains(key.uuid))) {
        return fail_with(ESRCH, "that fork is not there any more");
    }
    if (!asked.address.empty() && may_have_identity(*zone)) {
        return fail_with(EINVAL, "{} has its identity already, and cannot be given an address",
                         zone->name);
    }
    return zone;
}

Expected<void> Forks::take(const ZoneKey& key, const TakeRequest& asked, std::uint64_t caller) {
    const auto found = can_be_taken(key, asked);
    if (!found) {
        return tl::unexpected(found.error());
    }
    const Zone* zone = *found;
    const bool has_identity = is_ready(*zone);
    const std::string old_name = zone->name;
    const std::string name = asked.name.empty() ? old_name : asked.name;
    const std::int64_t now_ms = Loop::now_ms();
    if (auto out = let_out(*zone, asked); !out) {
        return out;
    }
    rooms_.zones.read_again(key);
    const std::uint64_t id = ++last_request_;
    ForksRequest request;
    request.until = asked.until;
    request.timeout_ms = asked.timeout_ms;
    auto kept = std::make_unique<Request>(
        Request{id, caller, request, {}, true, {name}, Brood(1, asked.until), {}});
    kept->waits_for_memory = false;
    kept->began_ms = now_ms;
    kept->takes = key;
    kept->brood.enter(0, has_identity ? Brood::Stage::ready : Brood::Stage::running);
    MadeFork fork{key.domid, key.uuid, name};
    fork.taken_from = zone->family.pool;
    if (has_identity) {
        fork.ready_ms = 0;
    } else {
        await_for(*children_.at(key.uuid), *kept);
    }
    kept->made.push_back(std::move(fork));
    requests_[id] = std::move(kept);
    say(ForkNews::Kind::fork, name, key,
        fmt::format("handed out of the pool {}{}, in {}", zone->family.pool,
                    name == old_name ? "" : ", where it was " + old_name,
                    show_ms(Loop::now_ms() - now_ms)));
    later([this, id] {
        settle(id);
        arm();
    });
    return {};
}

// One of which that cannot be written would be taken away later, from who has it by then.
Expected<void> Forks::keep_taken(const Request& request) {
    auto kept = write_nodes(*request.takes, {{kPoolStatePath, "taken"}});
    if (!kept) {
        say(ForkNews::Kind::fault, request.names.front(), *request.takes,
            "it is taken away, as the store does not keep that it was handed out: " +
                kept.error().what);
    }
    return kept;
}

void Forks::give_up_standing(const Zone& fork, const std::string& why) {
    if (is_leaving(fork)) {
        return;
    }
    say(ForkNews::Kind::fork, fork.name, fork.key, "it is taken away: " + why);
    children_.erase(fork.key.uuid);
    destroy(fork.key, fork.name, false, [](const Expected<void>&) {});
}

}  // namespace xenpack
