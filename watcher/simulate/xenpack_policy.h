// SPDX-License-Identifier: LGPL-2.1-or-later
// Xenpack's own policy as an Experiment sees it: the code that xenpackd and xenpack-guest run, in
// virtual time. It must not decide anything itself: what is here is only what carries values from
// the simulated guests to pressure/, zones/ and balance/ and back.
#pragma once

#include <memory>

#include "watcher/config/config.h"
#include "watcher/simulate/policy.h"

namespace xenpack::simulate {

// As shipped, with the configuration's defaults.
[[nodiscard]] std::unique_ptr<Policy> make_xenpack_policy();
// The same, with the workload of every zone under xenpack-guest's brake.
[[nodiscard]] std::unique_ptr<Policy> make_xenpack_brake_policy();

// And with another configuration, of which emergency and start-reserve are heeded.
[[nodiscard]] std::unique_ptr<Policy> make_xenpack_policy(const Config& config, bool brake);

}  // namespace xenpack::simulate
