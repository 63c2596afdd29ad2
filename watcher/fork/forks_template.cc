// SPDX-License-Identifier: LGPL-2.1-or-later
// Templates, in the order of their lives: asked for, told to be quiet, sealed, taken up again,
// removed.
#include <algorithm>
#include <cerrno>

#include "watcher/fork/forks.h"
#include "watcher/fork/forks_parts.h"
#include "watcher/fork/names.h"
#include "watcher/fork/random.h"
#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

constexpr std::size_t kTokenBytes = 8;
// A guest that was quiet late has still this long to be suspended.
constexpr std::int64_t kSuspendLeastMs = 5'000;

// Why it cannot become a template as it is now.
Expected<void> check_zone(const Zone& zone, bool is_ready) {
    switch (zone.family.kind) {
        case Family::Kind::none:
        case Family::Kind::asked:
            break;
        case Family::Kind::sealing:
            return {};  // that has failed, or is nobody's any more: it can only be sealed to its
                        // end
        case Family::Kind::sealed:
            return fail_with(EBUSY, "{} is a template already", zone.name);
        case Family::Kind::fork_building:
            return fail_with(EBUSY, "{} is being forked: try again when it is up", zone.name);
        case Family::Kind::fork:
            if (!is_ready) {  // its forks would take its identity for theirs
                return fail_with(EBUSY, "{} is a fork and not ready yet: try again when it is",
                                 zone.name);
            }
            break;
    }
    const std::uint32_t flags = zone.domain.flags;
    if ((flags & XENPACK_DOMAIN_NEVER_RAN) != 0) {
        return fail_with(EBUSY, "{} has not run yet: try again when it is up", zone.name);
    }
    if ((flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0) {
        return fail_with(EBUSY, "{} has shut down, or is being saved ({})", zone.name,
                         shutdown_name(zone.domain.shutdown_reason));
    }
    if ((flags & XENPACK_DOMAIN_IS_PAUSED) != 0) {
        return fail_with(EBUSY, "{} is paused, and has to suspend by itself: xl unpause {} first",
                         zone.name, zone.name);
    }
    return {};
}

// Which forks live, and how they are ended: those that stand ready would be made anew.
std::string in_the_way(const std::vector<const Zone*>& forks) {
    std::vector<std::string> names;
    std::set<std::string> ways;
    for (const Zone* fork : forks) {
        const Family& family = fork->family;
        names.push_back(fork->name);
        if (family.kind == Family::Kind::sealed) {
            ways.insert("xenpack template rm " + fork->name);
        } else if (!family.pool.empty() && family.in_pool == Family::InPool::stands) {
            ways.insert(
                fmt::format("[pool {}] out of xenpack.conf and xenpack reload, for those "
                            "that stand ready",
                            family.pool));
        } else {
            ways.insert("xl destroy, for those that run");
        }
    }
    return fmt::format("{}; first end them ({})", forks_sentence(names), fmt::join(ways, "; "));
}

}  // namespace

Expected<Zone*> Forks::find_template(const std::string& name) const {
    auto found = rooms_.zones.find(name);
    if (!found && found.error().code == ENOENT) {
        return fail_with(ENOENT,
                         "there is no template {}: xenpack template list shows which there "
                         "are",
                         name);
    }
    if (!found) {
        return found;
    }
    const Zone& zone = **found;
    switch (zone.family.kind) {
        case Family::Kind::sealed:
            break;
        case Family::Kind::asked:
        case Family::Kind::sealing:
            return fail_with(EBUSY, "{} is not sealed yet: try again when it is", zone.name);
        case Family::Kind::none:
            return fail_with(EPERM, "{} is no template: xenpack template create {} makes one of it",
                             zone.name, zone.name);
        case Family::Kind::fork_building:
        case Family::Kind::fork:
            return fail_with(EPERM, "{} is a fork and no template: name its template", zone.name);
    }
    if (destroying_.contains(zone.key.uuid)) {
        return fail_with(EBUSY, "the template {} is being removed", zone.name);
    }
    return found;
}

Expected<Zone*> Forks::forkable_template(const std::string& name) const {
    auto found = find_template(name);
    if (found && is_spoilt(**found)) {
        return fail_with(ESTALE, "{} cannot be forked: {}", name, kSpoilt);
    }
    return found;
}

void Forks::follow_template(const Zone& zone) {
    if (is_spoilt(zone) && spoilt_.insert(zone.key).second) {
        say(ForkNews::Kind::fault, zone.name, zone.key, kSpoilt);
    }
}

Expected<Zone*> Forks::zone_to_seal(const TemplateRequest& asked, std::uint64_t caller) {
    if (auto timeout = check_timeout(asked.timeout_ms); !timeout) {
        return tl::unexpected(std::move(timeout.error()));
    }
    auto found = rooms_.zones.find(asked.zone);
    if (!found) {
        return found;
    }
    const Zone& zone = **found;
    if (seals_.contains(zone.key)) {
        return fail_with(EBUSY, "{} is about to become a template already", zone.name);
    }
    const auto waits_for_it = [&](const auto& each) {
        return each.second->waits_for_template && each.second->template_key == zone.key;
    };
    if (caller != 0 && std::ranges::any_of(requests_, waits_for_it)) {
        return fail_with(EBUSY, "{} is about to fork itself", zone.name);
    }
    if (auto fit = check_zone(zone, is_ready(zone)); !fit) {
        return tl::unexpected(std::move(fit.error()));
    }
    const std::string& name = asked.name.empty() ? zone.name : asked.name;
    if (auto good = check_name(name); !good) {
        return tl::unexpected(std::move(good.error()));
    }
    if (name != zone.name && names_taken().contains(name)) {
        return fail_with(EEXIST, "a domain is named {} already: choose another --name", name);
    }
    return found;
}

// All in one transaction, and only if the domain is still the one that is meant.
Expected<void> Forks::write_seal_nodes(const Sealing& sealing) {
    const auto path = [&](std::string_view below) { return domain_path(sealing.key.domid, below); };
    std::vector<std::pair<std::string, std::string>> writes{
        {path(kIdentityPath), sealing.has_reporter ? "guest" : "none"},
        {path(kTemplateNamePath), sealing.name}};
    if (sealing.has_reporter) {
        writes.emplace_back(path(kQuiescePath), sealing.token);
    }
    return rooms_.store.write_guarded(path("vm"), "/vm/" + to_string(sealing.key.uuid), writes);
}

Expected<void> Forks::make_template(const TemplateRequest& asked, std::uint64_t caller) {
    if (auto host = check_host(); !host) {
        return host;
    }
    const auto found = zone_to_seal(asked, caller);
    if (!found) {
        return tl::unexpected(found.error());
    }
    if ((*found)->family.kind == Family::Kind::sealing) {
        go_on_sealing(**found, asked.timeout_ms, caller);
        return {};
    }
    auto token = random_hex(kTokenBytes);
    if (!token) {
        return tl::unexpected(std::move(token.error()));
    }
    const Zone& zone = **found;
    tried_.insert(zone.key);  // it is this daemon's, whatever becomes of it
    const std::int64_t now_ms = Loop::now_ms();
    auto sealing =
        std::make_unique<Sealing>(Sealing{zone.key,
                                          zone.name,
                                          asked.name.empty() ? zone.name : asked.name,
                                          asked.has_reporter,
                                          caller,
                                          now_ms,
                                          std::move(*token),
                                          {asked.timeout_ms, now_ms + asked.timeout_ms}});
    if (auto written = write_seal_nodes(*sealing); !written) {
        return tl::unexpected(
            written.error().during(fmt::format("{} cannot be told to be quiet", zone.name)));
    }
    Sealing& kept = *(seals_[zone.key] = std::move(sealing));
    if (!kept.has_reporter) {
        later([this, key = kept.key] { seal(key); });
        return {};
    }
    auto answer = rooms_.store.watch(domain_path(kept.key.domid, guest::kQuiescedPath),
                                     [this, key = kept.key] { follow_sealing(key); });
    if (!answer) {
        (void)clear_nodes(kept.key);
        seals_.erase(zone.key);
        return tl::unexpected(std::move(answer.error()));
    }
    kept.answer = std::move(*answer);
    later([this] { arm(); });
    return {};
}

void Forks::follow_sealing(const ZoneKey& key) {
    const auto at = seals_.find(key);
    if (at == seals_.end() || at->second->asked_toolstack || at->second->token.empty()) {
        return;
    }
    Sealing& sealing = *at->second;
    const Zone* zone = rooms_.zones.find(key);
    Seen seen;
    seen.there = zone != nullptr;
    if (zone != nullptr && (zone->domain.flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0) {
        seen.stopped = zone->domain.shutdown_reason;
    }
    if (seen.there && sealing.has_reporter) {
        seen.answer = parse_quiesced(read_node(key.domid, guest::kQuiescedPath), sealing.token);
    } else if (seen.there) {
        return;  // it is sealed in a moment
    }
    const auto judged = judge_quiet(seen, sealing.patience, Loop::now_ms());
    if (judged && *judged) {
        seal(key);
    } else if (judged) {
        seal_ended(key, *judged);
    }
}

void Forks::seal(const ZoneKey& key) {
    const auto at = seals_.find(key);
    if (at == seals_.end()) {
        return;
    }
    Sealing& sealing = *at->second;
    sealing.asked_toolstack = true;
    sealing.answer.reset();
    const std::int64_t left_ms =
        std::max(kSuspendLeastMs, sealing.patience.deadline_ms.value_or(0) - Loop::now_ms());
    const std::function<void(Expected<void>)> ended = [this, key](const Expected<void>& sealed) {
        seal_ended(key, sealed);
    };
    const auto begun = rooms_.toolstack.seal(key.domid, key.uuid, sealing.name,
                                             static_cast<std::uint64_t>(left_ms), if_alive(ended));
    if (!begun) {
        later([ended, begun] { ended(begun); });
    }
}

// Nothing of what it was told stays in its store, so that it goes on. Returns what could not be
// done, as a sentence; empty: nothing.
std::string Forks::clear_nodes(const ZoneKey& key) {
    const auto path = [&](std::string_view below) { return domain_path(key.domid, below); };
    if (!read_node(key.domid, kTemplatePath).empty()) {
        return "and it stays as it is, for its seal could not be undone";
    }
    const auto removed = rooms_.store.remove(path(kFamilyPath));
    return removed ? "" : "and it may stand still: " + removed.error().what;
}

void Forks::seal_ended(const ZoneKey& key, const Expected<void>& sealed) {
    const auto at = seals_.find(key);
    if (at == seals_.end()) {
        return;
    }
    const std::unique_ptr<Sealing> sealing = std::move(at->second);
    seals_.erase(at);
    const std::int64_t took_ms = Loop::now_ms() - sealing->began_ms;
    Expected<MadeTemplate> answer = MadeTemplate{key, sealing->name, took_ms};
    if (sealed) {
        for (const char* below : {kQuiescePath, kTemplateNamePath}) {
            (void)rooms_.store.remove(domain_path(key.domid, below));  // of no meaning any more
        }
        say(ForkNews::Kind::sealed, sealing->name, key,
            fmt::format("{} is a template now, after {}{}", sealing->zone_name, show_ms(took_ms),
                        sealing->has_reporter ? "" : "; its forks need no reporter"));
    } else {
        const bool there = rooms_.zones.find(key) != nullptr;
        std::string after = there ? clear_nodes(key) : "";
        if (there && after.empty()) {
            after = "it runs on";
        }
        const Error error{fmt::format("{} does not become a template: {}{}{}", sealing->zone_name,
                                      sealed.error().what, after.empty() ? "" : "; ", after),
                          sealed.error().code};
        say(ForkNews::Kind::fault, sealing->zone_name, key, error.what);
        answer = tl::unexpected(error);
    }
    rooms_.zones.read_again(key);  // who is answered may ask for forks next
    if (sealing->caller != 0) {
        mediator_.template_answered(sealing->caller, answer);
    }
    template_came(key, sealed ? Expected<void>() : tl::unexpected(answer.error()));
    mediator_.forks_changed();
    arm();
}

// What an earlier daemon has begun. One that was not suspended yet goes on; one that may be is
// sealed to its end by the toolstack, or runs on: it knows.
void Forks::take_up_template(const Zone& zone) {
    if (!tried_.insert(zone.key).second) {
        return;
    }
    const bool suspended = (zone.domain.flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0 &&
                           is_suspend(zone.domain.shutdown_reason);
    if (zone.family.kind == Family::Kind::asked && !suspended) {
        const std::string after = clear_nodes(zone.key);
        say(ForkNews::Kind::sealed, zone.name, zone.key,
            fmt::format("it was to become a template when xenpackd ended, and does not: {}",
                        after.empty() ? "it runs on" : after));
        return;
    }
    say(ForkNews::Kind::sealed, zone.name, zone.key,
        "it was being sealed when xenpackd ended, which goes on");
    go_on_sealing(zone, kAnswerMs, 0);
}

// It has been quiet, and cannot be asked any more.
void Forks::go_on_sealing(const Zone& zone, std::int64_t timeout_ms, std::uint64_t caller) {
    const std::string name =
        zone.family.template_name.empty() ? zone.name : zone.family.template_name;
    const std::int64_t now_ms = Loop::now_ms();
    seals_[zone.key] = std::make_unique<Sealing>(Sealing{zone.key,
                                                         zone.name,
                                                         name,
                                                         zone.family.has_reporter,
                                                         caller,
                                                         now_ms,
                                                         "",
                                                         {timeout_ms, now_ms + timeout_ms}});
    seal(zone.key);
}

Expected<void> Forks::remove_template(const std::string& name, std::uint64_t caller, bool once) {
    const auto found = find_template(name);
    if (!found) {
        return tl::unexpected(found.error());
    }
    const Zone& zone = **found;
    if (const auto children = children_of(zone.key.uuid); !children.empty()) {
        return fail_with(EBUSY, "{} is not removed: {}", zone.name, in_the_way(children));
    }
    if (std::ranges::any_of(
            requests_, [&](const auto& each) { return each.second->template_key == zone.key; })) {
        return fail_with(EBUSY, "{} is not removed: forks of it are being made", zone.name);
    }
    later([this, key = zone.key, template_name = zone.name, caller, once] {
        destroy(key, template_name, once,
                [this, key, template_name, caller](const Expected<void>& destroyed) {
                    say(destroyed ? ForkNews::Kind::sealed : ForkNews::Kind::fault, template_name,
                        key,
                        destroyed ? "the template was removed"
                                  : "the template cannot be removed: " + destroyed.error().what);
                    mediator_.removal_answered(caller, destroyed);
                });
    });
    return {};
}

}  // namespace xenpack
