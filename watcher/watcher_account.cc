// SPDX-License-Identifier: LGPL-2.1-or-later
// What the watcher counts when somebody asks: who holds the host's memory, and what another zone
// or fork would take of it. Called by Control. account/ adds it up; nothing here is kept, and
// nothing is changed.
#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "watcher/account/account.h"
#include "watcher/account/density.h"
#include "watcher/watcher.h"
#include "watcher/watcher_asked.h"

namespace xenpack {

// Counted between two readings of the host's books.
struct Watcher::Counted {
    xenpack_host_books books{};
    bool at_rest = false;  // both readings were the same
    std::vector<const Zone*> zones;
    std::vector<CountedDomain> domains;  // of the zones, in their order
};

namespace {

using nlohmann::json;
using ZoneList = std::vector<const Zone*>;

// Each takes a hypercall a domain: while memory moves no count is exact, and the last one counts.
constexpr int kCountsMost = 4;

DomainKind kind_of(const Zone& zone) {
    if (zone.key.domid == 0) {
        return DomainKind::dom0;
    }
    if (zone.family.is_template()) {
        return DomainKind::sealed_template;
    }
    if (zone.family.is_fork()) {
        return DomainKind::fork;
    }
    return zone.managed ? DomainKind::zone : DomainKind::other;
}

std::string_view name_of(DomainKind kind) {
    switch (kind) {
        case DomainKind::dom0:
            return "dom0";
        case DomainKind::zone:
            return "zone";
        case DomainKind::fork:
            return "fork";
        case DomainKind::sealed_template:
            return "template";
        case DomainKind::other:
            break;
    }
    return "other";
}

std::uint64_t sized_kib(const Zone& zone) {
    const std::uint64_t has = zone.domain.current_kib + zone.domain.shared_kib;
    const bool may_have_more = zone.key.domid != 0 && zone.static_max_kib;
    return may_have_more ? std::max(has, *zone.static_max_kib) : has;
}

bool is_same(const xenpack_host_books& one, const xenpack_host_books& other) {
    return one.free_kib == other.free_kib && one.shared_kib == other.shared_kib &&
           one.claimed_kib == other.claimed_kib;
}

void find_templates(const ZoneList& zones, std::vector<CountedDomain>& domains) {
    std::map<std::string, std::size_t> by_uuid;
    for (std::size_t at = 0; at < zones.size(); ++at) {
        by_uuid.emplace(to_string(zones[at]->key.uuid), at);
    }
    for (std::size_t at = 0; at < zones.size(); ++at) {
        const auto found = by_uuid.find(zones[at]->family.template_uuid);
        if (found != by_uuid.end() && found->second != at) {
            domains[at].template_at = found->second;
        }
    }
}

json host_json(const HostAccount& host, const xenpack_host_books& books) {
    return {{"total_kib", host.total_kib},      {"dom0_kib", host.dom0_kib},
            {"zones_kib", host.zones_kib},      {"forks_kib", host.forks_kib},
            {"others_kib", host.others_kib},    {"templates_kib", host.templates_kib},
            {"shared_kib", host.shared_kib},    {"saved_kib", books.saved_kib},
            {"paging_kib", host.paging_kib},    {"records_kib", host.records_kib},
            {"map_kib", host.map_kib},          {"free_kib", host.free_kib},
            {"claimed_kib", books.claimed_kib}, {"remainder_kib", host.remainder_kib}};
}

json nodes_of(std::uint64_t mask) {
    json list = json::array();
    for (unsigned node = 0; node < 64; ++node) {
        if ((mask >> node & 1) != 0) {
            list.push_back(node);
        }
    }
    return list;
}

// Of a template; null where there is none.
json name_at(const ZoneList& zones, std::optional<std::size_t> at) {
    return at ? json(zones[*at]->name) : json(nullptr);
}

json domain_json(const ZoneList& zones, std::size_t at, const CountedDomain& domain,
                 const DomainCost& cost) {
    const Zone& zone = *zones[at];
    return {{"name", zone.key.domid == 0 && zone.name.empty() ? "Domain-0" : zone.name},
            {"domid", zone.key.domid},
            {"uuid", to_string(zone.key.uuid)},
            {"kind", name_of(domain.kind)},
            {"own_kib", domain.own_kib},
            {"shared_kib", domain.shared_kib},
            {"paging_kib", domain.books.paging_kib},
            {"records_kib", domain.books.records_kib},
            {"takes_kib", cost.takes_kib},
            {"frees_kib", cost.frees_kib ? json(*cost.frees_kib) : json(nullptr)},
            {"sized_kib", domain.sized_kib},
            {"claimed_kib", zone.domain.claimed_kib},
            {"nodes", nodes_of(domain.books.nodes)},
            {"template", name_at(zones, domain.template_at)}};
}

json families_json(const std::vector<FamilyCost>& families, const ZoneList& zones) {
    json list = json::array();
    for (const FamilyCost& family : families) {
        const Zone& root = *zones[family.root];
        list.push_back({{"template", root.name},
                        {"domid", root.key.domid},
                        {"forks", family.forks},
                        {"shared_kib", family.shared_kib},
                        {"takes_kib", family.takes_kib},
                        {"sized_kib", family.sized_kib}});
    }
    return list;
}

json topology_json(const Topology& topology) {
    json nodes = json::array();
    const std::size_t n = topology.nodes.size();
    for (std::size_t node = 0; node < n; ++node) {
        const auto cpus = std::ranges::count(topology.cpus, node, &xenpack_cpu::node);
        if (topology.nodes[node].size_kib == 0 && cpus == 0) {
            continue;  // a hole in the numbers
        }
        json distances = json::array();
        for (std::size_t other = 0; other < n; ++other) {
            distances.push_back(topology.distances[node * n + other]);
        }
        nodes.push_back({{"node", node},
                         {"size_kib", topology.nodes[node].size_kib},
                         {"free_kib", topology.nodes[node].free_kib},
                         {"cpus", cpus},
                         {"distances", distances}});
    }
    return nodes;
}

json density_json(const Density& density, const ZoneList& zones) {
    json kinds = json::array();
    for (const KindDensity& kind : density.kinds) {
        kinds.push_back({{"template", name_at(zones, kind.template_at)},
                         {"sized_kib", kind.sized_kib},
                         {"count", kind.count},
                         {"each_kib", kind.each_kib},
                         {"fit_now", kind.fit_now},
                         {"fit_more", kind.fit_more}});
    }
    return {{"zones", density.zones},
            {"sized_kib", density.sized_kib},
            {"takes_kib", density.takes_kib},
            {"overhead_kib", density.overhead_kib},
            {"saved_by_ballooning_kib", density.ballooned_kib},
            {"saved_by_sharing_kib", density.shared_kib},
            {"kinds", kinds}};
}

json cost_json(std::uint64_t memory_kib, std::uint64_t overhead_kib) {
    return {{"memory_kib", memory_kib},
            {"overhead_kib", overhead_kib},
            {"size_kib", memory_kib + overhead_kib}};
}

}  // namespace

// Fails with ESRCH where a domain went while it was counted.
Expected<Watcher::Counted> Watcher::count_once() {
    Counted counted;
    const auto before = toolstack_->host_books();
    const auto learned = before ? learn() : tl::unexpected(before.error());
    if (!learned) {
        return tl::unexpected(learned.error());
    }
    counted.zones.push_back(&zones_->dom0());
    std::ranges::copy(zones_->all(), std::back_inserter(counted.zones));
    for (const Zone* zone : counted.zones) {
        const auto books = toolstack_->domain_books(zone->key.domid, zone->key.uuid);
        if (!books) {
            return tl::unexpected(books.error());
        }
        counted.domains.push_back({kind_of(*zone),
                                   zone->domain.current_kib,
                                   zone->domain.shared_kib,
                                   sized_kib(*zone),
                                   *books,
                                   {}});
    }
    find_templates(counted.zones, counted.domains);
    const auto after = toolstack_->host_books();
    if (!after) {
        return tl::unexpected(after.error());
    }
    counted.books = *after;
    counted.at_rest = is_same(*before, *after);
    return counted;
}

Expected<Watcher::Counted> Watcher::count() {
    auto counted = count_once();
    for (int tried = 1; tried < kCountsMost; ++tried) {
        const bool is_good = counted ? counted->at_rest : counted.error().code != ESRCH;
        if (is_good) {
            break;
        }
        counted = count_once();
    }
    return counted;
}

Expected<json> Watcher::account() {
    const auto counted = count();
    const auto topology = counted ? toolstack_->topology() : tl::unexpected<Error>(counted.error());
    if (!topology) {
        return tl::unexpected(topology.error());
    }
    const Account account = account_of(counted->books, counted->domains);
    json domains = json::array();
    for (std::size_t at = 0; at < counted->domains.size(); ++at) {
        domains.push_back(
            domain_json(counted->zones, at, counted->domains[at], account.domains[at]));
    }
    json host = host_json(account.host, counted->books);
    host["at_rest"] = counted->at_rest;
    host["promised_to_starts_kib"] = desk_->book().held_kib();
    const StartSupply spare = supply();
    const Density density =
        density_of(account, counted->domains, {spare.free_kib, spare.could_give_kib});
    return json{{"host", host},
                {"density", density_json(density, counted->zones)},
                {"nodes", topology_json(*topology)},
                {"domains", domains},
                {"families", families_json(account.families, counted->zones)}};
}

// By what the forks that are ready have written to, where there are any: the one in the middle.
Expected<json> Watcher::fork_cost(const std::string& name) {
    const auto found = zones_->find(name);
    if (!found) {
        return tl::unexpected(found.error());
    }
    const Zone& base = **found;
    const auto cost = toolstack_->fork_cost(base.key.domid, base.key.uuid);
    if (!cost) {
        return tl::unexpected(cost.error());
    }
    std::vector<std::uint64_t> written;
    for (const Zone* child : forks_->children_of(base.key.uuid)) {
        if (child->family.kind == Family::Kind::fork && forks_->is_ready(*child)) {
            written.push_back(child->domain.current_kib);
        }
    }
    if (written.empty()) {
        return cost_json(cost->memory_kib, cost->overhead_kib);
    }
    const auto middle = written.begin() + static_cast<std::ptrdiff_t>(written.size() / 2);
    std::ranges::nth_element(written, middle);
    return cost_json(*middle, cost->overhead_kib);
}

Expected<json> Watcher::cost(const json& asked) {
    static constexpr std::array<std::string_view, 2> kKnown{"config", "template"};
    const auto known = check_members(asked, kKnown, "a question of cost");
    const auto config = asked_text(asked, "config");
    const auto base = asked_text(asked, "template");
    if (const Error* wrong = first_error(known, config, base)) {
        return tl::unexpected(*wrong);
    }
    if (config->empty() == base->empty()) {
        return fail_with(EINVAL, "name either a config or a template");
    }
    if (!base->empty()) {
        return fork_cost(*base);
    }
    return toolstack_->start_cost(*config).map([](const xenpack_start_cost& cost) {
        return cost_json(cost.memory_kib, cost.overhead_kib);
    });
}

}  // namespace xenpack
