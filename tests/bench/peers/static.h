// SPDX-License-Identifier: LGPL-2.1-or-later
// Static: each zone has for ever what its workload needs at its peak. What everyone does who does
// not balloon, and the scale on which hosts of the benchmark are sized.
#pragma once

#include "tests/bench/peers/peer.h"

namespace xenpack::bench {

class Static : public Peer {
  public:
    Static() : Peer("static") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override {
        const std::uint64_t size_kib = full_size_kib(peak_kib);
        return start_with(size_kib, size_kib);
    }
    void step(sim::Host&, std::int64_t) override {}
};

}  // namespace xenpack::bench
