// SPDX-License-Identifier: LGPL-2.1-or-later
// Proxmox: Proxmox VE's automatic ballooning. The host is to be used to 80 %; what that leaves is
// shared by the guests' shares above their minimum. Rules and constants: PVE/AutoBalloon.pm and
// PVE/Service/pvestatd.pm.
#pragma once

#include <vector>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::proxmox {

struct View {
    std::uint32_t id = 0;
    std::int64_t least_kib = 0;  // balloon_min
    std::int64_t most_kib = 0;   // maxmem
    std::int64_t size_kib = 0;   // balloon
    std::int64_t free_kib = 0;   // freemem; 0: not known
    std::int64_t shares = 1000;
};

// The new sizes of those that change. `goal_kib`: by how much the guests may grow, or must shrink.
[[nodiscard]] std::map<std::uint32_t, std::int64_t> balloon(const std::vector<View>& views,
                                                            std::int64_t goal_kib,
                                                            std::int64_t most_change_kib);

class Proxmox : public Peer {
  public:
    Proxmox() : Peer("proxmox") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void step(sim::Host& host, std::int64_t now_ms) override;

  private:
    Every round_{10'000};
    std::uint64_t free_kib_ = 0;
};

}  // namespace xenpack::bench::proxmox
