// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/publish/decision.h promises: one readable line, and the same as JSON.
#include "watcher/publish/decision.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

namespace xenpack {
namespace {

const Decision kGrow{DecisionKind::grow, "web", 3, "0102", 256 * 1024, 512 * 1024, "needs it"};

TEST(Decision, ReadsAsWhatWhoFromToWhy) {
    EXPECT_EQ(to_line(kGrow), "web (3): grow 256 -> 512 MiB: needs it");
}

TEST(Decision, AboutTheHostNamesNoZone) {
    EXPECT_EQ(to_line({DecisionKind::config, "", 0, "", {}, {}, "reloaded"}), "config: reloaded");
}

TEST(Decision, AsJsonHasTheTimeInUtc) {
    const auto json = to_json(kGrow);
    EXPECT_TRUE(std::regex_match(json["time"].get<std::string>(),
                                 std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)")))
        << json["time"];
    EXPECT_EQ(json["zone"], "web");
    EXPECT_EQ(json["from_kib"], 256 * 1024);
}

TEST(Decision, AsJsonLeavesOutWhatDoesNotApply) {
    const auto json = to_json({DecisionKind::config, "", 0, "", {}, {}, "reloaded"});
    EXPECT_FALSE(json.contains("zone"));
    EXPECT_FALSE(json.contains("from_kib"));
}

}  // namespace
}  // namespace xenpack
