// SPDX-License-Identifier: LGPL-2.1-or-later
// What hands out a fork that stands ready: its new name, and its first run. Called by the
// toolstack's table. It must not know what the watcher keeps such forks for.
#pragma once

#include <string>

#include "plugin/libxl/jobs.h"
#include "plugin/libxl/targets.h"
#include "watcher/error.h"

namespace xenpack {

// As rename and unpause of plugin/toolstack.h. EBUSY: a job is working on that domain.
Expected<void> rename_domain(Tools& tools, const DomainId& domain, const std::string& name);
Expected<void> unpause_domain(Tools& tools, const DomainId& domain);

}  // namespace xenpack
