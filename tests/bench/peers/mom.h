// SPDX-License-Identifier: LGPL-2.1-or-later
// Mom: oVirt's Memory Overcommitment Manager. While less than a fifth of the host is free every
// guest shrinks, else every guest grows, 5 % at a time. Rules and constants: vdsm's
// mom.d/02-balloon.policy, which is MOM's doc/balloon.rules with a guaranteed minimum.
#pragma once

#include <deque>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::mom {

struct View {
    double current_kib = 0;       // balloon_cur
    double mean_current_kib = 0;  // over the last ten samples, as the next one
    double mean_unused_kib = 0;   // mem_unused: MemFree, so the page cache counts as used
    double least_kib = 0;         // balloon_min: the memory guaranteed to the guest
    double most_kib = 0;
};

// The new target; the present size where the change would be too small. `host_free` is a share.
[[nodiscard]] double target_kib(const View& view, double host_free);

class Mom : public Peer {
  public:
    Mom() : Peer("mom") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void step(sim::Host& host, std::int64_t now_ms) override;

  private:
    class Mean {
      public:
        void add(double value);
        [[nodiscard]] double value() const;

      private:
        std::deque<double> last_;
    };
    struct Zone {
        Mean current;
        Mean unused;
    };

    void sample(const sim::Host& host);
    void decide(sim::Host& host);

    Every monitor_{5'000};
    Every policy_{10'000};
    Mean host_free_;
    std::map<std::uint32_t, Zone> zones_;
    std::uint64_t free_kib_ = 0;
};

}  // namespace xenpack::bench::mom
