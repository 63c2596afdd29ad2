// SPDX-License-Identifier: LGPL-2.1-or-later
// What the plugin's table is built from, as far as its tests need it. The plugin exports one
// symbol, xenpack_toolstack() of plugin/toolstack.h, which toolstack.cc defines.
#pragma once

#include "plugin/toolstack.h"

namespace xenpack::sim {

// Names the scenario's file; where it is not set the built-in scenario is simulated.
inline constexpr const char* kScenarioVariable = "XENPACK_SIM";

// The table "sim". Static.
[[nodiscard]] const xenpack_toolstack_ops& toolstack_ops();

}  // namespace xenpack::sim
