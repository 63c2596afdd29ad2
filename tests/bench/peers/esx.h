// SPDX-License-Identifier: LGPL-2.1-or-later
// Esx: VMware ESX' min-funding revocation with a tax on idle memory. How much of a guest is in use
// is found by sampling, without the guest's help. Rules and constants: Waldspurger, "Memory
// Resource Management in VMware ESX Server", OSDI 2002, sections 5 and 6, and ESX' advanced options
// Mem.IdleTax, Mem.BalancePeriod and Mem.CtlMaxPercent.
#pragma once

#include <vector>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::esx {

// The active fraction: the greatest of a slow average, a fast one, and the fast one with what is
// seen in the sampling period that is not over yet. Rises at once, falls slowly.
class Active {
  public:
    // `share` of the guest's pages was touched within the last sampling period.
    void look(double share, std::int64_t now_ms);
    [[nodiscard]] double estimate() const;

  private:
    double slow_ = 0;
    double fast_ = 0;
    double now_ = 0;
    bool first_ = true;
    std::int64_t next_ms_ = 0;
};

struct View {
    std::uint32_t id = 0;
    double shares = 0;
    double least_kib = 0;
    double most_kib = 0;
    double active = 0;  // 0 to 1
};

// The price of a page relative to an active one: active pages cost 1, idle ones 1 / (1 - tax).
[[nodiscard]] double cost(double active);
// Sizes at which shares per price are equal for all that are not at their bounds.
[[nodiscard]] std::map<std::uint32_t, std::uint64_t> divide(const std::vector<View>& views,
                                                            double memory_kib);

class Esx : public Peer {
  public:
    Esx() : Peer("esx") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override;
    void step(sim::Host& host, std::int64_t now_ms) override;
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override;

  private:
    void rebalance(const sim::Host& host);

    Every tick_{1'000};
    Every balance_{15'000};
    std::map<std::uint32_t, Active> active_;
    std::map<std::uint32_t, std::uint64_t> sizes_kib_;
    bool changed_ = false;   // guests came, or a threshold was crossed
    bool reclaims_ = false;  // from the soft threshold until the high one is reached
    std::uint64_t start_kib_ = 0;
    std::uint64_t free_kib_ = 0;
};

}  // namespace xenpack::bench::esx
