// SPDX-License-Identifier: LGPL-2.1-or-later
// Brake: the limit and the states that brake.h describes. Reporter calls it, brake_files applies
// what it says. Pure: no file access, no clock.
#include "watcher/guest/brake.h"

#include <algorithm>

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kMib = 1024;  // in KiB

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : b - a;
}

std::uint64_t margin_kib(const MemorySample& memory) {
    return brake_margin_kib(memory.total_kib);
}

std::uint64_t wanted_limit_kib(const Brake::Look& look) {
    const MemorySample& memory = look.memory;
    const std::uint64_t usage_kib = std::min(look.usage_before_kib, look.usage_after_kib);
    const std::uint64_t free_kib = std::min(memory.free_kib, memory.available_kib);
    const std::uint64_t cache_kib = memory.available_kib - free_kib;
    const std::uint64_t reach_kib = usage_kib + free_kib + cache_kib / 2;
    const std::uint64_t margin = margin_kib(memory);
    const std::uint64_t floor_kib = std::max(look.usage_after_kib - look.usage_after_kib / 8, kMib);
    return reach_kib > margin ? std::max(reach_kib - margin, floor_kib) : floor_kib;
}

}  // namespace

Ceiling ceiling_of(std::optional<std::uint64_t> target_kib,
                   std::optional<std::uint64_t> static_max_kib) {
    if (!target_kib || !static_max_kib) {
        return Ceiling::unknown;
    }
    const bool room = *static_max_kib > *target_kib && *static_max_kib - *target_kib > kMib;
    return room ? Ceiling::room : Ceiling::reached;
}

Brake::Brake(std::optional<std::uint64_t> own_limit_kib) : own_limit_kib_(own_limit_kib) {}

BrakeState Brake::look(const Look& look) {
    follow_growth(look);
    follow_events(look);
    const BrakeState before = state_;
    state_ = next_state(look);
    if (state_ != before && state_ == BrakeState::holding) {
        held_since_ms_ = look.now_ms;
    }
    switch (state_) {
        case BrakeState::armed:
        case BrakeState::holding:
            set_limit(look);
            break;
        case BrakeState::lifted_at_ceiling:
        case BrakeState::lifted_in_vain:
            if (state_ != before) {
                lifted_at_ms_ = look.now_ms;
            }
            limit_kib_.reset();
            slowed_at_ms_.reset();
            break;
    }
    return state_;
}

void Brake::follow_growth(const Look& look) {
    const std::uint64_t total_kib = look.memory.total_kib;
    if (!reference_total_kib_ || total_kib < *reference_total_kib_) {
        reference_total_kib_ = total_kib;
    } else if (total_kib - *reference_total_kib_ >= kMib) {
        reference_total_kib_ = total_kib;
        grew_at_ms_ = look.now_ms;
    }
}

void Brake::follow_events(const Look& look) {
    if (high_events_ && look.high_events > *high_events_) {
        slowed_at_ms_ = look.now_ms;
    }
    high_events_ = look.high_events;
}

BrakeState Brake::next_state(const Look& look) const {
    if (state_ == BrakeState::lifted_in_vain && !may_brake_again(look)) {
        return state_;
    }
    if (state_ == BrakeState::lifted_at_ceiling && look.ceiling != Ceiling::room) {
        return state_;
    }
    if (settled_at_ceiling(look)) {
        return BrakeState::lifted_at_ceiling;
    }
    if (!held(look)) {
        return BrakeState::armed;
    }
    if (state_ != BrakeState::holding) {
        return BrakeState::holding;
    }
    const std::uint64_t waiting_since_ms = std::max(held_since_ms_, grew_at_ms_.value_or(0));
    const bool in_vain = look.now_ms - waiting_since_ms >= kBrakeDeadlineMs;
    return in_vain ? BrakeState::lifted_in_vain : BrakeState::holding;
}

bool Brake::may_brake_again(const Look& look) const {
    return look.memory.available_kib >= 2 * margin_kib(look.memory) ||
           (grew_at_ms_ && *grew_at_ms_ > lifted_at_ms_);
}

bool Brake::settled_at_ceiling(const Look& look) const {
    return look.ceiling == Ceiling::reached &&
           (!grew_at_ms_ || look.now_ms - *grew_at_ms_ >= kCeilingSettleMs);
}

bool Brake::held(const Look& look) const {
    return limit_kib_ && slowed_at_ms_ && look.now_ms - *slowed_at_ms_ <= kHeldWindowMs;
}

void Brake::set_limit(const Look& look) {
    std::uint64_t wanted = wanted_limit_kib(look);
    if (own_limit_kib_) {
        wanted = std::min(wanted, *own_limit_kib_);
    }
    const std::uint64_t tolerance = std::max(margin_kib(look.memory) / 16, kMib);
    if (!limit_kib_ || distance(wanted, *limit_kib_) >= tolerance) {
        limit_kib_ = wanted;
    }
}

}  // namespace xenpack::guest
