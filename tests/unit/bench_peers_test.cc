// SPDX-License-Identifier: LGPL-2.1-or-later
// The rules of the peers that publish no test vectors, by their published constants.
#include <gtest/gtest.h>

#include "tests/bench/peers/edera.h"
#include "tests/bench/peers/esx.h"
#include "tests/bench/peers/hyperv.h"
#include "tests/bench/peers/mom.h"
#include "tests/bench/peers/oracle.h"
#include "tests/bench/peers/proxmox.h"
#include "tests/bench/peers/selfballoon.h"

namespace xenpack::bench {
namespace {

TEST(BenchStatic, NeverLacksMemoryAtItsPeak) {
    for (const std::uint64_t peak_kib : {20'000ULL, 300'000ULL, 4'000'000ULL, 64'000'000ULL}) {
        auto trace = std::make_shared<sim::Trace>();
        trace->rows.push_back({0, {peak_kib / 2, peak_kib / 4, peak_kib / 2, 1000, 0}});
        sim::GuestConfig config;
        config.static_max_kib = simulate::size_for_peak_kib(peak_kib);
        EXPECT_LE(sim::Guest(config, trace).ease_kib(0), config.static_max_kib);
        EXPECT_LE(config.static_max_kib, peak_kib + peak_kib / 20 + 64 * kMibKib);
    }
}

TEST(BenchMom, ShrinksByATwentiethUnderPressure) {
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 600, 100, 1000}, 0.10), 950);
    // Half of the host's goal is free: half of the guest's 20 %, over what it uses.
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 130, 100, 1000}, 0.10), 970);
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 600, 980, 1000}, 0.10), 980);
}

TEST(BenchMom, TakesFromUsedMemoryWhereItIsCritical) {
    // 3 % free: 2 % below what is used.
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 20, 100, 1000}, 0.03), 960);
}

TEST(BenchMom, GrowsByATwentiethElse) {
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 600, 100, 2000}, 0.20), 1050);
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 0, 100, 2000}, 0.20), 1200);
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 0, 100, 1100}, 0.20), 1100);
    // Less than a quarter of a percent is not worth it.
    EXPECT_DOUBLE_EQ(mom::target_kib({1000, 1000, 600, 100, 1002}, 0.50), 1000);
}

proxmox::View proxmox_guest(std::uint32_t id, std::int64_t size_mib, std::int64_t free_mib) {
    return {id, 512 * 1024, 2048 * 1024, size_mib * 1024, free_mib * 1024, 1000};
}

TEST(BenchProxmox, LeavesSmallGoalsAlone) {
    EXPECT_TRUE(proxmox::balloon({proxmox_guest(1, 1024, 0)}, 10 * 1024, 102'400).empty());
    EXPECT_TRUE(proxmox::balloon({proxmox_guest(1, 1024, 0)}, -10 * 1024, 102'400).empty());
}

TEST(BenchProxmox, ShrinksThoseWithFreeMemoryFirst) {
    const auto sizes = proxmox::balloon({proxmox_guest(1, 1024, 400), proxmox_guest(2, 1024, 10)},
                                        -50 * 1024, 102'400);
    EXPECT_EQ(sizes.at(1), (1024 - 50) * 1024);
    EXPECT_FALSE(sizes.contains(2));
}

TEST(BenchProxmox, GrowsThoseWithoutFreeMemoryFirstAndNotQuickly) {
    const auto sizes = proxmox::balloon({proxmox_guest(1, 1024, 400), proxmox_guest(2, 1024, 10)},
                                        500 * 1024, 102'400);
    EXPECT_EQ(sizes.at(2), (1024 + 100) * 1024);
    EXPECT_FALSE(sizes.contains(1));
}

TEST(BenchProxmox, GoesByShares) {
    std::vector<proxmox::View> guests = {proxmox_guest(1, 512, 0), proxmox_guest(2, 512, 0)};
    guests[1].shares = 3000;
    const auto sizes = proxmox::balloon(guests, 80 * 1024, 102'400);
    EXPECT_EQ(sizes.at(1), (512 + 20) * 1024);
    EXPECT_EQ(sizes.at(2), (512 + 60) * 1024);
}

TEST(BenchEsx, TaxesIdlePagesFourfold) {
    EXPECT_DOUBLE_EQ(esx::cost(1), 1);
    EXPECT_DOUBLE_EQ(esx::cost(0), 4);
    const auto sizes = esx::divide({{1, 1000, 0, 1e6, 1.0}, {2, 1000, 0, 1e6, 0.0}}, 1'000'000);
    EXPECT_NEAR(static_cast<double>(sizes.at(1)), 800'000, 10);
    EXPECT_NEAR(static_cast<double>(sizes.at(2)), 200'000, 10);
}

TEST(BenchEsx, ActiveRisesAtOnceAndFallsSlowly) {
    esx::Active active;
    active.look(0.2, 0);
    active.look(1.0, 1'000);
    EXPECT_NEAR(active.estimate(), 0.6, 1e-9);
    active.look(0.2, 30'000);
    active.look(0.2, 60'000);
    EXPECT_GE(active.estimate(), 0.2);
}

TEST(BenchHyperv, FloorIsWithoutJumps) {
    // The bounds of compute_balloon_floor(), Linux' hv_balloon.c.
    for (const std::uint64_t mib : {128U, 512U, 2048U, 8192U}) {
        EXPECT_NEAR(static_cast<double>(hyperv::floor_kib(mib * 1024)),
                    static_cast<double>(hyperv::floor_kib(mib * 1024 - 4)), 8)
            << mib;
    }
    EXPECT_EQ(hyperv::floor_kib(128 * 1024), 72U * 1024);
    EXPECT_EQ(hyperv::floor_kib(512 * 1024), 168U * 1024);
    EXPECT_EQ(hyperv::floor_kib(2048 * 1024), 360U * 1024);
    EXPECT_EQ(hyperv::floor_kib(8192 * 1024), 744U * 1024);
}

TEST(BenchHyperv, GivesDemandAndAFifth) {
    const auto sizes =
        hyperv::divide({{1, 1000, 100, 5000, 500}, {2, 1000, 100, 5000, 2000}}, 5000);
    EXPECT_NEAR(static_cast<double>(sizes.at(1)), 1200, 1);
    // Nobody needs what the other has too much.
    EXPECT_NEAR(static_cast<double>(sizes.at(2)), 2000, 1);
}

TEST(BenchHyperv, PutsAllUnderTheSamePressureInAShortage) {
    const auto sizes = hyperv::divide({{1, 1000, 100, 5000, 500}, {2, 3000, 100, 5000, 2500}}, 0);
    EXPECT_NEAR(static_cast<double>(sizes.at(1)), 750, 2);
    EXPECT_NEAR(static_cast<double>(sizes.at(2)), 2250, 2);
}

TEST(BenchEdera, FollowsItsDocumentedThresholds) {
    const std::uint64_t most_kib = 1024 * kMibKib;
    EXPECT_EQ(edera::target_kib(1000 * kMibKib, 100 * kMibKib, most_kib), 500 * kMibKib);
    EXPECT_EQ(edera::target_kib(400 * kMibKib, 30 * kMibKib, most_kib), 300 * kMibKib);
    EXPECT_EQ(edera::target_kib(400 * kMibKib, 350 * kMibKib, most_kib), 430 * kMibKib);
    EXPECT_EQ(edera::target_kib(1000 * kMibKib, 990 * kMibKib, most_kib), most_kib);
    EXPECT_EQ(edera::target_kib(400 * kMibKib, 200 * kMibKib, most_kib), 400 * kMibKib);
}

TEST(BenchSelfballoon, GoesUpAtOnceAndDownByAnEighth) {
    EXPECT_EQ(selfballoon::target_kib(1000, 1800, 100, 5000), 1800U);
    EXPECT_EQ(selfballoon::target_kib(1000, 200, 100, 5000), 900U);
    EXPECT_EQ(selfballoon::target_kib(1000, 200, 950, 5000), 950U);
    EXPECT_EQ(selfballoon::floor_kib((99 + 320) * kMibKib), 109U * kMibKib);
}

TEST(BenchOracle, KeepsEverybodyAliveBeforeAnybodyAtEase) {
    std::vector<oracle::Need> needs(2);
    needs[0] = {1, {100, 300}, {100, 300}, 300, 1.0, 100};
    needs[1] = {2, {200, 250}, {200, 250}, 250, 5.0, 100};
    auto sizes = oracle::divide(needs, 300);
    EXPECT_EQ(sizes.at(1), 100U);
    EXPECT_EQ(sizes.at(2), 200U);
    // What is read more often comes first.
    sizes = oracle::divide(needs, 360);
    EXPECT_EQ(sizes.at(1), 110U);
    EXPECT_EQ(sizes.at(2), 250U);
}

TEST(BenchOracle, SacrificesOneRatherThanAll) {
    std::vector<oracle::Need> needs(3);
    needs[0] = {1, {150, 150}, {150, 150}, 150, 0, 100};
    needs[1] = {2, {300, 300}, {300, 300}, 300, 0, 100};
    needs[2] = {3, {150, 150}, {150, 150}, 150, 0, 100};
    const auto sizes = oracle::divide(needs, 300);
    EXPECT_EQ(sizes.at(1), 150U);
    EXPECT_EQ(sizes.at(2), 0U);
    EXPECT_EQ(sizes.at(3), 150U);
}

}  // namespace
}  // namespace xenpack::bench
