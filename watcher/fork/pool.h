// SPDX-License-Identifier: LGPL-2.1-or-later
// Pool: how many forks a pool makes now, how many of those that stand ready it gives up, and why it
// is not full. Pools looks, asks here at each look, and does it. Pure.
//
// After a failure nothing is tried for a while, each time longer, until a fork has come to be. What
// may have changed the cause ends the wait at once, but does not shorten the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace xenpack {

// The wait after the first failure; it doubles with each, up to the longest.
inline constexpr std::int64_t kPoolAgainMs = 1'000;
inline constexpr std::int64_t kPoolAgainMostMs = 300'000;
// A fork that has gone so soon after it was made counts as a failure: else one that dies at once
// would be made again without end.
inline constexpr std::int64_t kPoolYoungMs = 10'000;
// Forks that a pool makes at once, so that its memory is asked for bit by bit, and others' requests
// come in between.
inline constexpr std::size_t kPoolMostMaking = 8;

struct PoolRule {
    std::size_t ready = 0;
    std::optional<std::size_t> most;  // the taken ones too
};

struct PoolSeen {
    std::size_t standing = 0;  // ready to be taken
    std::size_t held = 0;      // ready, but memory has to come before they go on
    std::size_t making = 0;
    std::size_t taken = 0;      // and alive
    std::size_t takers = 0;     // who wait for one
    std::string no_template{};  // why there is none to fork; empty: there is
};

struct PoolTrouble {
    unsigned failures = 0;  // since the last fork that came to be, and stayed
    std::int64_t again_ms = 0;
    bool lacks_memory = false;
    std::string why{};
    // The last time that one has ended as soon as it stood there: until one that was made since has
    // lived for a while, that others come to be ends no trouble.
    std::optional<std::int64_t> died_ms{};
};

struct PoolPlan {
    std::size_t make = 0;
    std::size_t give_up = 0;  // of those that stand ready; first those that are held
    std::string why_not{};    // it does not make what it lacks; empty: it does, or lacks nothing
};
[[nodiscard]] PoolPlan plan_pool(const PoolRule& rule, const PoolSeen& seen,
                                 const PoolTrouble& trouble, std::int64_t now_ms);

[[nodiscard]] PoolTrouble after_failure(const PoolTrouble& before, std::string why,
                                        bool lacks_memory, std::int64_t now_ms);
// One came to be; nothing is left of the trouble, but where others have died.
[[nodiscard]] PoolTrouble after_success(PoolTrouble trouble);
// One stood there, and has ended at once.
[[nodiscard]] PoolTrouble after_death(const PoolTrouble& before, std::string why,
                                      std::int64_t now_ms);
// The cause may be gone.
[[nodiscard]] PoolTrouble try_again_now(PoolTrouble trouble);

}  // namespace xenpack
