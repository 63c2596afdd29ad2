// SPDX-License-Identifier: LGPL-2.1-or-later
// How much Xen needs for the page tables of a domain that will be forked. A fork gets as much as
// its template has from its first moment on (fork_hap_allocation in mem_sharing.c), and all of it
// is taken from the host: of an idle fork of 256 MiB, libxl's choice of 3 MiB would be half. Called
// by Sealing. Pure.
#pragma once

#include <cstdint>

namespace xenpack {

// Choice, in pages: tables of what is no memory of its own: grants, Xen's special pages near 4 GiB,
// what its kernel maps of others' where it likes. Each such place takes one to three.
inline constexpr std::uint64_t kPagingSparePages = 32;

// Enough where every page of `limit_kib`, the most that the domain may hold, is mapped by itself,
// as in a fork, and is written to while the fork is saved.
[[nodiscard]] std::uint64_t paging_pool_kib(std::uint64_t limit_kib, std::uint32_t vcpus);

}  // namespace xenpack
