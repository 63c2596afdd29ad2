// SPDX-License-Identifier: LGPL-2.1-or-later
// What a domain of libxl's configuration would cost on the simulated host. Called by the
// toolstack's table. It reads what it needs of the JSON and must not judge the rest: libxl is not
// here.
#pragma once

#include <string_view>

#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack::sim {

// `config_json` is what `xl create --dryrun` prints: c_info.uuid, b_info.max_vcpus, max_memkb,
// target_memkb and shadow_memkb are read. Fails with EINVAL where it is none.
[[nodiscard]] Expected<xenpack_start_cost> start_cost(std::string_view config_json);

}  // namespace xenpack::sim
