// SPDX-License-Identifier: LGPL-2.1-or-later
// What a domain's configuration said when libxl built it. Called by the toolstack table, once per
// domain: it takes libxl's per-domain lock for the time of reading one file.
#pragma once

#include "plugin/libxl/targets.h"

namespace xenpack {

// Fails with ESRCH, or ENODATA where libxl holds no record: the domain was built otherwise.
Expected<xenpack_domain_config> created_config(Hypervisor& xen, XlContext& xl, const DomainId& id);

}  // namespace xenpack
