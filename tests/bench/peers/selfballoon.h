// SPDX-License-Identifier: LGPL-2.1-or-later
// Selfballoon: Linux' drivers/xen/xen-selfballoon.c (until 5.3): each guest follows its own
// Committed_AS every five seconds, all the way up and an eighth of the way down. Nobody looks at
// the host.
#pragma once

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::selfballoon {

// The least that a guest of that size goes down to.
[[nodiscard]] std::uint64_t floor_kib(std::uint64_t most_kib);
[[nodiscard]] std::uint64_t target_kib(std::uint64_t size_kib, std::uint64_t goal_kib,
                                       std::uint64_t least_kib, std::uint64_t most_kib);

class Selfballoon : public Peer {
  public:
    Selfballoon() : Peer("selfballoon") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void step(sim::Host& host, std::int64_t now_ms) override;

  private:
    Every interval_{5'000};
    std::uint64_t free_kib_ = 0;
};

}  // namespace xenpack::bench::selfballoon
