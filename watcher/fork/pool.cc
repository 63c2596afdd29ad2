// SPDX-License-Identifier: LGPL-2.1-or-later
// Arithmetic of what there is and what there shall be. Pure.
#include "watcher/fork/pool.h"

#include <algorithm>
#include <utility>

#include "watcher/error.h"

namespace xenpack {
namespace {

// Doublings that lead to the longest wait, and beyond.
constexpr unsigned kMostDoublings = 9;
static_assert((kPoolAgainMs << kMostDoublings) >= kPoolAgainMostMs);

std::size_t less(std::size_t all, std::size_t part) {
    return all - std::min(all, part);
}

// Too many stand ready, as after a reload.
std::size_t surplus(const PoolRule& rule, const PoolSeen& seen) {
    const std::size_t stand = seen.standing + seen.held;
    const std::size_t over = rule.most ? less(stand + seen.making + seen.taken, *rule.most) : 0;
    return std::min(stand, std::max(less(stand, rule.ready + seen.takers), over));
}

}  // namespace

PoolPlan plan_pool(const PoolRule& rule, const PoolSeen& seen, const PoolTrouble& trouble,
                   std::int64_t now_ms) {
    PoolPlan plan;
    const std::size_t there = seen.standing + seen.held + seen.making;
    const std::size_t lacks = less(rule.ready + seen.takers, there);
    plan.give_up = surplus(rule, seen);
    if (lacks == 0) {
        return plan;
    }
    if (!seen.no_template.empty()) {
        plan.why_not = seen.no_template;
        return plan;
    }
    const std::size_t room = rule.most ? less(*rule.most, there + seen.taken) : lacks;
    if (room < lacks) {
        plan.why_not = fmt::format("there are {}, and there may be no more, the taken ones too",
                                   rule.most.value_or(0));
    }
    if (room == 0) {
        return plan;
    }
    if (now_ms < trouble.again_ms) {
        plan.why_not = trouble.why;
        return plan;
    }
    plan.make = std::min({lacks, room, less(kPoolMostMaking, seen.making)});
    // One shows whether it can be done.
    if (trouble.failures > 0) {
        plan.make = seen.making == 0 ? 1 : 0;
        plan.why_not = trouble.why;
    }
    return plan;
}

PoolTrouble after_failure(const PoolTrouble& before, std::string why, bool lacks_memory,
                          std::int64_t now_ms) {
    const std::int64_t wait_ms =
        std::min(kPoolAgainMostMs, kPoolAgainMs << std::min(before.failures, kMostDoublings));
    return {before.failures + 1, now_ms + wait_ms, lacks_memory, std::move(why), before.died_ms};
}

PoolTrouble after_success(PoolTrouble trouble) {
    return trouble.died_ms ? std::move(trouble) : PoolTrouble{};
}

PoolTrouble after_death(const PoolTrouble& before, std::string why, std::int64_t now_ms) {
    PoolTrouble trouble = after_failure(before, std::move(why), false, now_ms);
    trouble.died_ms = now_ms;
    return trouble;
}

PoolTrouble try_again_now(PoolTrouble trouble) {
    trouble.again_ms = 0;
    return trouble;
}

}  // namespace xenpack
