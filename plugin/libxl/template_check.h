// SPDX-License-Identifier: LGPL-2.1-or-later
// Whether a domain's configuration is one that forks can be made of. Pure: it reads what libxl has
// filled in. Called by Sealing, before it touches the domain.
#pragma once

#include "plugin/libxl/xen.h"
#include "watcher/error.h"

namespace xenpack {

// ENOTSUP with the first reason against it.
Expected<void> check_forkable(const libxl_domain_config& config);

}  // namespace xenpack
