// SPDX-License-Identifier: LGPL-2.1-or-later
// Edera: the dynamic mode of Edera Protect, as far as it is documented: a zone of which at least
// 90 % is unused is halved, one of which at least 70 % is used grows to its maximum or to 80 MB
// over its use. Source: docs.edera.dev, "Memory ballooning with Edera"; the program is not public.
#pragma once

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::edera {

inline constexpr std::uint64_t kLeastKib = 300 * kMibKib;

[[nodiscard]] std::uint64_t target_kib(std::uint64_t size_kib, std::uint64_t used_kib,
                                       std::uint64_t most_kib);

class Edera : public Peer {
  public:
    Edera() : Peer("edera") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override;
    void step(sim::Host& host, std::int64_t now_ms) override;

  private:
    struct Zone {
        std::int64_t next_ms = 0;
        std::int64_t pause_ms = 0;
    };
    void look(sim::Host& host, sim::Domain& domain, Zone& zone);
    void rescue(sim::Host& host, sim::Domain& domain);

    std::map<std::uint32_t, Zone> zones_;
};

}  // namespace xenpack::bench::edera
