// SPDX-License-Identifier: LGPL-2.1-or-later
// The benchmark's verdict and its texts, from made-up figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/bench/chart.h"
#include "tests/bench/print.h"

namespace xenpack::bench {
namespace {

std::vector<Contender> four() {
    return {{"ours<&>", Role::ours, nullptr},
            {"static", Role::peer, nullptr},
            {"other", Role::peer, nullptr},
            {"oracle", Role::oracle, nullptr}};
}

// One set; zones of each policy, and kills of ours and of the oracle at the equal number.
std::vector<SetScores> scores_of(std::vector<unsigned> zones, std::uint64_t ours,
                                 std::uint64_t oracle) {
    SetScores set;
    set.set = "a \"set\"";
    set.host.total_kib = 8 * 1024 * 1024;
    set.equal_zones = 16;
    for (const unsigned each : zones) {
        Score score;
        score.zones = each;
        score.held_to_oracle = 1.5;
        score.equal.zone_ms = 100'000;
        score.equal.stalled_ms = 500;
        score.equal.target_changes = 50;
        set.scores.push_back(score);
    }
    set.scores.front().equal.oom_kills = ours;
    set.scores.back().equal.oom_kills = oracle;
    set.scores.front().equal.stall_to_grant_ms = {100, 200, 900};
    return {set};
}

std::vector<bool> met(const Verdict& verdict) {
    std::vector<bool> result;
    for (const Aim& aim : verdict.aims) {
        result.push_back(aim.met);
    }
    return result;
}

TEST(BenchVerdict, ComparesWithTheBestPeerAndTheOracle) {
    const Verdict good = judge(scores_of({20, 12, 16, 22}, 0, 0), four());
    EXPECT_EQ(good.best_peer, 2U);
    EXPECT_EQ(met(good), (std::vector<bool>{true, true, true}));
    EXPECT_TRUE(good.failures.empty());
    EXPECT_EQ(met(judge(scores_of({19, 12, 16, 22}, 0, 0), four())),
              (std::vector<bool>{false, false, true}));
}

TEST(BenchVerdict, FailsWhereWeAreWorseThanTheBestPeerOrFarFromTheOracle) {
    EXPECT_EQ(judge(scores_of({15, 12, 16, 16}, 0, 0), four()).failures.size(), 1U);
    EXPECT_TRUE(judge(scores_of({16, 12, 16, 16}, 0, 0), four()).failures.empty());
    EXPECT_TRUE(judge(scores_of({18, 12, 16, 20}, 0, 0), four()).failures.empty());
    EXPECT_EQ(judge(scores_of({17, 12, 16, 20}, 0, 0), four()).failures.size(), 1U);
}

TEST(BenchVerdict, FailsByAKillThatTheOracleAvoids) {
    const Verdict needless = judge(scores_of({20, 12, 16, 22}, 3, 0), four());
    EXPECT_EQ(met(needless), (std::vector<bool>{true, true, false}));
    EXPECT_EQ(needless.failures.size(), 1U);
    EXPECT_TRUE(judge(scores_of({20, 12, 16, 22}, 3, 1), four()).failures.empty());
}

TEST(BenchPrint, TableHasARowForEachPolicyInEachSetAndInAll) {
    const auto scores = scores_of({20, 12, 16, 22}, 0, 0);
    const std::string table = table_of(scores, four(), judge(scores, four()), Effort());
    for (const std::string name : {"ours<&>", "static", "other", "oracle"}) {
        std::size_t rows = 0;
        for (std::size_t at = table.find("\n  " + name + " "); at != std::string::npos;
             at = table.find("\n  " + name + " ", at + 1)) {
            ++rows;
        }
        EXPECT_EQ(rows, name == "ours<&>" ? 2U + 3U : 2U) << name;
    }
    EXPECT_NE(table.find("167 %"), std::string::npos);
    EXPECT_NE(table.find("30.0"), std::string::npos);  // changes a minute
    EXPECT_NE(table.find("0.2 s     0.9 s"), std::string::npos);
}

TEST(BenchPrint, JsonSaysTheSame) {
    const auto scores = scores_of({20, 12, 16, 22}, 0, 0);
    const auto json =
        nlohmann::json::parse(json_of(scores, four(), judge(scores, four()), Effort()));
    EXPECT_EQ(json["best_peer"], "other");
    EXPECT_EQ(json["sets"][0]["policies"]["other"]["zones_at_equal_stalls"], 16);
    EXPECT_EQ(json["sets"][0]["policies"]["ours<&>"]["at_equal_zones"]["stall_to_grant_ms"]["p99"],
              900);
    EXPECT_EQ(json["totals"]["oracle"]["zones_at_equal_stalls"], 22);
    EXPECT_EQ(json["aims"].size(), 3U);
}

// Whether tags are closed in order and no attribute or text breaks out of its place.
testing::AssertionResult is_well_formed(const std::string& xml) {
    std::vector<std::string> open;
    for (std::size_t at = xml.find('<'); at != std::string::npos; at = xml.find('<', at)) {
        const std::size_t end = xml.find('>', at);
        if (end == std::string::npos) {
            return testing::AssertionFailure() << "a tag without end";
        }
        const std::string tag = xml.substr(at + 1, end - at - 1);
        if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 ||
            tag.find('<') != std::string::npos) {
            return testing::AssertionFailure() << "broken: " << tag;
        }
        const std::string name = tag.substr(0, tag.find_first_of(" \n/", tag[0] == '/' ? 1 : 0));
        if (tag[0] == '/') {
            if (open.empty() || "/" + open.back() != name) {
                return testing::AssertionFailure() << "closes nothing: " << tag;
            }
            open.pop_back();
        } else if (tag[0] != '?' && tag.back() != '/') {
            open.push_back(name);
        }
        at = end;
    }
    return open.empty() ? testing::AssertionSuccess()
                        : testing::AssertionFailure() << "never closed: " << open.back();
}

TEST(BenchChart, IsWellFormedAndSaysEveryNumber) {
    const std::string svg = chart_of(scores_of({20, 12, 16, 22}, 0, 0), four());
    EXPECT_TRUE(is_well_formed(svg));
    EXPECT_NE(svg.find("a &quot;set&quot;"), std::string::npos);
    EXPECT_NE(svg.find("ours&lt;&amp;&gt;: 20 zones"), std::string::npos);
    EXPECT_FALSE(is_well_formed("<svg><g></svg></g>"));
}

TEST(BenchPrint, CsvHasAColumnForEachZoneThatEverRan) {
    simulate::Outcome outcome;
    outcome.samples.push_back({1000, 5, {10}, {12}, {11}, {2000}, {0}});
    outcome.samples.push_back({2000, 4, {10, 20}, {12, 22}, {11, 21}, {0, 3000}, {0, 1}});
    EXPECT_EQ(csv_of(outcome),
              "t_s,free_kib,z1_current_kib,z1_target_kib,z1_ease_kib,z1_stalled_ms,z1_kills,"
              "z2_current_kib,z2_target_kib,z2_ease_kib,z2_stalled_ms,z2_kills\n"
              "1,5,10,12,11,2,0,,,,,\n"
              "2,4,10,12,11,0,0,20,22,21,3,1\n");
}

TEST(BenchSets, AreAllThereAndFitTheirHosts) {
    auto sets = generated_sets();
    ASSERT_EQ(sets.size(), 5U);
    sets.push_back(mix_of(sets));
    EXPECT_EQ(sets.back().traces.size(), 30U);
    for (const TraceSet& set : sets) {
        EXPECT_FALSE(set.traces.empty()) << set.name;
        EXPECT_GT(host_for(set, 12).total_kib, host_for(set, 11).total_kib) << set.name;
    }
}

TEST(BenchSets, ARecordedTraceThatIsBrokenIsNamed) {
    const std::string folder = testing::TempDir() + "/xenpack-traces";
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/good.trace") << "xenpack-trace 1\n0 1 1 1 1 1\n10 2 1 1 1 1\n";
    auto sets = recorded_sets(folder);
    ASSERT_TRUE(sets) << sets.error().what;
    ASSERT_EQ(sets->size(), 1U);
    EXPECT_EQ(sets->front().name, "good");
    std::ofstream(folder + "/bad.trace") << "no trace\n";
    sets = recorded_sets(folder);
    ASSERT_FALSE(sets);
    EXPECT_NE(sets.error().what.find("bad.trace"), std::string::npos);
    std::filesystem::remove_all(folder);
    EXPECT_TRUE(recorded_sets(folder)->empty());
}

}  // namespace
}  // namespace xenpack::bench
