// SPDX-License-Identifier: LGPL-2.1-or-later
// Squeezed: how XAPI shares memory. Nobody is asked what he needs: all zones are equally far
// between their dynamic minimum and maximum. Rules and constants: xen-api's
// ocaml/squeezed/lib/squeeze.ml, its documentation and its simulator's scenarios
// (tests/unit/bench_squeezed_test.cc).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::squeezed {

inline constexpr std::int64_t kInaccuracyKib = 4;
inline constexpr std::int64_t kHostFreeKib = (64 + 8) * 1024;
inline constexpr std::int64_t kToleranceKib = 512;

// One domain as its rules see it, in KiB.
struct View {
    std::uint32_t id = 0;
    std::int64_t least = 0;  // dynamic-min
    std::int64_t target = 0;
    std::int64_t most = 0;  // dynamic-max
    std::int64_t actual = 0;
    std::int64_t inaccuracy = kInaccuracyKib;
};

enum class Verdict { adjust, success, failure };

struct Step {
    Verdict verdict = Verdict::adjust;
    std::map<std::uint32_t, std::int64_t> targets;  // to be set, where adjusting
    std::set<std::uint32_t> newly_stuck;            // whose limits are to be set to what they hold
    std::set<std::uint32_t> stuck;
};

// Everybody's target if so much is to be left free.
[[nodiscard]] std::map<std::uint32_t, std::int64_t> proportional(const std::vector<View>& views,
                                                                 std::int64_t free_kib,
                                                                 std::int64_t leave_free_kib);

// One attempt to leave `leave_free_kib` free; asked once a second until it has a verdict. Who has
// not moved towards his target for 5 s is stuck, and then left out.
class Squeezer {
  public:
    [[nodiscard]] Step look(const std::vector<View>& views, std::int64_t free_kib,
                            std::int64_t leave_free_kib, bool success, std::int64_t now_ms);

  private:
    struct Progress {
        std::int64_t last_actual = 0;
        std::int64_t moved_ms = 0;
        bool stuck = false;
    };
    void watch(const std::vector<View>& views, std::int64_t now_ms);

    std::map<std::uint32_t, Progress> progress_;
    std::set<std::uint32_t> stuck_;
};

class Squeezed : public Peer {
  public:
    Squeezed() : Peer("squeezed") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override;
    void step(sim::Host& host, std::int64_t now_ms) override;
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override;

  private:
    [[nodiscard]] std::vector<View> views(const sim::Host& host) const;
    void look(sim::Host& host, std::int64_t now_ms);

    std::optional<Squeezer> run_;
    std::int64_t leave_free_kib_ = kHostFreeKib;  // what the run is for
    bool for_start_ = false;
    std::int64_t next_balance_ms_ = 0;
    std::int64_t next_look_ms_ = 0;
    std::vector<View> seen_;  // in the last step, for the size of a start
    std::int64_t seen_free_kib_ = 0;
};

}  // namespace xenpack::bench::squeezed
