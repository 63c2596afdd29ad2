// SPDX-License-Identifier: LGPL-2.1-or-later
// Sums over domains, and over kinds of them. Called by the watcher with an account it has just
// taken.
#include "watcher/account/density.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace xenpack {
namespace {

// Forks go by their template, others by their size.
using KindKey = std::pair<std::optional<std::size_t>, std::uint64_t>;

KindKey key_of(const CountedDomain& domain) {
    return domain.kind == DomainKind::fork && domain.template_at
               ? KindKey{domain.template_at, 0}
               : KindKey{std::nullopt, domain.sized_kib};
}

std::int64_t signed_kib(std::uint64_t kib) {
    return static_cast<std::int64_t>(kib);
}

void count_zone(Density& density, const CountedDomain& domain, const DomainCost& cost) {
    ++density.zones;
    density.sized_kib += domain.sized_kib;
    density.takes_kib += cost.takes_kib;
    density.overhead_kib += domain.books.paging_kib + domain.books.records_kib;
    const std::int64_t less = signed_kib(domain.sized_kib) - signed_kib(domain.own_kib);
    (domain.kind == DomainKind::fork ? density.shared_kib : density.ballooned_kib) += less;
}

// each_kib is the sum until all are counted.
void count_kind(KindDensity& kind, const CountedDomain& domain, const DomainCost& cost) {
    kind.template_at = key_of(domain).first;
    kind.sized_kib = std::max(kind.sized_kib, domain.sized_kib);
    ++kind.count;
    kind.each_kib += cost.takes_kib;
}

void finish(KindDensity& kind, const Spare& spare) {
    kind.each_kib = std::max<std::uint64_t>(1, kind.each_kib / kind.count);
    kind.fit_now = spare.free_kib / kind.each_kib;
    kind.fit_more = (spare.free_kib + spare.could_give_kib) / kind.each_kib;
}

}  // namespace

Density density_of(const Account& account, std::span<const CountedDomain> domains,
                   const Spare& spare) {
    Density density;
    std::map<KindKey, KindDensity> kinds;
    std::uint64_t templates_kib = account.host.shared_kib;
    for (std::size_t at = 0; at < domains.size(); ++at) {
        const CountedDomain& domain = domains[at];
        if (domain.kind == DomainKind::sealed_template) {
            templates_kib += account.domains[at].takes_kib;
        } else if (domain.kind != DomainKind::dom0) {
            count_zone(density, domain, account.domains[at]);
            count_kind(kinds[key_of(domain)], domain, account.domains[at]);
        }
    }
    density.takes_kib += templates_kib;
    density.shared_kib -= signed_kib(templates_kib);
    for (auto& [key, kind] : kinds) {
        finish(kind, spare);
        density.kinds.push_back(kind);
    }
    std::ranges::stable_sort(density.kinds, std::greater<>(), &KindDensity::count);
    return density;
}

}  // namespace xenpack
