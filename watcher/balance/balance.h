// SPDX-License-Identifier: LGPL-2.1-or-later
// Balance: from the host, the zones and their demand to targets, each with its reason.
// Pure: values in, a plan out. The watcher calls it at each look and carries the plan out.
//
// What the plan promises:
//   - A zone grows at once, out of memory that Xen has free now and has promised to no one.
//   - No zone shrinks below its floor, nor below what it needs, nor on anything but a fresh report.
//   - Memory is taken only while the free memory is under the reserve (slowly, and a zone's recent
//     peak is left to it), or while a zone waits for some (quicker, down to what a donor needs now,
//     but never more than half of what it can spare at a time).
//   - A donor is asked again only after Xen has confirmed what it was asked before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xenpack {

struct HostView {
    std::uint64_t free_kib = 0;       // free in Xen, claims and pages to be scrubbed not counted
    std::uint64_t reserve_kib = 0;    // free memory to have at hand for growth
    std::uint64_t emergency_kib = 0;  // free memory never given to a zone
    std::uint64_t promised_kib =
        0;  // to domains that are no zones here: their targets above current
};

struct ZoneView {
    std::uint64_t target_kib = 0;
    std::uint64_t current_kib = 0;
    std::uint64_t floor_kib = 0;
    std::uint64_t ceiling_kib = 0;
    unsigned weight = 100;
    std::uint64_t quick_need_kib = 0;  // 0: unknown
    std::uint64_t slow_need_kib = 0;   // 0: unknown
    bool stalled = false;
    std::uint64_t used_kib = 0;           // for reasons only
    std::optional<double> stalled_share;  // for reasons only, 0..1
    bool may_change = false;              // runs, is not being built, saved, migrated; not stuck
    bool may_shrink = false;  // and its report is fresh, its grace is over, it is at its target
    std::uint64_t pending_kib = 0;         // still to come to it: its target is above what it holds
    std::uint64_t leaving_kib = 0;         // still to be given back by it, and it is giving
    std::int64_t last_shrink_ms = 0;       // when it was last asked to shrink; 0: never
    std::optional<std::uint64_t> pin_kib;  // an admin's fixed target
};

enum class ChangeWhy {
    pressure,  // stalled on memory
    demand,    // uses more than its target leaves at ease
    give,      // another zone waits for memory
    reserve,   // the host's free memory is under its reserve
    limits,    // its floor, ceiling or pin demands it
};

struct Change {
    std::size_t zone = 0;  // index into the zones given
    std::uint64_t from_kib = 0;
    std::uint64_t to_kib = 0;
    ChangeWhy why = ChangeWhy::demand;
    std::string reason;  // one sentence for a person
};

enum class HostState {
    plenty,   // free memory is at or over the reserve
    tight,    // under it: idle zones are asked for a little
    shortage  // a zone waits for memory that the host does not have
};

struct Plan {
    std::vector<Change> grow;  // each is backed by memory that is free now
    std::vector<Change> shrink;
    HostState state = HostState::plenty;
    std::uint64_t spendable_kib = 0;  // what was left to grow into before this plan
    std::uint64_t waiting_kib = 0;    // growth wanted that the host cannot back yet
    std::vector<std::uint64_t> waiting_by_zone_kib;
    std::optional<std::int64_t> look_again_ms;  // when to plan again though nothing has happened
};

// Below these a change is not worth the guest's work.
inline constexpr std::uint64_t kGrowStepMinKib = 4 * 1024;
inline constexpr std::uint64_t kShrinkStepMinKib = 8 * 1024;
// Shrinking without hurry: at most this part of a zone's size, at most this often. MOM takes 5 %
// each 10 s, senpai 1 % each 6 s.
inline constexpr unsigned kSlowShrinkPercent = 5;
inline constexpr std::int64_t kSlowShrinkEveryMs = 2'000;
// How often to look while pages are on their way; nothing tells when a balloon has moved.
inline constexpr std::int64_t kConfirmEveryMs = 50;
inline constexpr std::int64_t kConfirmSlowlyEveryMs = 500;

[[nodiscard]] Plan plan(const HostView& host, const std::vector<ZoneView>& zones,
                        std::int64_t now_ms);

[[nodiscard]] std::string_view name_of(HostState state);

// The least a zone of this size should be left with, where its owner names no floor: the table of
// Hyper-V's guest driver (half of 128 MiB and less ... 1/32 of what is above 8 GiB).
[[nodiscard]] std::uint64_t floor_for_size_kib(std::uint64_t size_kib);

}  // namespace xenpack
