// SPDX-License-Identifier: LGPL-2.1-or-later
// Follow: a domain on the way to its target, and what it holds beyond its kernel's memory; and the
// zone as balance/ sees it. Pure; called by Zones and the watcher, and by simulations of them.
#pragma once

#include <cstdint>
#include <optional>

#include "watcher/balance/balance.h"
#include "watcher/zones/zone.h"

namespace xenpack {

// Takes note of zone.domain as it was just read: progress, and at rest the overhead.
void follow(Zone& zone, std::int64_t now_ms);

[[nodiscard]] Direction direction_of(const Zone& zone);

// Records one sample of its reporter.
void take_sample(Zone& zone, const Sample& sample, std::int64_t now_ms);

// A zone that is told to grow while Xen has nothing left cannot be blamed for standing still.
void excuse(Zone& zone, std::uint64_t host_free_kib, std::uint64_t emergency_kib,
            std::int64_t now_ms);

// Where a stuck zone is becomes its target: it need not chase what it cannot reach, its memory is
// not counted twice, and the next target is sure to be a new value, which its driver needs to try.
// Nothing where it is not stuck, or is told so already.
[[nodiscard]] std::optional<std::uint64_t> target_if_stuck_kib(const Zone& zone,
                                                               std::int64_t now_ms);

// The limit Xen should have for a zone that is at its target, libxl's constant not added; nothing
// where that is the limit it has, or the zone is not at rest.
[[nodiscard]] std::optional<std::uint64_t> limit_at_rest_kib(const Zone& zone, std::int64_t now_ms);

// When its grace as a newcomer is over: until then nothing is taken from it.
[[nodiscard]] std::int64_t grace_ends_ms(const Zone& zone);

// The next moment at which time alone changes its state or its demand, if nothing is heard.
[[nodiscard]] std::optional<std::int64_t> next_change_ms(const Zone& zone, std::int64_t now_ms);

[[nodiscard]] ZoneView view_of(const Zone& zone, std::int64_t now_ms);

}  // namespace xenpack
