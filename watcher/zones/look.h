// SPDX-License-Identifier: LGPL-2.1-or-later
// Look: what each look at a host does, whoever takes it: the watcher on a real one, a simulation or
// a test in virtual time. It prepares each zone for the decision, says what the host has for it,
// and carries it out; what reaches outside goes through Hands. It must not decide who gets what:
// that is balance/'s.
#pragma once

#include <cstdint>
#include <vector>

#include "watcher/balance/balance.h"
#include "watcher/config/config.h"
#include "watcher/zones/zone.h"

namespace xenpack {

// After a refused change: a domain being saved tells no one when that is over.
inline constexpr std::int64_t kBusyMs = 1'000;
// How long a view is good for of which nothing is heard: need fades, and donors are known by it.
inline constexpr std::int64_t kTightViewMs = 2'000;
inline constexpr std::int64_t kCalmViewMs = 60'000;

// What a look does to domains. None of it may be called but by the functions below.
class Hands {
  public:
    virtual ~Hands() = default;
    // Sets Xen's limit and the target; with keep_limit the limit is not lowered. False: it could
    // not be done, and is not to be tried again for kBusyMs.
    [[nodiscard]] virtual bool set_target(Zone& zone, std::uint64_t target_kib,
                                          bool keep_limit) = 0;
    // The limit, libxl's constant not added. False: as above.
    [[nodiscard]] virtual bool set_limit(Zone& zone, std::uint64_t limit_kib) = 0;
    // Told afterwards: a change of a plan was carried out; or a zone did not move towards
    // `told_kib`, and its target is now where it was stuck.
    virtual void change_done(Zone& zone, const Change& change) = 0;
    virtual void was_stuck(Zone& zone, std::uint64_t told_kib) = 0;
};

// The host as it was read at this look.
struct HostFacts {
    std::uint64_t total_kib = 0;
    std::uint64_t free_kib = 0;  // as in HostView
    // Of the free memory: to dom0 and domains that are no zones, and to starts that asked.
    std::uint64_t promised_to_others_kib = 0;
    std::uint64_t promised_to_starts_kib = 0;
    std::uint64_t starts_wait_for_kib = 0;
};

// Before a plan: takes note of a zone that is stuck or has come to rest, and returns its view. It
// is to be prepared again when zone.changed, or zone.view_until_ms has come, which is sooner where
// the host was not in `state` plenty.
[[nodiscard]] ZoneView prepare(Zone& zone, const HostFacts& host, const Config& config,
                               HostState state, std::int64_t now_ms, Hands& hands);

// What dom0, or a domain that is no zone, will still take of the host's free memory, as its target
// is above what it holds and what is claimed for it: nobody else may have that. Not for ever: where
// it stands still for as long as makes a zone stuck, nothing until it moves or is told anew. One
// that is paused or being built is waited for. Templates and forks hold what they share besides:
// nothing can be said of them by their targets.
[[nodiscard]] std::uint64_t still_to_take_kib(const Zone& zone, std::int64_t now_ms);

// What a plan is made from, besides the zones, all of which have been prepared.
[[nodiscard]] HostView host_view(const HostFacts& host, const Config& config, const Ledger& zones);

// Sets the targets of a plan. `by_slot`: the zones that the plan's ledger has.
void carry_out(const Plan& plan, const std::vector<Zone*>& by_slot, std::int64_t now_ms,
               Hands& hands);

}  // namespace xenpack
