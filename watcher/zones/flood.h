// SPDX-License-Identifier: LGPL-2.1-or-later
// Flood: how many reports of one zone are listened to, and how long it is not when they are too
// many. Pure; zones/ keeps one per zone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace xenpack {

class Flood {
  public:
    Flood(double burst, double per_s) : burst_(burst), per_s_(per_s), tokens_(burst) {}

    // One more report has come. False: that is one too many.
    [[nodiscard]] bool admit(std::int64_t now_ms) {
        const double elapsed_s = static_cast<double>(now_ms - last_ms_) / 1000.0;
        tokens_ = std::min(burst_, tokens_ + std::max(elapsed_s, 0.0) * per_s_);
        last_ms_ = now_ms;
        if (tokens_ < 1) {
            return false;
        }
        tokens_ -= 1;
        return true;
    }

    // How long not to listen now: twice the last time if the zone came back to it soon.
    [[nodiscard]] std::int64_t penalty_ms(std::int64_t now_ms, std::int64_t least_ms,
                                          std::int64_t most_ms) {
        const bool again = penalty_ms_ > 0 && now_ms - penalty_end_ms_ < penalty_ms_;
        penalty_ms_ = again ? std::min(penalty_ms_ * 2, most_ms) : least_ms;
        penalty_end_ms_ = now_ms + penalty_ms_;
        tokens_ = burst_ / 2;
        last_ms_ = penalty_end_ms_;
        return penalty_ms_;
    }

  private:
    double burst_;
    double per_s_;
    double tokens_;
    std::int64_t last_ms_ = 0;
    std::int64_t penalty_ms_ = 0;
    std::int64_t penalty_end_ms_ = 0;
};

}  // namespace xenpack
