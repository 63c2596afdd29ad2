// SPDX-License-Identifier: LGPL-2.1-or-later
// Guard: forks may be promised more memory than there is, and none may come to harm of it. From
// the free memory and the forks to whom to hold, whom to let go and whom to feed. Keeper asks at
// each look and does it. Pure: no clock, no Xen.
//
// A fork takes memory without asking, by writing. One that writes where Xen has no page left is
// stopped in the best case, and reads and writes nothing at all in the worst (Xen's
// mem_sharing.c and p2m.c: a first touch that finds no memory). So what is left free must always be
// more than what those that run can take until the guard looks again. Two rules say who may run:
//
//   Room   What those that run can take until the next look is there, above the floor. That is at
//          most kDirtyKibPerMs for each processor that they can use, and never more than they
//          still lack to their full size. Where it is not, those that grow are held first, then
//          the others; the one whose turn it is last.
//   Turns  Memory that is too little for all of them at once must not be shared out until nobody
//          can go on. So one of those that want memory has its turn, and of the rest only so many
//          run that all could still come to their end one after the other, each giving back what
//          it has when it has ended. Where not even that can be had (each might want more than
//          there is), only room counts: most forks never want their full size.
//
// Held forks go on as there is room, the longest held first; one that starved is fed then. Who asks
// for twice the room in order to go on does not stop and go at each look; where so much can never
// be had, the one whose turn it is goes on with once the room.
//
// What zones leave for forks is said in three sizes, as forks and zones are weighed against each
// other: a fork that is held stands still altogether. So the one whose turn it is comes before
// zones that only stall, and all that wait before zones' headroom (balance.h).
//
// When to look again follows from the same sums: when those that run could first break a rule. On
// a host where nobody has grown of late and the next kQuietMs are safe, nothing needs a timer: what
// comes suddenly then is told by VIRQ_ENOMEM. Xen raises that at 64 MiB free unless its option
// low_mem_virq_limit says otherwise, then at each halving (page_alloc.c, check_low_mem_virq).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace xenpack {

// Choice: no processor makes more than 1 GiB of pages its fork's own in a second: each of them
// takes an exit to Xen, an allocation and a copy of 4 KiB under a lock.
inline constexpr std::uint64_t kDirtyKibPerMs = 1024;
// The shortest time between two looks, and how much later than asked for one may come, until they
// have been seen to come later. No more than the last is reckoned with: where looks are that late
// only those may run that cannot take all there is.
inline constexpr std::int64_t kGuardLookMs = 10;
inline constexpr std::int64_t kGuardLateMs = 10;
inline constexpr std::int64_t kGuardLatestMs = 1'000;
// The longest while somebody grows, and while all that want memory are held: others may give some
// back untold.
inline constexpr std::int64_t kGuardSlowLookMs = 640;
inline constexpr std::int64_t kGuardWaitLookMs = 160;
inline constexpr std::int64_t kQuietMs = 80;
// What is wanted of zones for each fork that wants memory, at a time.
inline constexpr std::uint64_t kGuardStepKib = 32 * 1024;

// A fork that has not ended.
struct GuardFork {
    std::uint64_t private_kib = 0;  // its own pages
    std::uint64_t size_kib = 0;     // the most it may come to hold
    unsigned vcpus = 1;
    bool runs = true;                 // false: paused, by the guard or by somebody else
    bool held = false;                // by the guard
    bool starved = false;             // a processor of it waits to be fed
    bool grows = false;               // it has grown of late
    std::uint64_t growth_kib = 0;     // and by how much since the look before
    std::int64_t waits_since_ms = 0;  // of one that is held or starved; only compared
};

struct GuardView {
    std::uint64_t free_kib = 0;        // in Xen, less what is promised to anybody and not taken yet
    std::uint64_t floor_kib = 0;       // of it, what forks must leave
    std::uint64_t could_come_kib = 0;  // what zones could still give back
    unsigned cpus = 1;                 // of the host
    // How much too late looks come, with what is done in them; for those that want memory. One of
    // which nothing says that it does is not held because dom0 is slow.
    std::int64_t late_ms = kGuardLateMs;
    std::vector<GuardFork> forks;
};

struct GuardPlan {
    // By their places in GuardView::forks; in the order in which it is to be done.
    std::vector<std::size_t> hold;
    std::vector<std::size_t> feed;
    std::vector<std::size_t> let_go;  // of those some are fed first
    // What should be there above the floor: for all that want memory; of that, for those that wait;
    // and, so that one of them goes on in any case, for the one whose turn it is.
    std::uint64_t wanted_kib = 0;
    std::uint64_t wanted_by_waiting_kib = 0;
    std::uint64_t wanted_by_first_kib = 0;
    std::size_t waiting = 0;  // forks that want to go on, and are not let
    // Where all that want memory wait: the one whose turn it is.
    std::optional<std::size_t> stands_first;
    std::uint64_t spendable_kib = 0;         // above the floor
    std::uint64_t lacking_kib = 0;           // what those that run or wait could want beyond that
    std::optional<std::int64_t> look_in_ms;  // nothing: when something happens
};

[[nodiscard]] GuardPlan guard(const GuardView& view);

}  // namespace xenpack
