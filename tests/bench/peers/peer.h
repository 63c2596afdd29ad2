// SPDX-License-Identifier: LGPL-2.1-or-later
// Peer: what the policies of others have in common. Each of them is written from its published
// rules and constants, with what its documentation recommends; where that leaves a choice, the one
// that serves the peer better was taken, and its file says so. Used by the benchmark; no I/O.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "watcher/simulate/policy.h"
#include "watcher/simulate/static_policy.h"

namespace xenpack::bench {

inline constexpr std::uint64_t kMibKib = 1024;

// The pages that the guest uses, as most agents count them: all but free ones and the page cache.
[[nodiscard]] std::uint64_t used_without_cache_kib(const sim::Domain& domain);

class Peer : public simulate::Policy {
  public:
    explicit Peer(std::string_view name) : name_(name) {}
    [[nodiscard]] std::string_view name() const override { return name_; }
    void zone_started(const sim::Domain&, std::int64_t) override {}
    [[nodiscard]] std::uint64_t target_changes() const override { return changes_; }
    // Those without a notion of starts: there is room, or there is none.
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override {
        return host.free_kib() >= cost_kib;
    }

  protected:
    // Sets and counts it, unless it is the target already.
    void set_target(sim::Host& host, sim::Domain& domain, std::uint64_t target_kib);

    // Brings zones to sizes, by domid: who is to shrink is told at once, who is to grow gets what
    // is free beyond `keep_free_kib` and promised to nobody, all in proportion where it is too
    // little. For those whose own hypervisor gives a page when it is touched; a target that Xen
    // cannot back would send Linux' driver to sleep.
    void move_towards(sim::Host& host, const std::map<std::uint32_t, std::uint64_t>& sizes_kib,
                      std::uint64_t keep_free_kib);

    // Hypervisors that hand out memory as it is touched start a guest at its full size. Xen takes a
    // domain's memory at once, so here such a guest starts with what there is, and at least
    // `least`. `free_kib` is what was seen free in the last step.
    [[nodiscard]] static sim::DomainConfig start_with_what_there_is(std::uint64_t least_kib,
                                                                    std::uint64_t full_kib,
                                                                    std::uint64_t free_kib);
    [[nodiscard]] static sim::DomainConfig start_with(std::uint64_t memory_kib,
                                                      std::uint64_t max_memory_kib);

  private:
    std::string_view name_;
    std::uint64_t changes_ = 0;
};

// What is free and promised to nobody, beyond `keep_free_kib`.
[[nodiscard]] std::uint64_t spare_kib(const sim::Host& host, std::uint64_t keep_free_kib);

// True once in each period of virtual time.
class Every {
  public:
    explicit Every(std::int64_t period_ms) : period_ms_(period_ms) {}
    [[nodiscard]] bool due(std::int64_t now_ms) {
        if (now_ms < next_ms_) {
            return false;
        }
        next_ms_ = now_ms + period_ms_;
        return true;
    }

  private:
    std::int64_t period_ms_;
    std::int64_t next_ms_ = 0;
};

}  // namespace xenpack::bench
