// SPDX-License-Identifier: LGPL-2.1-or-later
// What templates and forks have in common: the look, what an earlier daemon has left, destroying.
#include "watcher/fork/forks.h"

#include <algorithm>
#include <cerrno>

#include "watcher/fork/forks_parts.h"

namespace xenpack {

Forks::Forks(Rooms rooms, Mediator& mediator)
    : rooms_(std::move(rooms)),
      mediator_(mediator),
      intents_(rooms_.intents),
      keeper_(rooms_.store, rooms_.toolstack,
              [this](const Zone* fork, bool fault, const std::string& sentence) {
                  say(fault ? ForkNews::Kind::fault : ForkNews::Kind::fork,
                      fork == nullptr ? "" : fork->name, fork == nullptr ? ZoneKey{} : fork->key,
                      sentence);
              }),
      wake_(rooms_.loop.make_timer([this] { wake(); })) {}

Forks::~Forks() = default;

void Forks::later(std::function<void()> work) {
    rooms_.loop.defer(if_alive(std::move(work)));
}

void Forks::say(ForkNews::Kind kind, const std::string& name, const ZoneKey& key,
                std::string sentence) {
    mediator_.fork_news({kind, name, key, std::move(sentence)});
}

std::vector<std::string> Forks::missing() {
    auto missing = rooms_.toolstack.fork_missing();
    return missing ? std::move(*missing) : std::vector{missing.error().what};
}

Expected<void> Forks::check_host() {
    const auto lacks = missing();
    if (lacks.empty()) {
        return {};
    }
    return fail_with(ENOSYS, "this host cannot make templates and forks: {}",
                     fmt::join(lacks, "; "));
}

Zone* Forks::zone_of(const Uuid& uuid) const {
    const auto all = rooms_.zones.all();
    const auto found =
        std::ranges::find_if(all, [&](const Zone* zone) { return zone->key.uuid == uuid; });
    return found == all.end() ? nullptr : *found;
}

std::vector<const Zone*> Forks::children_of(const Uuid& template_uuid) const {
    const std::string uuid = to_string(template_uuid);
    std::vector<const Zone*> children;
    for (const Zone* zone : rooms_.zones.all()) {
        if (zone->family.is_child_of(uuid)) {
            children.push_back(zone);
        }
    }
    return children;
}

// Its forks, and the forks of those that have become templates.
std::vector<std::string> Forks::names_below(const Uuid& template_uuid) const {
    std::vector<std::string> names;
    for (const Zone* child : children_of(template_uuid)) {
        names.push_back(child->name);
        const auto below = names_below(child->key.uuid);
        names.insert(names.end(), below.begin(), below.end());
    }
    return names;
}

// Those of domains, those that are promised, and those that a pool's forks have in themselves.
std::set<std::string, std::less<>> Forks::names_taken() const {
    std::set<std::string, std::less<>> names{rooms_.zones.dom0().name, "Domain-0"};
    for (const Zone* zone : rooms_.zones.all()) {
        names.insert(zone->name);
        names.insert(zone->family.identity_name);
    }
    for (const auto& [key, sealing] : seals_) {
        names.insert(sealing->name);
    }
    for (const auto& [id, request] : requests_) {
        names.insert(request->names.begin(), request->names.end());
    }
    return names;
}

std::string Forks::read_node(std::uint32_t domid, std::string_view below) const {
    const auto value = rooms_.store.read(domain_path(domid, below));
    return value ? value->value_or("") : "";
}

bool Forks::is_ready(const Zone& fork) const {
    return ready_.contains(fork.key);
}

void Forks::forget(const Zone& gone) {
    ready_.erase(gone.key);
    told_.erase(gone.key);
    tried_.erase(gone.key);
    spoilt_.erase(gone.key);
    keeper_.forget(gone.key);
    // Whatever it seems to have been: its nodes may have gone before it.
    const std::vector<std::string> orphans = names_below(gone.key.uuid);
    if (!orphans.empty()) {
        say(ForkNews::Kind::fault, gone.name, gone.key,
            fmt::format("it was destroyed, and not by xenpack template rm, while {}: what they had "
                        "not touched of its memory is lost to them; destroy them",
                        forks_sentence(orphans)));
    }
}

// ---- the look -----------------------------------------------------------------------------------

void Forks::follow() {
    if (!settled_intents_) {
        settled_intents_ = true;
        settle_intents();
    }
    keeper_.follow(rooms_.zones.all(), Loop::now_ms());
    for (const Zone* zone : rooms_.zones.all()) {
        follow_zone(*zone);
    }
    std::vector<ZoneKey> seals;
    for (const auto& [key, sealing] : seals_) {
        seals.push_back(key);
    }
    for (const ZoneKey& key : seals) {
        follow_sealing(key);
    }
    std::vector<Uuid> children;
    for (const auto& [uuid, child] : children_) {
        children.push_back(uuid);
    }
    for (const Uuid& uuid : children) {
        follow_child(uuid, true);
    }
    arm();
}

void Forks::follow_zone(const Zone& zone) {
    if (children_.contains(zone.key.uuid) || destroying_.contains(zone.key.uuid) ||
        seals_.contains(zone.key)) {
        return;
    }
    switch (zone.family.kind) {
        case Family::Kind::none:
            break;
        case Family::Kind::sealed:
            follow_template(zone);
            break;
        case Family::Kind::asked:
        case Family::Kind::sealing:
            take_up_template(zone);
            break;
        case Family::Kind::fork_building:
            take_away_half_made(zone);
            break;
        case Family::Kind::fork:
            if ((zone.domain.flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0 &&
                !is_suspend(zone.domain.shutdown_reason)) {
                reap(zone);
            } else if (zone.family.in_pool == Family::InPool::taking && !is_being_taken(zone)) {
                give_up_standing(zone, "it was being handed out when xenpackd ended");
            } else if (!ready_.contains(zone.key)) {
                take_up_fork(zone);
            }
            break;
    }
}

// Timers: of answers that are late, and of what is to be destroyed again.
void Forks::arm() {
    std::optional<std::int64_t> next_ms;
    const auto consider = [&](std::optional<std::int64_t> at_ms) {
        if (at_ms && (!next_ms || *at_ms < *next_ms)) {
            next_ms = at_ms;
        }
    };
    for (const auto& [key, sealing] : seals_) {
        if (!sealing->asked_toolstack) {
            consider(sealing->patience.deadline_ms);
        }
    }
    for (const auto& [uuid, child] : children_) {
        if (child->stage == Child::Stage::waiting) {
            consider(child->patience.deadline_ms);
        }
    }
    for (const auto& [uuid, destroying] : destroying_) {
        if (!destroying->under_way) {
            consider(destroying->again_ms);
        }
    }
    if (next_ms) {
        wake_->start(*next_ms - Loop::now_ms());
    } else {
        wake_->stop();
    }
}

void Forks::wake() {
    const std::int64_t now_ms = Loop::now_ms();
    std::vector<Uuid> again;
    for (const auto& [uuid, destroying] : destroying_) {
        if (!destroying->under_way && now_ms >= destroying->again_ms) {
            again.push_back(uuid);
        }
    }
    for (const Uuid& uuid : again) {
        try_to_destroy(uuid);
    }
    mediator_.forks_changed();  // which follows, finds who is late, and arms this
}

// ---- what was left ------------------------------------------------------------------------------

// A fork of which the toolstack had made no more than the domain: what a file says of any other is
// no reason to destroy it.
bool Forks::has_only_begun(const Zone& zone) const {
    if (zone.family.kind != Family::Kind::none ||
        (zone.domain.flags & XENPACK_DOMAIN_NEVER_RAN) == 0) {
        return false;
    }
    const auto type = rooms_.store.read(fmt::format("/libxl/{}/type", zone.key.domid));
    return type && !*type;
}

// The domains that there are have just been read, with what the store says of them.
void Forks::settle_intents() {
    const auto intents = intents_.load();
    if (!intents) {
        say(ForkNews::Kind::fault, "", {},
            fmt::format("what an earlier xenpackd may have left half made is not known: {}",
                        intents.error().what));
        return;
    }
    for (const Intent& intent : *intents) {
        const Zone* zone = zone_of(intent.uuid);
        if (zone != nullptr &&
            (zone->family.kind == Family::Kind::fork_building || has_only_begun(*zone))) {
            take_away_half_made(*zone);
            continue;
        }
        if (zone != nullptr) {
            settle_whole(*zone, intent);
        }
        forget_intent(intent.uuid);
    }
}

void Forks::settle_whole(const Zone& zone, const Intent& intent) {
    const std::string& of = zone.family.template_uuid;
    if (of.empty() || (!intent.template_uuid.empty() && of != intent.template_uuid)) {
        say(ForkNews::Kind::fault, zone.name, zone.key,
            fmt::format("it is left alone, though a file in {} says that it was being made when "
                        "xenpackd ended: it is no such fork, and the file is removed",
                        rooms_.intents));
    } else if (zone.family.kind == Family::Kind::fork && zone.family.pool.empty()) {
        if (const auto entered = enter_pool(zone.key, intent.pool); !entered) {
            give_up_standing(zone, entered.error().what);
        }
    }
}

void Forks::take_away_half_made(const Zone& zone) {
    // It may have become complete since.
    if (read_node(zone.key.domid, kForkStatePath) == "complete") {
        return;
    }
    const std::string name = zone.name.empty() ? "a fork" : zone.name;
    say(ForkNews::Kind::fork, name, zone.key,
        "it was left half made when xenpackd ended, and is taken away");
    destroy(zone.key, name, false,
            [this, uuid = zone.key.uuid](const Expected<void>&) { forget_intent(uuid); });
}

void Forks::forget_intent(const Uuid& uuid) {
    if (const auto removed = intents_.remove(uuid); !removed) {
        say(ForkNews::Kind::fault, "", {}, removed.error().what);
    }
}

void Forks::reap(const Zone& zone) {
    say(ForkNews::Kind::fork, zone.name, zone.key,
        fmt::format("it has shut down ({}) and is taken away: a fork is not started again",
                    shutdown_name(zone.domain.shutdown_reason)));
    destroy(zone.key, zone.name, false, [](const Expected<void>&) {});
}

// ---- destroying ---------------------------------------------------------------------------------

void Forks::destroy(const ZoneKey& key, const std::string& name, bool once, Destroyed then) {
    auto& destroying = destroying_[key.uuid];
    if (destroying) {  // for somebody else too
        destroying->then = [first = std::move(destroying->then),
                            second = std::move(then)](const Expected<void>& destroyed) {
            first(destroyed);
            second(destroyed);
        };
        return;
    }
    destroying = std::make_unique<Destroying>(Destroying{key, name, once, std::move(then)});
    try_to_destroy(key.uuid);
}

void Forks::try_to_destroy(const Uuid& uuid) {
    Destroying& destroying = *destroying_.at(uuid);
    destroying.under_way = true;
    const Destroyed ended = [this, uuid](const Expected<void>& destroyed) {
        destroy_ended(uuid, destroyed);
    };
    const auto begun = rooms_.toolstack.destroy(destroying.key.domid, uuid, if_alive(ended));
    if (!begun) {
        later([ended, begun] { ended(begun); });
    }
}

void Forks::destroy_ended(const Uuid& uuid, const Expected<void>& destroyed) {
    Destroying& destroying = *destroying_.at(uuid);
    destroying.under_way = false;
    const bool gone = destroyed || destroyed.error().code == ESRCH;
    if (gone || destroying.once) {
        const Destroyed then = std::move(destroying.then);
        destroying_.erase(uuid);
        then(gone ? Expected<void>() : destroyed);
        mediator_.forks_changed();
        return;
    }
    if (destroying.said != destroyed.error().what) {
        destroying.said = destroyed.error().what;
        say(ForkNews::Kind::fault, destroying.name, destroying.key,
            fmt::format("it cannot be destroyed, which is tried again each {} s: {}",
                        kDestroyAgainMs / 1000, destroying.said));
    }
    destroying.again_ms = Loop::now_ms() + kDestroyAgainMs;
    arm();
}

}  // namespace xenpack
