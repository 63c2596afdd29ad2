// SPDX-License-Identifier: LGPL-2.1-or-later
// BalloonDriver: when it moves, how much, and when it gives up. Called by Host in each step.
// It must not know what a guest or a host is.
#include "plugin/sim/balloon_driver.h"

#include <algorithm>

namespace xenpack::sim {

namespace {

constexpr std::uint64_t kPageKib = 4;
constexpr std::int64_t kFirstDelayMs = 1'000;
constexpr std::int64_t kMostDelayMs = 32'000;
constexpr unsigned kMostRetries = 4;
constexpr std::int64_t kSleepMs = 3'600'000;

constexpr std::uint64_t whole_pages(std::uint64_t kib) {
    return kib / kPageKib * kPageKib;
}

std::uint64_t aim(std::uint64_t target_kib, std::int64_t offset_kib) {
    const std::int64_t wanted = static_cast<std::int64_t>(target_kib) + offset_kib;
    return wanted <= 0 ? 0 : whole_pages(static_cast<std::uint64_t>(wanted));
}

}  // namespace

// Whether the driver's thread is awake in this step.
bool BalloonDriver::ready(std::int64_t now_ms, std::int64_t dt_ms, std::uint64_t target_kib) {
    if (!booted_) {
        if (booted_at_ms_ < 0) {
            booted_at_ms_ = now_ms - dt_ms + config_.boot_ms;
        }
        booted_ = now_ms >= booted_at_ms_;
        last_target_kib_ = target_kib;
        return booted_;
    }
    if (target_kib != last_target_kib_) {
        last_target_kib_ = target_kib;
        sleeps_until_ms_ = 0;
        next_try_ms_ = 0;
    }
    return now_ms >= sleeps_until_ms_ && now_ms >= next_try_ms_;
}

void BalloonDriver::moved() {
    delay_ms_ = kFirstDelayMs;
    failures_ = 0;
}

void BalloonDriver::failed(std::int64_t now_ms) {
    budget_kib_ = 0;
    if (++failures_ >= kMostRetries) {
        moved();
        next_try_ms_ = 0;
        sleeps_until_ms_ = now_ms + kSleepMs;
        return;
    }
    delay_ms_ = std::min(2 * std::max(delay_ms_, kFirstDelayMs), kMostDelayMs);
    next_try_ms_ = now_ms + delay_ms_;
}

std::int64_t BalloonDriver::step(std::int64_t now_ms, std::int64_t dt_ms, std::uint64_t current_kib,
                                 std::uint64_t target_kib, std::uint64_t can_give_kib,
                                 std::uint64_t may_take_kib) {
    if (config_.dead || !ready(now_ms, dt_ms, target_kib)) {
        return 0;
    }
    const std::uint64_t aim_kib = aim(target_kib, config_.offset_kib);
    current_kib = whole_pages(current_kib);
    if (aim_kib == current_kib) {
        moved();
        budget_kib_ = 0;
        return 0;
    }
    const bool grows = aim_kib > current_kib;
    const std::uint64_t credit = grows ? aim_kib - current_kib : current_kib - aim_kib;
    budget_rest_ += config_.kib_per_s * static_cast<std::uint64_t>(dt_ms);
    budget_kib_ += budget_rest_ / 1000;
    budget_rest_ %= 1000;
    if (budget_kib_ < std::min(credit, kBalloonBatchKib)) {
        return 0;
    }
    // Whole batches, but for the last one.
    const std::uint64_t want =
        credit <= budget_kib_ ? credit : budget_kib_ / kBalloonBatchKib * kBalloonBatchKib;
    const std::uint64_t got = std::min(want, whole_pages(grows ? may_take_kib : can_give_kib));
    if (got > 0) {
        moved();
        budget_kib_ = std::min(budget_kib_ - got, kBalloonBatchKib);
    }
    if (got < want) {
        failed(now_ms);
    }
    return grows ? static_cast<std::int64_t>(got) : -static_cast<std::int64_t>(got);
}

}  // namespace xenpack::sim
