// SPDX-License-Identifier: LGPL-2.1-or-later
// Zone: what the watcher knows of one domain, as plain values. zones/ fills it in, the watcher
// reads it and notes what it decided. It must not be kept beyond its domain's life: find it by key.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/toolstack.h"
#include "watcher/balance/progress.h"
#include "watcher/config/config.h"
#include "watcher/pressure/pressure.h"
#include "watcher/toolstack/toolstack.h"
#include "watcher/zones/family.h"
#include "watcher/zones/flood.h"
#include "watcher/zones/other_hands.h"

namespace xenpack {

// A domid is used again after the domain has gone, a uuid after a reboot: only both are one life.
struct ZoneKey {
    std::uint32_t domid = 0;
    Uuid uuid{};

    auto operator<=>(const ZoneKey&) const = default;  // NOLINT(modernize-use-nullptr): its bug
};

enum class ZoneState {
    unmanaged,  // not ours to change
    building,   // has not run yet
    booting,    // runs, and nothing in it has reported so far
    steady,
    growing,
    shrinking,
    waiting,  // wants memory that others must give first
    pinned,   // and told so; until then it is growing or shrinking
    paused,
    saving,    // being suspended, saved or migrated
    shutdown,  // has stopped and still holds its memory
    stale,     // its reporter has gone silent
    garbled,   // what it reports cannot be read
    flooding,  // it writes faster than is listened to
    stuck,     // it does not follow its target
};

[[nodiscard]] std::string_view name_of(ZoneState state);

// Lines about one zone's faults in the journal: so many at once, and one a minute in the long run.
// Status always has them.
inline constexpr double kFaultLinesBurst = 10;
inline constexpr double kFaultLinesPerS = 1.0 / 60;

// A zone in which nothing has reported for so long is not booting any more: a Linux that has to
// give memory back at its boot panics after as long (xen.balloon_boot_timeout).
inline constexpr std::int64_t kBootMostMs = 180'000;

// Limits an admin has set while the daemon runs; they come before the configuration.
struct ZoneOverrides {
    std::optional<std::uint64_t> floor_kib;
    std::optional<std::uint64_t> ceiling_kib;
    std::optional<unsigned> weight;
    std::optional<std::uint64_t> pin_kib;
};

struct Zone {
    ZoneKey key;
    std::string name;  // empty until xenstore tells
    xenpack_domain domain{};

    bool managed = false;
    std::string unmanaged_why;
    Family family;  // template or fork: never managed
    std::optional<xenpack_domain_config> created_with;
    ZoneConfig config;
    ZoneOverrides overrides;

    std::optional<std::uint64_t> target_kib;      // memory/target
    std::optional<std::uint64_t> static_max_kib;  // memory/static-max

    Pressure pressure;
    std::optional<std::uint64_t>
        overhead_kib;                    // pages held that the guest's kernel does not manage
    std::uint64_t overhead_at_kib = 0;   // what it held when that was measured
    std::uint64_t unused_kib = 0;        // of what it has grown by since, not in its MemTotal
    bool unmeasured = false;             // it has spoken since that was measured
    std::uint64_t at_rest_kib = 0;       // what it held when it was last seen to move
    std::int64_t at_rest_since_ms = 0;   // and when
    std::string garbled_why;             // empty: its last report could be read
    std::int64_t flooding_until_ms = 0;  // 0: never flooded
    std::int64_t runs_since_ms = 0;      // seen to run; 0: not yet
    std::int64_t still_ms = 0;           // last seen paused or stopped; 0: never
    bool silence_said = false;           // in the journal
    std::int64_t busy_until_ms = 0;      // the toolstack said it is being saved or migrated
    bool waiting = false;
    OtherHands other_hands;

    bool changed = true;              // since its view was last taken
    std::int64_t view_until_ms = 0;   // when time alone changes its view
    std::int64_t wake_ms = 0;         // when time alone changes its state; 0: never
    std::optional<std::size_t> slot;  // in the watcher's ledger

    Progress progress;
    std::int64_t last_shrink_ms = 0;
    std::int64_t last_grow_ms = 0;
    std::string reason;  // of the last decision about it
    std::int64_t reason_ms = 0;
    Flood fault_lines{kFaultLinesBurst,
                      kFaultLinesPerS};  // those in the journal: a guest causes them
};

inline constexpr char kSpoilt[] =
    "it has run since it was sealed, over the memory that its forks begin with: destroy them, then "
    "it, and make it anew";
// A template that somebody has let run: of what its forks have not touched they have another's
// memory, or none.
[[nodiscard]] bool is_spoilt(const Zone& zone);

[[nodiscard]] ZoneState state_of(const Zone& zone, std::int64_t now_ms);

// The limits in force: overrides, then configuration, then what follows from its size.
[[nodiscard]] std::uint64_t floor_kib(const Zone& zone);
[[nodiscard]] std::uint64_t ceiling_kib(const Zone& zone);
[[nodiscard]] unsigned weight(const Zone& zone);

// When its silence becomes a fault. One that was paused could not speak: until it has had time to,
// it is stale, and nobody's fault.
[[nodiscard]] std::int64_t silent_at_ms(const Zone& zone);

// Whether its reporter has fallen silent: a sentence.
[[nodiscard]] std::optional<std::string> silence(const Zone& zone, std::int64_t now_ms);

// Sentences on what is wrong with it, for status.
[[nodiscard]] std::vector<std::string> faults(const Zone& zone, std::int64_t now_ms);

// How its samples become demand: its headroom, and the pages it holds that its kernel does not
// manage, measured when it was at rest, else estimated; less its offset, so that it is about
// targets.
[[nodiscard]] DemandRule demand_rule(const Zone& zone);

}  // namespace xenpack
