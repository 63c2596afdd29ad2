// SPDX-License-Identifier: LGPL-2.1-or-later
// Policy: a way to share a simulated host's memory. An Experiment asks it in every step of virtual
// time; xenpack's own is in xenpack_policy.h, those of others in tests/bench/peers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plugin/sim/host.h"

namespace xenpack::simulate {

class Policy {
  public:
    virtual ~Policy() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;
    // How a zone is to be configured under this policy (static sizes start at their peak; others
    // at what their documentation says). `peak_kib` is the most its workload ever wants.
    [[nodiscard]] virtual sim::DomainConfig zone_config(std::uint64_t peak_kib) const = 0;
    // A zone that has started stays to the end.
    virtual void zone_started(const sim::Domain& domain, std::int64_t now_ms) = 0;
    // One step has passed. The policy reads what its agents would (domain.guest.stats()), at the
    // pace its agents would, and sets targets. Only an oracle may look at traces.
    virtual void step(sim::Host& host, std::int64_t now_ms) = 0;
    [[nodiscard]] virtual std::uint64_t target_changes() const = 0;
    // Asks for room for a start of that cost; asked again each step until it says yes (the
    // experiment then creates it at once) or the experiment gives up.
    [[nodiscard]] virtual bool make_room(sim::Host& host, std::uint64_t cost_kib) = 0;
};

}  // namespace xenpack::simulate
