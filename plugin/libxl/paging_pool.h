// SPDX-License-Identifier: LGPL-2.1-or-later
// How many pages Xen needs for the page tables of a domain that will be forked. A fork's pool is as
// large as its template's from its first moment on (fork_hap_allocation in mem_sharing.c), and all
// of it is taken from the host: of an idle fork of 256 MiB that libxl's choice of 3 MiB would be
// nine tenths. Called by Sealing. Pure.
#pragma once

#include <cstdint>

namespace xenpack {

// Beyond those below, in pages: tables of what is no memory of its own (grants, Xen's special
// pages near 4 GiB, what its kernel maps of others' at addresses of its choice).
inline constexpr std::uint64_t kPagingSparePages = 96;

// Enough where every page of `limit_kib`, the most that the domain may hold, is mapped by itself,
// as in a fork, and is written to while the fork is saved. What is given fills whole MiB: Xen gives
// a fork no less.
[[nodiscard]] std::uint64_t paging_pool_kib(std::uint64_t limit_kib, std::uint32_t vcpus);

}  // namespace xenpack
