// SPDX-License-Identifier: LGPL-2.1-or-later
// Hyperv: Microsoft Hyper-V's Dynamic Memory. Guests report each second what is committed; each is
// to have that and a buffer of 20 %. Sources: Linux' drivers/hv/hv_balloon.c for the report and the
// floor, "Mastering Windows Server 2016 Hyper-V" for the buffer; the host's own rule for dividing a
// shortage is not published.
#pragma once

#include <vector>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::hyperv {

// Below this a Linux guest gives nothing more, whatever the host asks; by the size it booted with.
[[nodiscard]] std::uint64_t floor_kib(std::uint64_t total_kib);

struct View {
    std::uint32_t id = 0;
    double demand_kib = 0;  // committed and floor
    double least_kib = 0;
    double most_kib = 0;
    double size_kib = 0;
};

// The sizes to go to. Who has more than he is to have keeps it until somebody needs it.
[[nodiscard]] std::map<std::uint32_t, std::uint64_t> divide(const std::vector<View>& views,
                                                            double free_kib);

class Hyperv : public Peer {
  public:
    Hyperv() : Peer("hyper-v") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override;
    void step(sim::Host& host, std::int64_t now_ms) override;
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override;

  private:
    Every tick_{1'000};
    std::uint64_t start_kib_ = 0;
    std::uint64_t free_kib_ = 0;
};

}  // namespace xenpack::bench::hyperv
