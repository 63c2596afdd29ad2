// SPDX-License-Identifier: LGPL-2.1-or-later
// BalloonDriver: Linux' drivers/xen/balloon.c as seen from outside: it moves towards its target in
// batches, backs off when it cannot, gives up after a while, and then sleeps for an hour unless the
// target changes. Called by Host. Pure.
//
// As in Linux 6.1: each batch of at most 512 pages either moves something, and the next follows at
// once, or fails. A failure doubles the delay (from 1 s, at most 32 s) and waits that long; the
// fourth in a row cancels: 2 + 4 + 8 s after the first it sleeps for 3600 s. A target that differs
// from the last one ends any wait at once; the same target written again does not.
#pragma once

#include <cstdint>

namespace xenpack::sim {

// Figures of Linux 6.1: 512 pages a batch, delay 1 s doubled to at most 32, 4 retries, 3600 s.
struct BalloonConfig {
    std::uint64_t kib_per_s = 1024 * 1024;  // how quickly it moves while it can
    bool dead = false;                      // never follows its target
    std::int64_t offset_kib = 0;            // settles this far from its target
    std::int64_t boot_ms = 2'000;           // nothing follows a target before the driver is up
};

inline constexpr std::uint64_t kBalloonBatchKib = 512 * 4;

class BalloonDriver {
  public:
    explicit BalloonDriver(const BalloonConfig& config) : config_(config) {}

    // The change of current_kib in this step, in whole pages. Shrinks by at most `can_give_kib`
    // (what the guest can spare), grows by at most `may_take_kib` (free in Xen, and under the
    // domain's limit). The guest boots with the first call.
    [[nodiscard]] std::int64_t step(std::int64_t now_ms, std::int64_t dt_ms,
                                    std::uint64_t current_kib, std::uint64_t target_kib,
                                    std::uint64_t can_give_kib, std::uint64_t may_take_kib);
    // It has given up, and only a changed target or an hour wakes it.
    [[nodiscard]] bool asleep(std::int64_t now_ms) const { return now_ms < sleeps_until_ms_; }
    [[nodiscard]] bool booted() const { return booted_; }
    // From now on it moves that quickly: its thread has only the processor time that others leave.
    void set_speed(std::uint64_t kib_per_s) { config_.kib_per_s = kib_per_s; }

  private:
    [[nodiscard]] bool ready(std::int64_t now_ms, std::int64_t dt_ms, std::uint64_t target_kib);
    void failed(std::int64_t now_ms);
    void moved();

    BalloonConfig config_;
    std::uint64_t last_target_kib_ = 0;
    std::int64_t booted_at_ms_ = -1;
    bool booted_ = false;
    std::int64_t sleeps_until_ms_ = 0;
    std::int64_t next_try_ms_ = 0;
    std::int64_t delay_ms_ = 0;
    unsigned failures_ = 0;
    std::uint64_t budget_kib_ = 0;   // what its speed allows it to move by now
    std::uint64_t budget_rest_ = 0;  // the same in KiB/1000, under one KiB
};

}  // namespace xenpack::sim
