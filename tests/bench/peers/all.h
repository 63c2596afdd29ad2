// SPDX-License-Identifier: LGPL-2.1-or-later
// All policies of the benchmark by name: Xenpack's own, the peers, and the oracle.
#pragma once

#include <string_view>
#include <vector>

#include "watcher/simulate/experiment.h"

namespace xenpack::bench {

// The aims are those of `ours`, as shipped; a variant of it is shown beside it.
enum class Role { ours, variant, peer, oracle };

struct Contender {
    std::string_view name;
    Role role = Role::peer;
    simulate::MakePolicy make = nullptr;
};

// Ours first, then the peers, static sizes the first of them, the oracle last.
[[nodiscard]] const std::vector<Contender>& contenders();

}  // namespace xenpack::bench
