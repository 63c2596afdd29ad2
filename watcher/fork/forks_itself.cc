// SPDX-License-Identifier: LGPL-2.1-or-later
// Zones that fork themselves: a request for forks whose template is yet to be sealed, once there is
// memory for them.
#include <algorithm>
#include <cerrno>

#include "watcher/fork/forks.h"
#include "watcher/fork/forks_parts.h"
#include "watcher/fork/names.h"

namespace xenpack {

Expected<void> Forks::check_itself(const Zone& zone, const Itself& asked) {
    const bool sealed = zone.family.kind == Family::Kind::sealed;
    if (!sealed) {
        if (auto fit = zone_to_seal({zone.name, asked.template_name}, 0); !fit) {
            return tl::unexpected(std::move(fit.error()));
        }
    }
    auto taken = names_taken();
    if (!sealed) {
        taken.erase(zone.name);
        taken.insert(asked.template_name);
    }
    for (const std::string& name : asked.names) {
        if (auto good = check_name(name); !good) {
            return good;
        }
        if (!taken.insert(name).second) {
            return fail_with(EEXIST, "a domain is named {} already", name);
        }
    }
    return {};
}

Expected<void> Forks::fork_itself(const Itself& asked, std::uint64_t caller) {
    if (auto host = check_host(); !host) {
        return host;
    }
    const Zone* zone = rooms_.zones.find(asked.key);
    if (zone == nullptr) {
        return fail_with(ESRCH, "that zone is not there any more");
    }
    if (auto fit = check_itself(*zone, asked); !fit) {
        return fit;
    }
    const std::uint64_t id = ++last_request_;
    if (auto memory = mediator_.ask_memory(id, asked.names.size(), asked.names.front(), kAnswerMs);
        !memory) {
        return memory;
    }
    ForksRequest forks;
    forks.template_name = asked.template_name;
    const std::size_t count = asked.names.size();
    auto request = std::make_unique<Request>(Request{id, caller, forks, asked.key, true,
                                                     asked.names, Brood(count, Until::ready),
                                                     std::vector<MadeFork>(count)});
    request->began_ms = Loop::now_ms();
    request->waits_for_template = zone->family.kind != Family::Kind::sealed;
    request->indexes = asked.indexes;
    requests_[id] = std::move(request);
    return {};
}

void Forks::seal_for_forks(Request& request) {
    const std::uint64_t id = request.id;
    const Zone* zone = rooms_.zones.find(request.template_key);
    Expected<void> begun = fail_with(ESRCH, "the zone is not there any more");
    if (zone != nullptr) {
        begun = make_template({zone->name, request.asked.template_name}, 0);
    }
    if (!begun) {
        give_up(*requests_.at(id), begun.error());
    }
}

void Forks::template_came(const ZoneKey& key, const Expected<void>& sealed) {
    std::vector<std::uint64_t> waiting;
    for (const auto& [id, request] : requests_) {
        if (request->waits_for_template && request->template_key == key) {
            waiting.push_back(id);
        }
    }
    for (const std::uint64_t id : waiting) {
        Request& request = *requests_.at(id);
        request.waits_for_template = false;
        if (!sealed) {
            give_up(request, sealed.error());
        }
    }
    if (!waiting.empty()) {
        begin_next();
    }
}

}  // namespace xenpack
