// SPDX-License-Identifier: LGPL-2.1-or-later
// When the reporter writes, why, and how often it looks: the rules of reporting.h, with samples and
// time given.
#include "watcher/guest/reporting.h"

#include <gtest/gtest.h>

#include <vector>

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kHeartbeatMs = 30'000;

MemorySample memory(std::uint64_t available_mib, std::uint64_t total_mib = 512) {
    MemorySample sample;
    sample.total_kib = total_mib * kMib;
    sample.available_kib = available_mib * kMib;
    return sample;
}

// Looks, and hands over what is due, as Reporter does.
class Zone {
  public:
    explicit Zone(bool has_trigger = true) : reporting_(kHeartbeatMs, has_trigger) {}

    std::optional<ReportWhy> look(const Reporting::Look& look) {
        const auto verdict = reporting_.look(look);
        look_again_ms_ = verdict.look_again_ms;
        if (verdict.why) {
            reporting_.written(look, *verdict.why);
        }
        return verdict.why;
    }
    std::optional<ReportWhy> at(std::uint64_t now_ms, const MemorySample& sample) {
        return look({now_ms, sample, std::nullopt, false});
    }
    [[nodiscard]] std::uint64_t look_again_ms() const { return look_again_ms_; }
    [[nodiscard]] Reporting& reporting() { return reporting_; }

    // Looks from from_ms on whenever it is told to, until to_ms; the number of looks.
    std::uint64_t looks_between(std::uint64_t from_ms, std::uint64_t to_ms, const MemorySample& s) {
        std::uint64_t looks = 0;
        for (std::uint64_t now = from_ms; now < to_ms; now += look_again_ms_) {
            at(now, s);
            ++looks;
        }
        return looks;
    }

  private:
    Reporting reporting_;
    std::uint64_t look_again_ms_ = 0;
};

TEST(Reporting, WritesAtTheFirstLook) {
    Zone zone;
    EXPECT_EQ(zone.at(5000, memory(400)), ReportWhy::start);
    EXPECT_EQ(zone.at(6000, memory(400)), std::nullopt);
}

TEST(Reporting, StartIsTheReasonEvenUnderPressure) {
    Zone zone;
    EXPECT_EQ(zone.look({0, memory(4), 9, true}), ReportWhy::start);
}

TEST(Reporting, WritesWhenTheTriggerFires) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.look({1000, memory(400), 30'000, true}), ReportWhy::psi);
    EXPECT_TRUE(zone.reporting().pressured());
}

TEST(Reporting, PsiIsNotHeldBackByAReportJustWritten) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.look({10, memory(400), 30'000, true}), ReportWhy::psi);
}

TEST(Reporting, PsiComesBeforeLowAndChange) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.look({1000, memory(10), 30'000, true}), ReportWhy::psi);
}

TEST(Reporting, ChangeNeedsMoreThanASixteenth) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.at(1000, memory(400 - 32)), std::nullopt);
    EXPECT_EQ(zone.at(2000, memory(400 - 33)), ReportWhy::change);
    EXPECT_EQ(zone.at(3000, memory(400)), ReportWhy::change);
}

TEST(Reporting, ChangeInASmallZoneNeedsMoreThanEightMib) {
    Zone zone;
    zone.at(0, memory(50, 64));
    EXPECT_EQ(zone.at(1000, memory(42, 64)), std::nullopt);
    EXPECT_EQ(zone.at(2000, memory(41, 64)), ReportWhy::change);
}

TEST(Reporting, SmallStepsAddUpToAChange) {
    Zone zone;
    zone.at(0, memory(400));
    std::vector<std::uint64_t> written;
    for (std::uint64_t step = 1; step <= 70; ++step) {
        if (zone.at(step * 100, memory(400 - step)) == ReportWhy::change) {
            written.push_back(step);
        }
    }
    EXPECT_EQ(written, (std::vector<std::uint64_t>{33, 66}));
}

TEST(Reporting, TheBalloonMovingIsAChange) {
    Zone zone;
    zone.at(0, memory(300, 512));
    // Memory in use stays at 212 MiB.
    EXPECT_EQ(zone.at(1000, memory(320, 532)), std::nullopt);
    EXPECT_EQ(zone.at(2000, memory(338, 550)), ReportWhy::change);
}

TEST(Reporting, FallingUnderAQuarterIsLow) {
    Zone zone;
    zone.at(0, memory(140));
    EXPECT_EQ(zone.at(1000, memory(128)), std::nullopt);
    EXPECT_EQ(zone.at(2000, memory(127)), ReportWhy::low);
}

TEST(Reporting, TremblingAtTheQuarterIsNotTold) {
    Zone zone;
    zone.at(0, memory(128));
    for (std::uint64_t now = 1000; now < kHeartbeatMs; now += 1000) {
        EXPECT_EQ(zone.at(now, memory(now % 2000 == 0 ? 128 : 127)), std::nullopt);
    }
}

TEST(Reporting, FurtherFallsByAnEighthAreLowAgain) {
    Zone zone;
    zone.at(0, memory(200));
    EXPECT_EQ(zone.at(1000, memory(120)), ReportWhy::low);
    EXPECT_EQ(zone.at(2000, memory(106)), std::nullopt);
    EXPECT_EQ(zone.at(3000, memory(105)), ReportWhy::low);
}

TEST(Reporting, NearNothingLowNeedsTwoMib) {
    Zone zone;
    zone.at(0, memory(5));
    EXPECT_EQ(zone.at(1000, memory(4)), std::nullopt);
    EXPECT_EQ(zone.at(2000, memory(3)), ReportWhy::low);
}

TEST(Reporting, RisingFromLowIsNotLow) {
    Zone zone;
    zone.at(0, memory(40));
    EXPECT_EQ(zone.at(1000, memory(60)), std::nullopt);
    EXPECT_EQ(zone.at(2000, memory(80)), ReportWhy::change);
}

TEST(Reporting, CalmIsSaidOnceTwoSecondsAfterTheLastStall) {
    Zone zone;
    zone.at(0, memory(400));
    zone.look({1000, memory(400), 30'000, true});
    EXPECT_EQ(zone.look({2000, memory(400), 60'000, false}), std::nullopt);
    EXPECT_EQ(zone.look({3999, memory(400), 60'000, false}), std::nullopt);
    EXPECT_EQ(zone.look({4000, memory(400), 60'000, false}), ReportWhy::calm);
    EXPECT_FALSE(zone.reporting().pressured());
    EXPECT_EQ(zone.look({7000, memory(400), 60'000, false}), std::nullopt);
}

TEST(Reporting, ATrifleOfStallDoesNotDelayCalm) {
    Zone zone;
    zone.at(0, memory(400));
    zone.look({1000, memory(400), 30'000, true});
    zone.look({2500, memory(400), 32'000, false});
    EXPECT_EQ(zone.look({3000, memory(400), 35'000, false}), ReportWhy::calm);
}

TEST(Reporting, CalmComesWithoutStallTotalsToo) {
    Zone zone;
    zone.at(0, memory(400));
    zone.look({1000, memory(400), std::nullopt, true});
    EXPECT_EQ(zone.at(2999, memory(400)), std::nullopt);
    EXPECT_EQ(zone.at(3000, memory(400)), ReportWhy::calm);
}

TEST(Reporting, StallsTooSmallForTheTriggerAreToldWhenTheyAddUp) {
    Zone zone;
    std::uint64_t some_us = 7'000'000;
    zone.look({1000, memory(400), some_us, false});
    // One hundredth of the time, in stalls of 5 ms.
    std::vector<std::optional<ReportWhy>> whys;
    for (std::uint64_t now_ms = 1500; now_ms <= 3000; now_ms += 500) {
        some_us += 5000;
        whys.push_back(zone.look({now_ms, memory(400), some_us, false}));
    }
    EXPECT_EQ(whys.back(), ReportWhy::psi);
    whys.pop_back();
    for (const auto& why : whys) {
        EXPECT_EQ(why, std::nullopt);
    }
}

TEST(Reporting, LessThanAHundredthOfStallIsNotTold) {
    Zone zone;
    std::uint64_t some_us = 0;
    zone.look({1000, memory(400), some_us, false});
    for (std::uint64_t now_ms = 1500; now_ms <= 9000; now_ms += 500) {
        some_us += 4000;
        EXPECT_EQ(zone.look({now_ms, memory(400), some_us, false}), std::nullopt) << now_ms;
    }
}

TEST(Reporting, StallsBeforeTheFirstLookAreNotTold) {
    Zone zone;
    zone.look({1000, memory(400), 900'000'000, false});
    EXPECT_EQ(zone.look({4000, memory(400), 900'000'000, false}), std::nullopt);
}

TEST(Reporting, NoPressureNoCalm) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.look({5000, memory(400), 0, false}), std::nullopt);
}

TEST(Reporting, HeartbeatWhenNothingElseWasWritten) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.at(kHeartbeatMs - 1, memory(400)), std::nullopt);
    EXPECT_EQ(zone.look_again_ms(), 1U);
    EXPECT_EQ(zone.at(kHeartbeatMs, memory(400)), ReportWhy::heartbeat);
    EXPECT_EQ(zone.at(kHeartbeatMs + 1, memory(400)), std::nullopt);
}

TEST(Reporting, AnyReportPutsTheHeartbeatOff) {
    Zone zone;
    zone.at(0, memory(400));
    zone.at(20'000, memory(300));
    EXPECT_EQ(zone.at(kHeartbeatMs, memory(300)), std::nullopt);
    EXPECT_EQ(zone.at(50'000, memory(300)), ReportWhy::heartbeat);
}

TEST(Reporting, NeverLooksLaterThanTheHeartbeat) {
    Zone zone;
    std::uint64_t last = 0;
    for (std::uint64_t now = 0; now < 10 * kHeartbeatMs; now += zone.look_again_ms()) {
        if (zone.at(now, memory(400))) {
            EXPECT_LE(now - last, kHeartbeatMs);
            last = now;
        }
    }
    EXPECT_EQ(last, 9 * kHeartbeatMs);
}

TEST(Reporting, TheWorstZoneWritesTwelveTimesASecond) {
    Zone zone;
    zone.at(0, memory(400));
    unsigned reports = 0;
    for (std::uint64_t now = 1; now <= 10'000; ++now) {
        const bool fired = now % 500 == 250;
        const auto why = zone.look({now, memory(now % 2 == 0 ? 400 : 20), now * 1000, fired});
        reports += why ? 1U : 0U;
    }
    EXPECT_LE(reports, 120U);
    EXPECT_GE(reports, 100U);
}

TEST(Reporting, AReportHeldBackIsWrittenWhenItsTimeCame) {
    Zone zone;
    zone.at(0, memory(400));
    EXPECT_EQ(zone.at(30, memory(300)), std::nullopt);
    EXPECT_EQ(zone.look_again_ms(), 70U);
    EXPECT_EQ(zone.at(100, memory(300)), ReportWhy::change);
}

TEST(Reporting, AQuietZoneLooksEveryTwoSeconds) {
    Zone zone;
    zone.looks_between(0, 10'000, memory(400));
    EXPECT_LE(zone.looks_between(10'000, 70'000, memory(400)), 33U);
}

TEST(Reporting, AFullerQuietZoneLooksEverySecond) {
    Zone zone;
    zone.looks_between(0, 10'000, memory(200));
    EXPECT_LE(zone.looks_between(10'000, 70'000, memory(200)), 64U);
}

TEST(Reporting, LittleAvailableIsLookedAtMoreOften) {
    Zone with_trigger(true);
    with_trigger.looks_between(0, 10'000, memory(60));
    EXPECT_EQ(with_trigger.look_again_ms(), 250U);
    Zone without(false);
    without.looks_between(0, 10'000, memory(60));
    EXPECT_EQ(without.look_again_ms(), 100U);
}

TEST(Reporting, ALostTriggerIsMadeUpForByLooking) {
    Zone zone(true);
    zone.looks_between(0, 10'000, memory(60));
    zone.reporting().lose_trigger();
    zone.at(10'250, memory(60));
    EXPECT_EQ(zone.look_again_ms(), 100U);
}

TEST(Reporting, MovementIsFollowedClosely) {
    Zone zone;
    zone.looks_between(0, 10'000, memory(400));
    EXPECT_EQ(zone.look_again_ms(), 2000U);
    zone.at(10'000, memory(395));
    EXPECT_EQ(zone.look_again_ms(), 100U);
    zone.at(10'100, memory(395));
    EXPECT_EQ(zone.look_again_ms(), 200U);
}

}  // namespace
}  // namespace xenpack::guest
