// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/zones/zone.h and flood.h promise: states, limits, and bounded listening.
#include "watcher/zones/zone.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>

#include "watcher/balance/balance.h"
#include "watcher/balance/need.h"
#include "watcher/zones/flood.h"
#include "watcher/zones/follow.h"
#include "watcher/zones/look.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::int64_t kNowMs = 1'000'000;

Zone healthy() {
    Zone z;
    z.key = {7, {1}};
    z.name = "web";
    z.managed = true;
    z.domain.domid = 7;
    z.domain.current_kib = 256 * kMib;
    z.created_with = xenpack_domain_config{256 * kMib, 1024 * kMib};
    z.target_kib = 256 * kMib;
    z.static_max_kib = 1024 * kMib;
    z.pressure.agent = Agent::xenpack;
    z.pressure.last_ms = kNowMs;
    z.pressure.heartbeat_ms = 30'000;
    z.progress = advance({}, 256 * kMib, 256 * kMib, kNowMs);
    return z;
}

TEST(StateOf, AHealthyZoneIsSteady) {
    EXPECT_EQ(state_of(healthy(), kNowMs), ZoneState::steady);
}

TEST(StateOf, WhatXenSaysComesFirst) {
    Zone z = healthy();
    z.garbled_why = "nonsense";
    z.domain.flags = XENPACK_DOMAIN_IS_PAUSED;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::paused);
    z.domain.flags |= XENPACK_DOMAIN_NEVER_RAN;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::building);
    z.domain.flags = XENPACK_DOMAIN_IS_SHUTDOWN;
    z.domain.shutdown_reason = 3;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::shutdown);
    z.domain.shutdown_reason = 2;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::saving);
}

TEST(StateOf, BothHalvesOfAMigrationAreLeftAlone) {
    Zone z = healthy();
    z.name = "web--incoming";
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::saving);
    z.name = "web--migratedaway";
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::saving);
}

TEST(StateOf, SilenceBecomesStaleAtItsTime) {
    const Zone z = healthy();
    EXPECT_EQ(state_of(z, stale_at_ms(z.pressure) - 1), ZoneState::steady);
    EXPECT_EQ(state_of(z, stale_at_ms(z.pressure)), ZoneState::stale);
    EXPECT_EQ(faults(z, stale_at_ms(z.pressure)).size(), 1U);
}

TEST(StateOf, OnlySilenceOfAZoneThatCouldSpeakIsAFault) {
    Zone z = healthy();
    const std::int64_t late_ms = stale_at_ms(z.pressure);
    ASSERT_TRUE(silence(z, late_ms));
    z.domain.flags = XENPACK_DOMAIN_IS_PAUSED;
    EXPECT_FALSE(silence(z, late_ms));
    follow(z, late_ms);
    z.domain.flags = 0;
    EXPECT_EQ(state_of(z, late_ms + 1), ZoneState::stale);
    EXPECT_FALSE(silence(z, late_ms + 1)) << "it has only just come back";
    EXPECT_EQ(next_change_ms(z, late_ms + 1), silent_at_ms(z));
    EXPECT_TRUE(silence(z, silent_at_ms(z)));
    z.flooding_until_ms = silent_at_ms(z) + 1;
    EXPECT_FALSE(silence(z, silent_at_ms(z))) << "it is not listened to";
    z = healthy();
    z.managed = false;
    EXPECT_FALSE(silence(z, late_ms));
}

// Each wakeup while it is paused would put the next one off.
TEST(StateOf, APausedZoneWakesNobody) {
    Zone z = healthy();
    z.pressure.first_ms = kNowMs - 60'000;
    z.pressure.stalled_ms = -1;
    const std::int64_t late_ms = stale_at_ms(z.pressure);
    z.domain.flags = XENPACK_DOMAIN_IS_PAUSED;
    follow(z, late_ms);
    EXPECT_FALSE(next_change_ms(z, late_ms));
}

TEST(StateOf, AZoneIsPinnedOnceItIsToldSo) {
    Zone z = healthy();
    z.overrides.pin_kib = 200 * kMib;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::shrinking);
    z.overrides.pin_kib = 300 * kMib;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::growing);
    z.overrides.pin_kib = 256 * kMib + 100;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::pinned);
    z.overrides.pin_kib = 9000 * kMib;
    z.overrides.ceiling_kib = 256 * kMib;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::pinned) << "as far as it may be";
}

// What is not taken from a new zone by itself is taken by a person's word.
TEST(ViewOf, APinIsFollowedAtOnce) {
    Zone z = healthy();
    z.pressure.first_ms = kNowMs;
    EXPECT_FALSE(view_of(z, kNowMs + 1).may_shrink) << "it has spoken once";
    z.overrides.pin_kib = 200 * kMib;
    EXPECT_TRUE(view_of(z, kNowMs + 1).may_shrink);
    EXPECT_EQ(limited_to_kib(view_of(z, kNowMs + 1), kNowMs + 1), 200 * kMib);
    z.domain.flags = XENPACK_DOMAIN_IS_PAUSED;
    EXPECT_FALSE(view_of(z, kNowMs + 1).may_shrink);
}

TEST(StateOf, FaultsAreNamed) {
    Zone z = healthy();
    z.flooding_until_ms = kNowMs + 1;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::flooding);
    z = healthy();
    z.garbled_why = "tot is 0";
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::garbled);
    z = healthy();
    z.progress.stuck_until_ms = kNowMs + 1000;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::stuck);
    z = healthy();
    z.pressure.agent = Agent::none;
    EXPECT_EQ(state_of(z, kNowMs), ZoneState::booting);
}

TEST(Limits, FollowFromSizeAndStartWhereNothingIsSaid) {
    const Zone z = healthy();
    EXPECT_EQ(ceiling_kib(z), 1024 * kMib);
    EXPECT_EQ(floor_kib(z), std::min(floor_for_size_kib(1024 * kMib), 256 * kMib));
}

TEST(Limits, AZoneStartedSmallIsNotRaisedToItsFloor) {
    Zone z = healthy();
    z.created_with->memory_kib = 64 * kMib;
    EXPECT_EQ(floor_kib(z), 64 * kMib);
}

TEST(Limits, OverridesComeBeforeTheConfiguration) {
    Zone z = healthy();
    z.config.floor_kib = 100 * kMib;
    z.config.ceiling_kib = 500 * kMib;
    z.config.weight = 7;
    EXPECT_EQ(floor_kib(z), 100 * kMib);
    EXPECT_EQ(ceiling_kib(z), 500 * kMib);
    EXPECT_EQ(weight(z), 7U);
    z.overrides = {150 * kMib, 400 * kMib, 9, std::nullopt};
    EXPECT_EQ(floor_kib(z), 150 * kMib);
    EXPECT_EQ(ceiling_kib(z), 400 * kMib);
    EXPECT_EQ(weight(z), 9U);
}

TEST(Limits, TheCeilingIsNeverOverMaxmemNorTheFloorOverTheCeiling) {
    Zone z = healthy();
    z.config.ceiling_kib = 9000 * kMib;
    z.config.floor_kib = 8000 * kMib;
    EXPECT_EQ(ceiling_kib(z), 1024 * kMib);
    EXPECT_EQ(floor_kib(z), 1024 * kMib);
}

TEST(Flood, AdmitsABurstThenItsRate) {
    Flood flood(40, 20);
    int admitted = 0;
    for (int i = 0; i < 1000; ++i) {
        admitted += flood.admit(kNowMs + i) ? 1 : 0;
    }
    EXPECT_GE(admitted, 55);
    EXPECT_LE(admitted, 61);
}

TEST(Flood, AZoneWithinItsRateIsNeverCutOff) {
    Flood flood(40, 20);
    for (std::int64_t i = 0; i < 1000; ++i) {
        EXPECT_TRUE(flood.admit(kNowMs + i * 50));
    }
}

TEST(Flood, GoingOnDoublesThePenaltyAndCalmForgivesIt) {
    Flood flood(40, 20);
    EXPECT_EQ(flood.penalty_ms(kNowMs, 2000, 60'000), 2000);
    EXPECT_EQ(flood.penalty_ms(kNowMs + 2500, 2000, 60'000), 4000);
    EXPECT_EQ(flood.penalty_ms(kNowMs + 7000, 2000, 60'000), 8000);
    EXPECT_EQ(flood.penalty_ms(kNowMs + 1'000'000, 2000, 60'000), 2000);
}

// ---- families -----------------------------------------------------------------------------------

Family family_of(const std::map<std::string, std::string>& nodes) {
    return read_family([&](std::string_view path) -> Expected<std::optional<std::string>> {
               const auto at = nodes.find(std::string(path));
               return at == nodes.end() ? std::nullopt : std::optional(at->second);
           })
        .value();
}

TEST(Family, MostDomainsHaveNoneAndCostOneRead) {
    int reads = 0;
    const auto none = read_family([&](std::string_view) -> Expected<std::optional<std::string>> {
        ++reads;
        return std::nullopt;
    });
    EXPECT_EQ(none->kind, Family::Kind::none);
    EXPECT_EQ(reads, 1);
    EXPECT_EQ(left_alone_why(*none), "");
    EXPECT_EQ(family_of({{"xenpack", ""}, {"xenpack/other", "x"}}).kind, Family::Kind::none);
}

TEST(Family, ATemplateIsOneFromTheRequestOn) {
    const std::map<std::string, std::string> asked{
        {"xenpack", ""}, {"xenpack/template-name", "tip"}, {"xenpack/identity", "none"}};
    Family family = family_of(asked);
    EXPECT_EQ(family.kind, Family::Kind::asked);
    EXPECT_EQ(family.template_name, "tip");
    EXPECT_FALSE(family.has_reporter);
    EXPECT_FALSE(family.shares());
    EXPECT_NE(left_alone_why(family), "");
    family = family_of({{"xenpack", ""}, {"xenpack/template", "sealing"}});
    EXPECT_EQ(family.kind, Family::Kind::sealing);
    EXPECT_TRUE(family.has_reporter);
    EXPECT_TRUE(family.shares());
    EXPECT_EQ(family_of({{"xenpack", ""}, {"xenpack/template", "sealed"}}).kind,
              Family::Kind::sealed);
}

TEST(Family, AForkIsOneBeforeItIsComplete) {
    std::map<std::string, std::string> nodes{{"xenpack", ""},
                                             {"xenpack/fork/state", "building"},
                                             {"xenpack/fork/template", "uuid"},
                                             {"xenpack/fork/generation", "g"}};
    Family family = family_of(nodes);
    EXPECT_EQ(family.kind, Family::Kind::fork_building);
    EXPECT_EQ(family.template_uuid, "uuid");
    nodes["xenpack/fork/state"] = "complete";
    family = family_of(nodes);
    EXPECT_EQ(family.kind, Family::Kind::fork);
    EXPECT_EQ(family.generation, "g");
    EXPECT_TRUE(family.is_fork());
}

TEST(Family, AForkThatHasBecomeATemplateIsStillItsTemplatesChild) {
    std::map<std::string, std::string> nodes{{"xenpack", ""},
                                             {"xenpack/fork/state", "complete"},
                                             {"xenpack/fork/template", "uuid"},
                                             {"xenpack/template-name", "second"}};
    Family family = family_of(nodes);
    EXPECT_EQ(family.kind, Family::Kind::asked);
    EXPECT_TRUE(family.shares());
    EXPECT_TRUE(family.is_child_of("uuid"));
    nodes["xenpack/template"] = "sealed";
    family = family_of(nodes);
    EXPECT_EQ(family.kind, Family::Kind::sealed);
    EXPECT_FALSE(family.is_fork());
    EXPECT_TRUE(family.is_child_of("uuid"));
    EXPECT_FALSE(family.is_child_of(""));
    nodes["xenpack/fork/state"] = "building";
    EXPECT_EQ(family_of(nodes).kind, Family::Kind::fork_building) << "that is no template to be";
}

TEST(Family, WhatCannotBeReadIsNoFamilyAtAll) {
    int reads = 0;
    const auto failed = read_family([&](std::string_view) -> Expected<std::optional<std::string>> {
        return ++reads == 1 ? Expected<std::optional<std::string>>("")
                            : fail_with(EIO, "the store is gone");
    });
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().what, "the store is gone");
    EXPECT_EQ(reads, 2);
}

TEST(Family, OfWhatIsSharedNothingIsStillToTake) {
    Zone z = healthy();
    z.managed = false;
    z.target_kib = 512 * kMib;
    EXPECT_EQ(still_to_take_kib(z, kNowMs), 256 * kMib);
    z.family.kind = Family::Kind::fork;
    EXPECT_EQ(still_to_take_kib(z, kNowMs), 0U);
    z.family.kind = Family::Kind::sealed;
    EXPECT_EQ(still_to_take_kib(z, kNowMs), 0U);
}

}  // namespace
}  // namespace xenpack
