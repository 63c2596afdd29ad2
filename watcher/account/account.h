// SPDX-License-Identifier: LGPL-2.1-or-later
// Account: who holds every page of a host. Made of what Xen counts (plugin/toolstack.h, "books"),
// for `xenpack df`; the watcher feeds it. Pure: it reads nothing and decides nothing, and what Xen
// does not explain it shows as a remainder and never spreads over others.
//
// A page that several domains share belongs to none of them in Xen's books, and is paid once: it is
// in the host's shared_kib, and in nobody's own_kib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plugin/toolstack.h"

namespace xenpack {

enum class DomainKind { dom0, zone, fork, sealed_template, other };

// One domain as it was counted.
struct CountedDomain {
    DomainKind kind = DomainKind::other;
    std::uint64_t own_kib = 0;     // xenpack_domain.current_kib
    std::uint64_t shared_kib = 0;  // xenpack_domain.shared_kib
    std::uint64_t sized_kib = 0;   // the memory it was made for: its maxmem
    xenpack_domain_books books{};
    // Whose fork it is, as an index into the domains counted; also of a template that was a fork.
    std::optional<std::size_t> template_at{};
};

// What one domain costs its host.
struct DomainCost {
    std::uint64_t takes_kib = 0;  // own pages, page tables and records
    // What the host had back if it went; unset: it cannot go (dom0, a template that has forks).
    std::optional<std::uint64_t> frees_kib;
    std::size_t forks = 0;  // of a template, those of its own
};

// A template that is nobody's fork, with all that come from it.
struct FamilyCost {
    std::size_t root = 0;   // index of its template
    std::size_t forks = 0;  // domains that come from it, forks of forks too
    // Pages of the root that some of them share. Forks of forks may share more, which Xen counts
    // for the host alone.
    std::uint64_t shared_kib = 0;
    std::uint64_t takes_kib = 0;  // with shared_kib
    std::uint64_t sized_kib = 0;  // what they were made for
};

// Where all of the host's memory is: the parts and the remainder are total_kib.
struct HostAccount {
    std::uint64_t total_kib = 0;
    std::uint64_t dom0_kib = 0;       // pages of dom0
    std::uint64_t zones_kib = 0;      // of the zones,
    std::uint64_t forks_kib = 0;      // of the forks,
    std::uint64_t templates_kib = 0;  // of the templates,
    std::uint64_t others_kib = 0;     // and of domains that are none of these
    std::uint64_t shared_kib = 0;     // that several domains share
    std::uint64_t paging_kib = 0;     // page tables of all domains
    std::uint64_t records_kib = 0;    // the hypervisor's records of them; estimated
    std::uint64_t map_kib = 0;        // the hypervisor's tables of the host's pages
    std::uint64_t free_kib = 0;
    std::int64_t remainder_kib = 0;  // what nothing explains; less than 0: counted twice
};

struct Account {
    HostAccount host;
    std::vector<DomainCost> domains;   // in the order counted
    std::vector<FamilyCost> families;  // in the order of their roots
};

[[nodiscard]] Account account_of(const xenpack_host_books& books,
                                 std::span<const CountedDomain> domains);

}  // namespace xenpack
