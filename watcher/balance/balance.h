// SPDX-License-Identifier: LGPL-2.1-or-later
// Balance: from the host, the zones and their demand to targets, each with its reason.
// Pure: values in, a plan out. The watcher calls it at each look and carries the plan out.
// What one zone wishes and could give is in need.h; here zones are weighed against each other.
//
// What the plan promises:
//   - A zone grows at once, out of memory that Xen has free now and has promised to no one.
//   - No zone shrinks below its floor, nor on anything but a fresh report, nor below what it must
//     have unless an admin's ceiling or pin says so.
//   - Need comes first, then weight: what zones must have is granted before what puts them at ease,
//     and that before what they would like; what is not enough is divided by weight.
//   - A fork that is held for want of memory stands still: what the first of them needs to go on is
//     left to it before zones that stall are grown, and what all of them need before any zone is
//     given headroom.
//   - While memory is plentiful nothing is taken. While the free memory is under the reserve, a
//     little is taken from what zones do not even need for long (their slow need). While a zone or
//     a start waits, the idlest give first: what is beyond their slow need, then beyond their quick
//     need; and for starts, and what those lack who stall or are in danger, also the page cache of
//     those who do not stall, until all feel it alike.
//   - Where the host has room for all zones at their ceilings, all get it: no zone is worse off
//   than
//     with a fixed size. What is kept free is never more than what they could want beyond the host.
//   - A donor is asked again only after Xen has confirmed what it was asked before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/balance/ledger.h"

namespace xenpack {

struct HostView {
    std::uint64_t free_kib = 0;     // free in Xen, claims and pages to be scrubbed not counted
    std::uint64_t reserve_kib = 0;  // free memory to have at hand for growth
    // Free memory given only to zones in danger, or to let all have their ceilings.
    std::uint64_t emergency_kib = 0;
    // Free memory kept for starts that do not ask: given to zones only where one stalls or is in
    // danger.
    std::uint64_t start_reserve_kib = 0;
    // To starts that asked, and to domains that are no zones here: their targets above current.
    std::uint64_t promised_kib = 0;
    // What starts wait for, and what is promised to them and is free no more.
    std::uint64_t wanted_by_starts_kib = 0;
    // What should be free above the emergency memory for forks that want memory: for all of them;
    // of that, for those that are held or starve; and for the one whose turn it is (guard.h).
    std::uint64_t wanted_by_forks_kib = 0;
    std::uint64_t wanted_by_waiting_forks_kib = 0;
    std::uint64_t wanted_by_first_fork_kib = 0;
};

enum class ChangeWhy {
    pressure,  // stalled on memory
    demand,    // uses more than its target leaves at ease
    comfort,   // would like more, and there is plenty
    give,      // another zone or a start waits for memory
    reserve,   // the host's free memory is under its reserve
    limits,    // its floor, ceiling or pin demands it
};

struct Change {
    Ledger::Slot zone = 0;
    std::uint64_t from_kib = 0;
    std::uint64_t to_kib = 0;
    ChangeWhy why = ChangeWhy::demand;
    std::string reason;  // one sentence for a person
};

enum class HostState {
    plenty,   // free memory is at or over the reserve
    tight,    // under it: idle zones are asked for a little
    shortage  // a zone or a start waits for memory that the host does not have
};

struct Plan {
    std::vector<Change> grow;  // each is backed by memory that is free now
    std::vector<Change> shrink;
    HostState state = HostState::plenty;
    std::uint64_t emergency_kib = 0;  // what was kept for those in danger: at most the host's
    std::uint64_t reserve_kib = 0;    // what was to be kept free: at most the host's
    std::uint64_t spendable_kib = 0;  // what was left to grow into before this plan
    std::uint64_t left_kib = 0;       // and what this plan leaves of it
    std::uint64_t waiting_kib = 0;    // wanted by zones and starts, and the host cannot back it yet
    std::vector<Ledger::Slot> waiting;          // the zones among them
    std::optional<std::int64_t> look_again_ms;  // when to plan again though nothing has happened
};

// And so much of the emergency memory is given to no zone at all, for Xen's own small needs.
inline constexpr std::uint64_t kEmergencyLeastKib = 16 * 1024;

// How often to look while pages are on their way; nothing tells when a balloon has moved.
inline constexpr std::int64_t kConfirmEveryMs = 50;
inline constexpr std::int64_t kConfirmSlowlyEveryMs = 500;

[[nodiscard]] Plan plan(const HostView& host, const Ledger& zones, std::int64_t now_ms);

// The reserve where the configuration leaves it to us: the worst burst that was seen, half of the
// next worst, and so on, within these bounds of the host's memory.
inline constexpr unsigned kLearnedReserveMinPercent = 1;
inline constexpr unsigned kLearnedReserveMaxPercent = 10;
[[nodiscard]] std::uint64_t learned_reserve_kib(const Ledger& zones, std::uint64_t host_total_kib);

[[nodiscard]] std::string_view name_of(HostState state);

// The least a zone of this size should be left with, where its owner names no floor: what Linux'
// xen-selfballoon kept, and for small zones what Hyper-V's guest driver keeps, which is less there.
[[nodiscard]] std::uint64_t floor_for_size_kib(std::uint64_t size_kib);

}  // namespace xenpack
