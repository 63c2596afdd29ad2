// SPDX-License-Identifier: LGPL-2.1-or-later
// Density: how many zones a host holds, what they were made for and what they take, which part of
// the difference ballooning and sharing have, and how many more of each kind would fit. Made of an
// account, for `xenpack density`; the watcher feeds it. Pure. It promises no memory: a start may
// still be refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "watcher/account/account.h"

namespace xenpack {

// What could be given to more of them.
struct Spare {
    std::uint64_t free_kib = 0;        // now: free, and promised to nobody
    std::uint64_t could_give_kib = 0;  // what zones have above what they need
};

// Domains of one kind: forks of one template, or other domains made for the same memory.
struct KindDensity {
    std::optional<std::size_t> template_at{};  // of forks: index of their template
    std::uint64_t sized_kib = 0;               // what each was made for; of forks the most
    std::size_t count = 0;
    std::uint64_t each_kib = 0;  // what each takes, on average
    // How many more like these, as they are now: of what is free, and once zones have given too.
    std::uint64_t fit_now = 0;
    std::uint64_t fit_more = 0;
};

// dom0 and templates are no zones here; what templates take, and what is shared, is their forks'.
// sized + overhead - ballooned - shared is takes, all of it.
struct Density {
    std::size_t zones = 0;
    std::uint64_t sized_kib = 0;       // what they were made for
    std::uint64_t takes_kib = 0;       // what the host has less by all of them
    std::uint64_t overhead_kib = 0;    // of that: page tables and Xen's records, the templates' not
    std::int64_t ballooned_kib = 0;    // what domains that are no forks have less than their size
    std::int64_t shared_kib = 0;       // what forks have less, without what their templates take
    std::vector<KindDensity> kinds{};  // those of most domains first
};

// `account` is account_of(.., domains).
[[nodiscard]] Density density_of(const Account& account, std::span<const CountedDomain> domains,
                                 const Spare& spare);

}  // namespace xenpack
