// SPDX-License-Identifier: LGPL-2.1-or-later
// Adds up. Called by the watcher with what it has just counted. Nothing here may be made to fit:
// where the numbers do not agree the remainder says so.
#include "watcher/account/account.h"

#include <map>

namespace xenpack {
namespace {

using Domains = std::span<const CountedDomain>;

std::uint64_t& pages_of_kind(HostAccount& host, DomainKind kind) {
    switch (kind) {
        case DomainKind::dom0:
            return host.dom0_kib;
        case DomainKind::zone:
            return host.zones_kib;
        case DomainKind::fork:
            return host.forks_kib;
        case DomainKind::sealed_template:
            return host.templates_kib;
        case DomainKind::other:
            break;
    }
    return host.others_kib;
}

HostAccount add_up(const xenpack_host_books& books, Domains domains) {
    HostAccount host;
    host.total_kib = books.total_kib;
    host.shared_kib = books.shared_kib;
    host.map_kib = books.map_kib;
    host.free_kib = books.free_kib;
    std::uint64_t explained = host.shared_kib + host.map_kib + host.free_kib;
    for (const CountedDomain& domain : domains) {
        pages_of_kind(host, domain.kind) += domain.own_kib;
        host.paging_kib += domain.books.paging_kib;
        host.records_kib += domain.books.records_kib;
        explained += domain.own_kib + domain.books.paging_kib + domain.books.records_kib;
    }
    host.remainder_kib = static_cast<std::int64_t>(host.total_kib - explained);
    return host;
}

// What only a template's forks keep from being free goes with it; of one that was a fork, its own
// template may have the pages too.
std::optional<std::uint64_t> frees_kib(const CountedDomain& domain, const DomainCost& cost) {
    if (domain.kind == DomainKind::dom0 || cost.forks > 0) {
        return std::nullopt;
    }
    const bool is_root = domain.kind == DomainKind::sealed_template && !domain.template_at;
    return cost.takes_kib + (is_root ? domain.shared_kib : 0);
}

// Whoever all of them come from. A chain is never longer than there are domains: what is not true
// of domains on a host cannot make this run for ever.
std::size_t root_of(Domains domains, std::size_t at) {
    for (std::size_t steps = 0; domains[at].template_at && steps < domains.size(); ++steps) {
        at = *domains[at].template_at;
    }
    return at;
}

std::vector<FamilyCost> families_of(Domains domains, const std::vector<DomainCost>& costs) {
    std::map<std::size_t, FamilyCost> families;
    for (std::size_t at = 0; at < domains.size(); ++at) {
        const std::size_t root = root_of(domains, at);
        if (domains[root].kind != DomainKind::sealed_template) {
            continue;
        }
        FamilyCost& family = families[root];
        family.root = root;
        family.takes_kib += costs[at].takes_kib;
        family.sized_kib += domains[at].sized_kib;
        if (at == root) {
            family.shared_kib = domains[root].shared_kib;
            family.takes_kib += family.shared_kib;
        } else {
            ++family.forks;
        }
    }
    std::vector<FamilyCost> list;
    list.reserve(families.size());
    for (const auto& [root, family] : families) {
        list.push_back(family);
    }
    return list;
}

}  // namespace

Account account_of(const xenpack_host_books& books, Domains domains) {
    Account account{add_up(books, domains), std::vector<DomainCost>(domains.size()), {}};
    for (const CountedDomain& domain : domains) {
        if (domain.template_at) {
            ++account.domains[*domain.template_at].forks;
        }
    }
    for (std::size_t at = 0; at < domains.size(); ++at) {
        const CountedDomain& domain = domains[at];
        DomainCost& cost = account.domains[at];
        cost.takes_kib = domain.own_kib + domain.books.paging_kib + domain.books.records_kib;
        cost.frees_kib = frees_kib(domain, cost);
    }
    account.families = families_of(domains, account.domains);
    return account;
}

}  // namespace xenpack
