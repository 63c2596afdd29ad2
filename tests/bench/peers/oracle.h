// SPDX-License-Identifier: LGPL-2.1-or-later
// Oracle: the policy that knows the future, and so the measure of all others: it reads each zone's
// trace ahead and gives just what is about to be needed. Where that is not to be had, it cuts where
// that costs least: page cache that is hardly read first, anonymous memory never before cache.
#pragma once

#include <map>
#include <vector>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::oracle {

// The most that a zone needs within some time, in KiB of pages held.
struct Peak {
    std::uint64_t survival_kib = 0;  // without it: killed
    std::uint64_t ease_kib = 0;      // without it: stalls
};

struct Need {
    std::uint32_t id = 0;
    Peak now;                    // before anybody else's memory can be here
    Peak soon;                   // in the seconds after that
    std::uint64_t keep_kib = 0;  // without it: reads again, later, what it has in its cache now
    double reads_per_s = 0;      // of each KiB between survival and ease: what cutting it costs
    std::uint64_t holds_kib = 0;
};

// Sizes that sum up to at most `memory_kib`: first what everybody needs now, then soon, then later.
[[nodiscard]] std::map<std::uint32_t, std::uint64_t> divide(std::vector<Need> needs,
                                                            std::uint64_t memory_kib);

class Oracle : public Peer {
  public:
    Oracle() : Peer("oracle") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override;
    void step(sim::Host& host, std::int64_t now_ms) override;
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override;

  private:
    [[nodiscard]] Need need_of(const sim::Domain& domain);
    [[nodiscard]] std::uint64_t cache_later_kib(const sim::Guest& guest);

    Every tick_{100};
    std::uint64_t start_kib_ = 0;
    // The most cache that is in use in each second of a trace.
    std::map<const sim::Trace*, std::vector<std::uint64_t>> cache_kib_;
};

}  // namespace xenpack::bench::oracle
