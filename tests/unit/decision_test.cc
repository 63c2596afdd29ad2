// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/publish/decision.h promises: one readable line, and the same as JSON.
#include "watcher/publish/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace xenpack {
namespace {

const Decision kGrow{DecisionKind::grow, "web", 3, "0102", 256 * 1024, 512 * 1024, "needs it"};

TEST(Decision, ReadsAsWhatWhoFromToWhy) {
    EXPECT_EQ(to_line(kGrow), "web (3): grow 256 -> 512 MiB: needs it");
}

TEST(Decision, ANameCannotForgeALine) {
    Decision d = kGrow;
    d.zone = "a\nxenpackd: b\x1b[2J";
    const std::string line = to_line(d);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST(Decision, AboutTheHostNamesNoZone) {
    EXPECT_EQ(to_line(about_host(DecisionKind::config, "reloaded")), "config: reloaded");
}

TEST(Decision, AsJsonHasTheTimeInUtc) {
    const auto json = to_json(kGrow);
    std::string time = json["time"].get<std::string>();
    std::ranges::replace_if(
        time, [](char c) { return c >= '0' && c <= '9'; }, '0');
    EXPECT_EQ(time, "0000-00-00T00:00:00.000Z");
    EXPECT_EQ(json["zone"], "web");
    EXPECT_EQ(json["from_kib"], 256 * 1024);
}

TEST(Decision, AsJsonLeavesOutWhatDoesNotApply) {
    const auto json = to_json(about_host(DecisionKind::config, "reloaded"));
    EXPECT_FALSE(json.contains("zone"));
    EXPECT_FALSE(json.contains("from_kib"));
}

}  // namespace
}  // namespace xenpack
