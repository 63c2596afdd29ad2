// SPDX-License-Identifier: LGPL-2.1-or-later
// Faults that users of other balancers reported: domains that should have been left alone, or left
// with more than they were.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/watched_host.h"
#include "watcher/zones/follow.h"

namespace xenpack::test {
namespace {

constexpr std::uint64_t kib(std::uint64_t bytes) {
    return bytes / 1024;
}

constexpr std::int64_t kHourMs = 3'600'000;
const sim::Demand kIdle{60 * kMib, 20 * kMib, 20 * kMib, 1024, 0};
const WatchedZone::Speech kSilent = [](const Report&) { return std::nullopt; };

sim::HostConfig host_of(std::uint64_t mib) {
    return {(mib + 300) * kMib, 100 * kMib, 200 * kMib};
}

// A start that wants more than there will ever be.
void ask_for_everything(WatchedHost& host) {
    host.ask(host.host().config().total_kib);
}

// https://github.com/QubesOS/qubes-issues/issues/10007 (also 9663, 9669, 10130): VMs whose reporter
// had never started were stuck at 400 to 600 MB, and nobody was told.
TEST(ReportedFault, AZoneWhoseReporterNeverStartedKeepsItsSizeAndIsNamed) {
    WatchedHost host(host_of(1500));
    WatchedZone* silent = host.start(600, 1000, steady(kIdle));
    silent->speech = kSilent;
    host.start(700, 1000, steady(kIdle));
    host.run(20'000);
    EXPECT_TRUE(faults(silent->zone, host.now_ms()).empty()) << "it may be booting";
    ask_for_everything(host);
    host.run(10 * 60'000);
    EXPECT_EQ(silent->changes(), 0U);
    EXPECT_EQ(silent->held_kib(), 600 * kMib);
    EXPECT_FALSE(faults(silent->zone, host.now_ms()).empty());
}

// https://github.com/xapi-project/xen-api/pull/305 (CA-64903): memory was taken to be given back by
// VMs that had no balloon driver.
TEST(ReportedFault, NothingIsCountedOnFromAZoneThatHasNotSpoken) {
    WatchedHost host(host_of(1300));
    WatchedZone* mute = host.start(1000, 1000, steady(kIdle));
    mute->speech = kSilent;
    host.run(60'000);
    host.ask(500 * kMib);
    host.run(60'000);
    EXPECT_TRUE(host.ledger().donors(Keep::must).empty());
    EXPECT_EQ(host.promised_kib(), 0U);
    EXPECT_EQ(mute->changes(), 0U);
}

// https://github.com/xapi-project/xen-api/pull/6890 (CP-311475): the limit of domain 717 was cut
// from 6370254848 bytes to 2075287552 KiB while it was being built.
TEST(ReportedFault, ADomainUnderConstructionIsNotTouched) {
    WatchedHost host(host_of(8000));
    WatchedZone* zone = host.start(kib(6'370'254'848) / kMib, 8000, steady(kIdle));
    ASSERT_NE(zone, nullptr);
    zone->zone.domain.flags = XENPACK_DOMAIN_NEVER_RAN;
    zone->zone.overrides.ceiling_kib = kib(2'075'287'552);
    zone->speech = kSilent;
    host.host().set_limit(*zone->domain, kib(6'370'254'848));
    const std::uint64_t limit_kib = zone->domain->limit_kib;
    ask_for_everything(host);
    host.run(60'000);
    EXPECT_EQ(state_of(zone->zone, host.now_ms()), ZoneState::building);
    EXPECT_EQ(zone->changes(), 0U);
    EXPECT_EQ(zone->domain->limit_kib, limit_kib);
}

// https://github.com/xcp-ng/xcp/issues/268: a migration shrank a VM under what its MySQL worked
// with, and it crashed.
TEST(ReportedFault, NoZoneIsShrunkBelowItsWorkingSet) {
    WatchedHost host(host_of(1200));
    const sim::Demand mysql{600 * kMib, 600 * kMib, 100 * kMib, 50 * kMib, 0};
    WatchedZone* zone = host.start(1000, 1000, steady(mysql));
    host.run(60'000);
    ask_for_everything(host);
    for (int i = 0; i < 6000; ++i) {
        host.step();
        ASSERT_GE(zone->told_kib(), (600 + 16) * kMib) << host.now_ms();
    }
    EXPECT_GT(zone->shrunk, 0U);
    EXPECT_EQ(zone->domain->guest.stats().oom_kills, 0U);
}

// https://github.com/xapi-project/xen-api/pull/3138 (and xenopsd/pull/359): a guest was taken to be
// done as it passed through its target, and went on ballooning.
TEST(ReportedFault, AZoneThatPassesThroughItsTargetIsNotDone) {
    Zone zone;
    zone.managed = true;
    zone.static_max_kib = 1000 * kMib;
    const auto holds = [&](std::uint64_t mib, std::int64_t now_ms) {
        zone.domain.current_kib = mib * kMib;
        follow(zone, now_ms);
    };
    const auto says = [&](std::uint64_t total_mib, std::int64_t now_ms) {
        Report report{.sequence = static_cast<std::uint64_t>(now_ms),
                      .uptime_ms = static_cast<std::uint64_t>(now_ms),
                      .heartbeat_s = 30,
                      .total_kib = total_mib * kMib,
                      .available_kib = 100 * kMib,
                      .free_kib = 50 * kMib,
                      .brake_kib = {},
                      .some_us = 0,
                      .full_us = 0};
        take_sample(zone, sample_of(report), now_ms);
        follow(zone, now_ms);
    };
    zone.target_kib = 500 * kMib;
    holds(600, 1000);
    // Its kernel is behind, or it is only passing: what it says now is no measure of anything.
    holds(500, 2000);
    says(550, 2000);
    EXPECT_FALSE(zone.overhead_kib);
    holds(480, 2100);
    says(460, 2100);
    holds(500, 2200);
    EXPECT_FALSE(zone.overhead_kib);
    says(470, 5000);
    ASSERT_TRUE(zone.overhead_kib);
    EXPECT_EQ(*zone.overhead_kib, 30 * kMib);
}

// https://github.com/xapi-project/xen-api/pull/6437: every VM was ballooned down for a migration to
// the same host, which needed nothing.
TEST(ReportedFault, NothingIsTakenWithoutACause) {
    WatchedHost host(host_of(4000));
    std::vector<WatchedZone*> zones;
    for (int i = 0; i < 3; ++i) {
        zones.push_back(host.start(800, 1500, steady(kIdle)));
    }
    host.run(kHourMs);
    // Nor from either half of a migration, whatever is wanted.
    zones[0]->zone.name = "zone--incoming";
    zones[1]->zone.name = "zone--migratedaway";
    for (WatchedZone* each : zones) {
        EXPECT_EQ(each->changes(), 0U);
        host.look_soon(*each);
    }
    ask_for_everything(host);
    host.run(60'000);
    EXPECT_EQ(zones[0]->changes(), 0U);
    EXPECT_EQ(zones[1]->changes(), 0U);
    EXPECT_GT(zones[2]->changes(), 0U);
}

// https://github.com/xapi-project/xen-api/issues/1289: a VM had been grown past its static maximum,
// and could not be migrated any more.
TEST(ReportedFault, NoTargetIsAboveTheStaticMaximum) {
    const auto hungry = rising(kIdle, 20'000, {3000 * kMib, 0, 0, 0, 0}, 20 * kMib);
    for (const bool pinned : {false, true}) {
        WatchedHost host(host_of(8000));
        WatchedZone* zone = host.start(500, 1000, hungry);
        zone->zone.config.ceiling_kib = 4000 * kMib;
        zone->zone.overrides.floor_kib = 2000 * kMib;
        if (pinned) {
            zone->zone.overrides.pin_kib = 5000 * kMib;
        }
        for (int i = 0; i < 1200; ++i) {
            host.step();
            ASSERT_LE(zone->told_kib(), 1000 * kMib);
        }
        EXPECT_EQ(zone->told_kib(), 1000 * kMib);
    }
}

// https://github.com/edera-dev/linux-kernel-oci/pull/236: memory was taken from a zone that had
// just started, and its workload was killed while there was memory to be had.
TEST(ReportedFault, AFreshZoneIsNotRobbedAndGrowsBeforeItsWorkloadIsKilled) {
    WatchedHost host(host_of(2000));
    host.start(900, 1500, steady(kIdle));
    host.run(60'000);
    ask_for_everything(host);
    host.run(10'000);
    WatchedZone* fresh =
        host.start(500, 1500, rising(kIdle, 15'000, {600 * kMib, 300 * kMib, 0, 0, 0}, 50 * kMib));
    ASSERT_NE(fresh, nullptr);
    host.run(10'000);
    EXPECT_EQ(fresh->shrunk, 0U);
    host.run(60'000);
    EXPECT_EQ(fresh->domain->guest.stats().oom_kills, 0U);
    EXPECT_GE(fresh->held_kib(), 600 * kMib);
}

// https://github.com/xapi-project/xen-api: commit aef2acf518 (CA-423816), a VM's maximum grew by
// 39845888 bytes with each migration to the same host.
TEST(ReportedFault, RepeatedMovesDoNotMakeAZoneLarger) {
    WatchedHost host(host_of(3000));
    sim::DomainConfig config;
    config.memory_kib = 600 * kMib;
    config.max_memory_kib = 1200 * kMib;
    std::uint64_t first_kib = 0;
    for (int move = 0; move < 20; ++move) {
        // It arrives with what it was told to have, and now and then holds a little that nobody
        // knows of.
        config.balloon.offset_kib = move % 2 == 0 ? 0 : 2 * static_cast<std::int64_t>(kMib);
        WatchedZone* zone = host.start(config, steady({300 * kMib, 100 * kMib, 50 * kMib, 0, 0}));
        ASSERT_NE(zone, nullptr);
        host.run(120'000);
        first_kib = move == 0 ? zone->held_kib() : first_kib;
        EXPECT_LE(zone->held_kib(), first_kib + kib(39'845'888) / 10) << "after move " << move;
        EXPECT_LE(zone->domain->limit_kib, zone->held_kib() + 2 * sim::kLimitSlackKib);
        config.memory_kib = zone->told_kib();
        host.stop(*zone);
    }
}

// https://github.com/QubesOS/qubes-vmm-xen/pull/121: a domid was used again, and what was meant for
// the old domain was done to the new one.
TEST(ReportedFault, ADomidUsedAgainIsAnotherZone) {
    const ZoneKey before{7, {1}};
    const ZoneKey after{7, {2}};
    EXPECT_NE(before, after);
    // Nothing of the old one is left where the new one takes its place.
    WatchedHost host(host_of(3000));
    WatchedZone* old = host.start(500, 2000, rising(kIdle, 15'000, {1500 * kMib, 0, 0, 0, 0}));
    const Ledger::Slot slot = old->slot;
    host.run(60'000);
    ASSERT_GT(host.ledger().view(slot).must_kib, 0U);
    host.stop(*old);
    EXPECT_EQ(host.ledger().size(), 0U);
    WatchedZone* young = host.start(500, 2000, steady(kIdle));
    ASSERT_EQ(young->slot, slot);
    host.step();
    EXPECT_EQ(host.ledger().view(slot).must_kib, 0U);
    EXPECT_TRUE(host.ledger().donors(Keep::must).empty());
    EXPECT_EQ(young->zone.progress.penalty_ms, 0);
    host.run(60'000);
    EXPECT_EQ(young->held_kib(), 500 * kMib);
}

// https://github.com/edera-dev/krata/pull/298: the order in which target and limit are set. What
// leaves a zone keeps its limit over what it holds until it is there, so that it can come back.
TEST(ReportedFault, TheLimitComesDownLastAndGoesUpFirst) {
    WatchedHost host(host_of(1500));
    sim::DomainConfig config;
    config.memory_kib = config.max_memory_kib = 1000 * kMib;
    config.balloon.kib_per_s = 50 * kMib;
    WatchedZone* zone = host.start(config, steady(kIdle));
    host.run(60'000);
    host.ask(host.host().free_kib() + 300 * kMib);
    bool shrinking = false;
    for (int i = 0; i < 600; ++i) {
        host.step();
        shrinking = shrinking || zone->told_kib() < zone->held_kib();
        ASSERT_GE(zone->domain->limit_kib, std::max(zone->told_kib(), zone->held_kib()));
    }
    EXPECT_TRUE(shrinking);
    EXPECT_EQ(zone->domain->limit_kib, zone->told_kib() + sim::kLimitSlackKib);
}

}  // namespace
}  // namespace xenpack::test
