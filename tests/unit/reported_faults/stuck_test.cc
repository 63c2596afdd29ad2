// SPDX-License-Identifier: LGPL-2.1-or-later
// Faults that users of other balancers reported: domains that do not follow, and what that did to
// them and to the others.
#include <gtest/gtest.h>

#include "tests/unit/watched_host.h"

namespace xenpack::test {
namespace {

constexpr std::uint64_t kib(std::uint64_t bytes) {
    return bytes / 1024;
}

constexpr std::int64_t kHourMs = 3'600'000;
const sim::Demand kIdle{60 * kMib, 20 * kMib, 20 * kMib, 1024, 0};

sim::HostConfig host_of(std::uint64_t mib) {
    return {(mib + 300) * kMib, 100 * kMib, 200 * kMib};
}

sim::DomainConfig dead(std::uint64_t memory_kib, std::uint64_t maxmem_kib) {
    sim::DomainConfig config;
    config.memory_kib = memory_kib;
    config.max_memory_kib = maxmem_kib;
    config.balloon.dead = true;
    return config;
}

// https://github.com/QubesOS/qubes-issues/issues/3265: a VM once flagged as not responding stayed
// flagged for ever.
TEST(ReportedFault, AZoneThatDidNotRespondIsAskedAgain) {
    WatchedHost host(host_of(1200));
    WatchedZone* donor = host.start(dead(1000 * kMib, 1000 * kMib), steady(kIdle));
    host.run(30'000);
    host.ask(500 * kMib);
    ASSERT_TRUE(host.run_until([&] { return donor->zone.progress.stuck(host.now_ms()); }, 20'000));
    donor->domain->balloon = sim::BalloonDriver(sim::BalloonConfig{});
    EXPECT_TRUE(host.run_until([&] { return host.promised_kib() > 0; }, 60'000));
}

// The same report's other half: what it was flagged for is not what it may need next.
TEST(ReportedFault, AZoneThatDidNotShrinkMayStillGrow) {
    WatchedHost host(host_of(2200));
    sim::DomainConfig config = dead(1000 * kMib, 2000 * kMib);
    WatchedZone* zone =
        host.start(config, rising(kIdle, 60'000, {1300 * kMib, 0, 0, 0, 0}, 5 * kMib));
    host.run(30'000);
    host.ask(host.host().free_kib() + 500 * kMib);
    ASSERT_TRUE(host.run_until([&] { return zone->zone.progress.stuck(host.now_ms()); }, 20'000));
    host.ask(0);
    sim::BalloonConfig slow;
    slow.kib_per_s = 10 * kMib;
    zone->domain->balloon = sim::BalloonDriver(slow);
    zone->zone.progress.stuck_until_ms = host.now_ms() + kPenaltyMaxMs;
    host.run(400'000);
    EXPECT_EQ(zone->domain->guest.stats().oom_kills, 0U);
    EXPECT_GT(zone->held_kib(), 1300 * kMib);
    EXPECT_LE(zone->moved_stuck, 1U);
}

// https://github.com/QubesOS/qubes-issues/issues/10143: a domain stood at 343867392 bytes, told to
// go to 299748966, and a start waited for it.
TEST(ReportedFault, WhatOneDoesNotGiveIsTakenFromOthers) {
    WatchedHost host(host_of(1000));
    WatchedZone* stands =
        host.start(dead(kib(343'867'392), 600 * kMib), steady({60 * kMib, 0, 0, 0, 0}));
    WatchedZone* other = host.start(330, 400, steady({130 * kMib, 0, 0, 0, 0}));
    host.run(30'000);
    const std::uint64_t spare_kib = host.host().free_kib() - host.rules().emergency_kib;
    host.ask(spare_kib + kib(343'867'392 - 299'748'966));
    ASSERT_TRUE(host.run_until([&] { return host.promised_kib() > 0; }, 10'000));
    EXPECT_EQ(stands->held_kib(), kib(343'867'392));
    EXPECT_GT(stands->shrunk, 0U) << "it was not the one that had the most to spare";
    EXPECT_GT(other->shrunk, 0U);
}

// https://github.com/QubesOS/qubes-issues/issues/868: a driver that answers neither way.
TEST(ReportedFault, AZoneWithADeadDriverKeepsTheSizeItStartedWith) {
    WatchedHost host(host_of(1500));
    WatchedZone* zone =
        host.start(dead(400 * kMib, 1000 * kMib), rising(kIdle, 20'000, {350 * kMib, 0, 0, 0, 0}));
    WatchedZone* other = host.start(400, 1400, rising(kIdle, 60'000, {1000 * kMib, 0, 0, 0, 0}));
    host.run(50'000);
    EXPECT_EQ(zone->told_kib(), zone->held_kib());
    EXPECT_EQ(zone->held_kib(), 400 * kMib);
    // And nothing is kept for it that another could use.
    host.run(40'000);
    EXPECT_GT(other->held_kib(), 850 * kMib);
    EXPECT_FALSE(faults(zone->zone, host.now_ms()).empty());
}

// https://github.com/QubesOS/qubes-core-libvirt/pull/47: a guest silently stopped at about twice
// the size it was started with, as the pool for its page tables was full.
TEST(ReportedFault, AZoneThatStopsGrowingHalfwayIsNotGivenMoreToHoard) {
    WatchedHost host(host_of(2600));
    WatchedZone* zone =
        host.start(300, 600, rising(kIdle, 20'000, {900 * kMib, 900 * kMib, 0, 0, 0}));
    zone->zone.static_max_kib = 1200 * kMib;
    WatchedZone* other = host.start(300, 2200, rising(kIdle, 60'000, {1500 * kMib, 0, 0, 0, 0}));
    host.run(100'000);
    EXPECT_EQ(zone->held_kib(), 600 * kMib);
    EXPECT_LE(zone->told_kib(), 600 * kMib + kReachedWithinKib);
    EXPECT_EQ(zone->zone.progress.stuck_direction, Direction::growing);
    EXPECT_GT(other->held_kib(), 1500 * kMib);
}

// The same report's other half: one that stands still because the host has nothing left is not at
// fault.
TEST(ReportedFault, AZoneThatCannotGrowOnAnEmptyHostIsNotBlamed) {
    WatchedHost host(host_of(950));
    WatchedZone* zone = host.start(450, 900, steady({200 * kMib, 0, 0, 0, 0}));
    host.run(20'000);
    const std::uint64_t spare_kib = host.host().free_kib() - host.rules().emergency_kib;
    zone->speech = [&](const Report& honest) {
        Report more = honest;
        more.available_kib = 0;
        return std::optional(format_report(more));
    };
    // Somebody takes what it has just been promised.
    host.on_set_target = [&](WatchedZone&, std::uint64_t) {
        static_cast<void>(host.start_unmanaged(spare_kib + 50 * kMib));
        return true;
    };
    ASSERT_TRUE(host.run_until([&] { return zone->grown > 0; }, 60'000));
    host.on_set_target = nullptr;
    host.run(20'000);
    EXPECT_LT(zone->held_kib(), zone->told_kib());
    EXPECT_EQ(zone->zone.progress.penalty_ms, 0);
}

// https://github.com/xapi-project/squeezed/pull/63 (CA-327822): 68 MiB that belonged to a guest and
// were not counted kept it chasing its 4 GiB for ever.
TEST(ReportedFault, AZoneThatSettlesBesideItsTargetDoesNotChaseItForEver) {
    WatchedHost host(host_of(8000));
    sim::DomainConfig config;
    config.memory_kib = 2048 * kMib;
    config.max_memory_kib = 6144 * kMib;
    config.balloon.offset_kib = -68 * static_cast<std::int64_t>(kMib);
    WatchedZone* zone = host.start(config, rising(kIdle, 30'000, {3300 * kMib, 0, 0, 0, 0}));
    host.run(kHourMs);
    EXPECT_EQ(zone->domain->guest.stats().oom_kills, 0U);
    EXPECT_GE(zone->held_kib(), 3300 * kMib);
    const unsigned changes = zone->changes();
    host.run(kHourMs);
    EXPECT_EQ(zone->changes(), changes);
}

// What the same guest must not become: one that is followed down, 68 MiB at a time.
TEST(ReportedFault, AZoneThatSettlesUnderItsTargetIsNotFollowedDown) {
    WatchedHost host(host_of(4500));
    sim::DomainConfig config;
    config.memory_kib = config.max_memory_kib = 4096 * kMib;
    config.balloon.offset_kib = -68 * static_cast<std::int64_t>(kMib);
    WatchedZone* zone = host.start(config, steady({1000 * kMib, 0, 0, 0, 0}));
    host.run(10 * kStuckAfterMs);
    const std::uint64_t held_kib = zone->held_kib();
    EXPECT_GE(held_kib, (4096 - 2 * 68) * kMib);
    host.run(kHourMs);
    EXPECT_EQ(zone->held_kib(), held_kib);
}

// https://github.com/xapi-project/squeezed/pull/38 and
// https://github.com/xapi-project/xen-api/pull/1847 (CA-115733): one stuck VM made all the others
// grow and shrink every few seconds.
TEST(ReportedFault, OneStuckZoneDoesNotMakeTheOthersSwing) {
    WatchedHost host(host_of(2600));
    host.start(dead(1000 * kMib, 1000 * kMib), steady(kIdle));
    std::vector<WatchedZone*> others;
    for (int i = 0; i < 3; ++i) {
        others.push_back(host.start(400, 1000, steady({250 * kMib, 100 * kMib, 0, 0, 0})));
    }
    WatchedZone* hungry = host.start(200, 2000, steady({1800 * kMib, 500 * kMib, 0, 0, 0}));
    hungry->domain->guest = sim::Guest({.static_max_kib = 2000 * kMib, .swap_kib = 2000 * kMib},
                                       steady({1800 * kMib, 500 * kMib, 0, 0, 0}));
    host.run(10 * 60'000);
    unsigned before = 0;
    for (const WatchedZone* each : others) {
        before += each->changes();
    }
    host.run(30 * 60'000);
    unsigned after = 0;
    for (const WatchedZone* each : others) {
        after += each->changes();
    }
    EXPECT_LE(after - before, 3U) << "in half an hour, three zones together";
}

}  // namespace
}  // namespace xenpack::test
