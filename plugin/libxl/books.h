// SPDX-License-Identifier: LGPL-2.1-or-later
// Books: what Xen counts besides what domains hold, and how the host is built: its NUMA nodes and
// processors. Called by the toolstack table when somebody asks, never at a look: each is a
// hypercall for each domain or each pool. It adds nothing up: that is account/'s.
#pragma once

#include <cstdint>

#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/templates.h"
#include "plugin/toolstack.h"

namespace xenpack {

Expected<xenpack_host_books> host_books(Hypervisor& xen);

// Fails with ESRCH where no domain has that domid with that uuid.
Expected<xenpack_domain_books> domain_books(Hypervisor& xen, std::uint32_t domid,
                                            const std::uint8_t uuid[16]);

// What a fork takes until it is ready. Fails as Templates::find().
Expected<xenpack_fork_cost> fork_cost(Hypervisor& xen, Templates& templates, std::uint32_t domid,
                                      const std::uint8_t uuid[16]);

// False: there is not room for all; both numbers are set, and nothing else.
Expected<bool> topology(Hypervisor& xen, xenpack_topology& topology);

}  // namespace xenpack
