// SPDX-License-Identifier: LGPL-2.1-or-later
// squeezed's rules in the scenarios of its own simulator (ocaml/squeezed/test/squeeze_test.ml):
// domains that are slow, sticky, or have a limit of their own. Time goes in tenths of a second.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/bench/peers/squeezed.h"

namespace xenpack::bench::squeezed {
namespace {

struct Fake {
    View view;
    double kib_per_s = 0;
    std::optional<std::int64_t> lower_limit;  // frees no further
    std::optional<std::int64_t> upper_limit;  // grows no further
    double sticky_s = 0;                      // moves for so long, then not for so long, and so on

    [[nodiscard]] std::int64_t wants(double from_s, double to_s) const {
        const auto is_stuck = [this](double at_s) {
            return sticky_s > 0 && static_cast<int>(at_s / sticky_s) % 2 != 0;
        };
        if (is_stuck(from_s) || is_stuck(to_s)) {
            return 0;
        }
        const std::int64_t away = view.target - view.actual;
        const std::int64_t distance = std::max<std::int64_t>(0, std::abs(away) - view.inaccuracy);
        const auto reach = static_cast<std::int64_t>(kib_per_s * (to_s - from_s) + 0.5);
        const std::int64_t moved = std::min(distance, reach) * (away < 0 ? -1 : 1);
        std::int64_t reached = view.actual + moved;
        if (moved < 0 && lower_limit) {
            reached = std::max(reached, std::min(view.actual, *lower_limit));
        }
        if (moved > 0 && upper_limit) {
            reached = std::min(reached, std::max(view.actual, *upper_limit));
        }
        return reached - view.actual;
    }
};

class Scenario {
  public:
    Scenario(std::vector<Fake> domains, std::int64_t free_kib)
        : domains_(std::move(domains)), free_kib_(free_kib) {}

    // Whether so much comes free; the verdict of one run.
    bool frees(std::int64_t needed_kib) {
        Squeezer squeezer;
        for (int look = 0; look < 1000; ++look) {
            const Step step =
                squeezer.look(views(), free_kib_, needed_kib, free_kib_ >= needed_kib, now_ms());
            if (step.verdict != Verdict::adjust) {
                return step.verdict == Verdict::success;
            }
            for (Fake& domain : domains_) {
                const auto target = step.targets.find(domain.view.id);
                if (target != step.targets.end()) {
                    domain.view.target = target->second;
                } else if (step.newly_stuck.contains(domain.view.id)) {
                    domain.view.target =
                        std::clamp(std::min(domain.view.target, domain.view.actual),
                                   domain.view.least, domain.view.most);
                }
            }
            wait();
        }
        ADD_FAILURE() << "no verdict";
        return false;
    }

    // What stays free if everybody takes all that still counts as his target.
    [[nodiscard]] std::int64_t free_at_worst_kib() const {
        std::int64_t free_kib = free_kib_;
        for (const Fake& domain : domains_) {
            free_kib -= domain.view.target + domain.view.inaccuracy - domain.view.actual;
        }
        return free_kib;
    }

  private:
    [[nodiscard]] std::int64_t now_ms() const { return tenths_ * 100; }
    [[nodiscard]] std::vector<View> views() const {
        std::vector<View> result;
        for (const Fake& domain : domains_) {
            result.push_back(domain.view);
        }
        return result;
    }
    void wait() {
        const double from_s = static_cast<double>(tenths_) / 10;
        const double to_s = static_cast<double>(++tenths_) / 10;
        for (Fake& domain : domains_) {
            const std::int64_t delta = domain.wants(from_s, to_s);
            ASSERT_LE(delta, free_kib_)
                << "domain " << domain.view.id << " takes what is not there";
            domain.view.actual += delta;
            free_kib_ -= delta;
        }
    }

    std::vector<Fake> domains_;
    std::int64_t free_kib_;
    std::int64_t tenths_ = 0;
};

Fake fake(std::uint32_t id, std::int64_t least, std::int64_t target, std::int64_t most,
          std::int64_t inaccuracy, double kib_per_s) {
    Fake result;
    result.view = {id, least, target, most, target, inaccuracy};
    result.kib_per_s = kib_per_s;
    return result;
}

TEST(BenchSqueezed, ScenarioAHiddenLimitAndStickyLargeDomain) {
    Fake limited = fake(0, 1000, 1500, 2000, 4, 100);
    limited.lower_limit = 1250;
    Fake sticky = fake(1, 2500, 3500, 4500, 4, 500);
    sticky.sticky_s = 0.25;
    Scenario scenario({limited, sticky}, 0);
    EXPECT_TRUE(scenario.frees(1000));
    EXPECT_GE(scenario.free_at_worst_kib(), 1000 - 8);
}

TEST(BenchSqueezed, ScenarioBTwoStickyDomains) {
    Fake slow = fake(1, 500, 3500, 4500, 4, 100);
    slow.sticky_s = 3;
    Fake quick = fake(0, 500, 1500, 2500, 4, 100);
    quick.sticky_s = 1.5;
    Scenario scenario({slow, quick}, 0);
    EXPECT_TRUE(scenario.frees(1000));
}

TEST(BenchSqueezed, ScenarioCDynamicMinimumsTooHigh) {
    Scenario scenario({fake(0, 1000, 1500, 2000, 0, 100), fake(1, 2000, 2500, 3000, 0, 100)}, 0);
    EXPECT_FALSE(scenario.frees(1500));
}

TEST(BenchSqueezed, ScenarioDOneStuckAboveItsMinimum) {
    Fake limited = fake(1, 2000, 2500, 3000, 0, 100);
    limited.lower_limit = 2250;
    Scenario scenario({fake(0, 1000, 1500, 2000, 0, 100), limited}, 0);
    EXPECT_FALSE(scenario.frees(1000));
}

TEST(BenchSqueezed, ScenarioEOneStuckAltogether) {
    Scenario scenario({fake(0, 5000, 7000, 7000, 0, 0), fake(1, 5000, 6000, 11000, 0, 100)}, 0);
    EXPECT_TRUE(scenario.frees(1000));
}

TEST(BenchSqueezed, SharesSurplusInProportionToRanges) {
    const std::vector<View> views = {{1, 1000, 1000, 2000, 1008, 4},
                                     {2, 1000, 1000, 4000, 1008, 4}};
    const auto targets = proportional(views, 2000, 0);
    EXPECT_EQ(targets.at(1), 1500);
    EXPECT_EQ(targets.at(2), 2500);
}

}  // namespace
}  // namespace xenpack::bench::squeezed
