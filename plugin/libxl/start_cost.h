// SPDX-License-Identifier: LGPL-2.1-or-later
// What starting a domain takes from the host's free memory, by libxl's own rules for a
// configuration and by what Xen takes beside them. Called by the toolstack table. It builds
// nothing.
#pragma once

#include "plugin/libxl/xl_context.h"

namespace xenpack {

// `config_json` is what `xl create --dryrun` prints. Fails with EINVAL where it is no configuration
// of a domain that libxl could build, with EIO where libxl cannot say what it would need.
Expected<xenpack_start_cost> start_cost(XlContext& xl, const char* config_json);

}  // namespace xenpack
