// SPDX-License-Identifier: LGPL-2.1-or-later
// What `xenpack simulate` prints, the workloads it knows by name, static sizes, and times in text.
#include <gtest/gtest.h>

#include "watcher/cli/duration.h"
#include "watcher/cli/simulate_view.h"
#include "watcher/fork/asked.h"
#include "watcher/simulate/static_policy.h"
#include "watcher/simulate/workloads.h"

namespace xenpack {
namespace {

Simulated simulated(unsigned zones, unsigned started, std::uint64_t stalled_ms) {
    Simulated result;
    result.policy = "xenpack";
    result.zones = zones;
    result.outcome.zones_started = started;
    result.outcome.zones_refused = zones - started;
    result.outcome.zone_ms = 1'000'000;
    result.outcome.stalled_ms = stalled_ms;
    result.outcome.target_changes = 100;
    result.outcome.stall_to_grant_ms = {300, 100, 200, 90'000};
    return result;
}

SimulationView view_of(Simulated one, bool most) {
    SimulationView view;
    view.host_kib = 64 * 1024 * 1024;
    view.dom0_kib = 1024 * 1024;
    view.duration_ms = 600'000;
    view.stall_budget = 0.01;
    view.most = most;
    view.ceiling = 5'000;
    view.workloads = {"web", "bad\nname"};
    view.policies = {std::move(one)};
    return view;
}

TEST(SimulateView, ShowsTheMostZonesAndWhatTheyLose) {
    const std::string text = render_simulation(view_of(simulated(42, 42, 2'500), true), {});
    EXPECT_NE(text.find("A host of 64G, 1G of it dom0's; zones in turn: web, bad\\x0aname."),
              std::string::npos)
        << text;
    EXPECT_TRUE(text.find("zones that fit") < text.find("42"));
    EXPECT_NE(text.find("0.25 %"), std::string::npos);
    EXPECT_NE(text.find("0.2s / 1m 30s"), std::string::npos) << text;
    EXPECT_NE(text.find("6.0"), std::string::npos);
    EXPECT_EQ(text.find("too many"), std::string::npos);
}

TEST(SimulateView, SaysThatSoManyAreTooMany) {
    EXPECT_NE(render_simulation(view_of(simulated(42, 40, 0), false), {}).find("40 of 42"),
              std::string::npos);
    EXPECT_NE(render_simulation(view_of(simulated(42, 42, 20'000), false), {})
                  .find("42 zones are too many for xenpack, if at most 1 % of their time"),
              std::string::npos);
    EXPECT_NE(render_simulation(view_of(simulated(1, 1, 20'000), false), {})
                  .find("1 zone is too many for xenpack, if"),
              std::string::npos);
    Simulated killed = simulated(42, 42, 0);
    killed.outcome.oom_kills = 1;
    EXPECT_NE(render_simulation(view_of(killed, false), {})
                  .find("42 zones are too many for xenpack: workloads are killed"),
              std::string::npos);
}

TEST(SimulateView, SaysWhyZonesCouldNotStart) {
    SimulationView view = view_of(simulated(42, 40, 0), false);
    view.room_kib = 3 * 1024 * 1024;
    view.largest_start_kib = 512 * 1024;
    EXPECT_NE(render_simulation(view, {}).find(
                  "2 zones found no room to start within a minute: a zone takes up to 512M "
                  "as it starts, and the host has 3G for zones."),
              std::string::npos)
        << render_simulation(view, {});
}

TEST(SimulateView, SaysThatTheSearchEndedBeforeTheHostWasFull) {
    const std::string text = render_simulation(view_of(simulated(5'000, 5'000, 0), true), {});
    EXPECT_NE(text.find("the search ends at 5000"), std::string::npos);
}

TEST(SimulateView, SaysThatNotEvenOneFits) {
    SimulationView view = view_of(simulated(0, 0, 0), true);
    EXPECT_NE(render_simulation(view, {}).find("Not one zone fits: with --zones 1"),
              std::string::npos);
    view.room_kib = 512 * 1024;
    view.largest_start_kib = 1024 * 1024;
    EXPECT_NE(render_simulation(view, {}).find("Not one zone fits: a zone takes up to 1G"),
              std::string::npos);
}

TEST(SimulateView, GivesProgramsPlainNumbers) {
    const nlohmann::json json = simulation_json(view_of(simulated(42, 42, 2'500), true));
    EXPECT_EQ(json["host_kib"], 64 * 1024 * 1024);
    EXPECT_EQ(json["searched"], true);
    const nlohmann::json& ours = json["policies"][0];
    EXPECT_EQ(ours["zones"], 42);
    EXPECT_EQ(ours["fits"], true);
    EXPECT_DOUBLE_EQ(ours["stalled_share"], 0.0025);
    EXPECT_EQ(ours["stall_to_grant_ms"]["median"], 200);
    SimulationView calm = view_of(simulated(42, 41, 0), false);
    calm.policies[0].outcome.stall_to_grant_ms.clear();
    EXPECT_EQ(simulation_json(calm)["policies"][0]["stall_to_grant_ms"]["p99"], nullptr);
    EXPECT_EQ(simulation_json(view_of(simulated(42, 41, 0), false))["policies"][0]["fits"], false);
    EXPECT_EQ(simulation_json(view_of(simulated(0, 0, 0), true))["policies"][0]["fits"], false);
}

TEST(Workloads, ScalesAGeneratedTraceToItsPeak) {
    for (const simulate::Kind& kind : simulate::kinds()) {
        for (const std::uint64_t mib : {16U, 300U, 70'000U}) {
            const auto generator = simulate::parse_generator(fmt::format("{}:{}M", kind.name, mib));
            ASSERT_TRUE(generator && *generator) << kind.name;
            const sim::Trace trace = simulate::generate(**generator, 3);
            EXPECT_EQ(trace.peak_kib(), mib * 1024) << kind.name;
            for (const sim::TraceRow& row : trace.rows) {
                ASSERT_LE(row.demand.active_kib, row.demand.anon_kib) << kind.name;
            }
        }
    }
}

TEST(Workloads, TellsAKindFromAFile) {
    EXPECT_FALSE(simulate::parse_generator("web.trace"));
    EXPECT_FALSE(simulate::parse_generator("./idle"));
    EXPECT_FALSE(simulate::parse_generator(""));
    EXPECT_TRUE(simulate::parse_generator("idle")->has_value());
    for (const char* bad : {"idle:", "idle:much", "idle:1K", "idle:900T"}) {
        const auto parsed = simulate::parse_generator(bad);
        ASSERT_TRUE(parsed) << bad;
        EXPECT_FALSE(*parsed) << bad;
    }
}

TEST(Workloads, DifferBySeed) {
    const simulate::Generator generator{"bursts", std::nullopt};
    EXPECT_NE(sim::format_trace(simulate::generate(generator, 1)),
              sim::format_trace(simulate::generate(generator, 2)));
}

TEST(StaticSizes, NeverLackMemoryNorWasteMuch) {
    constexpr std::uint64_t kPeakKib = 512 * 1024;
    auto trace = std::make_shared<sim::Trace>();
    trace->rows.push_back({0, {kPeakKib, kPeakKib, 0, 0, 0}});
    const std::uint64_t size_kib = simulate::size_for_peak_kib(kPeakKib);
    sim::GuestConfig config;
    config.static_max_kib = size_kib;
    EXPECT_LE(sim::Guest(config, trace).ease_kib(0), size_kib);
    // Its kernel takes a tenth and watermarks of 5 % and a quarter more.
    EXPECT_LT(size_kib, kPeakKib + kPeakKib / 4);
    const auto policy = simulate::make_static_policy();
    EXPECT_EQ(policy->zone_config(kPeakKib).memory_kib, size_kib);
    EXPECT_EQ(policy->zone_config(kPeakKib).max_memory_kib, size_kib);
}

TEST(Duration, ReadsUnitsAndRefusesTheRest) {
    EXPECT_EQ(parse_duration_ms("500ms"), 500);
    EXPECT_EQ(parse_timeout_ms("100ms"), kAnswerLeastMs);
    EXPECT_EQ(parse_timeout_ms("1h"), kAnswerMostMs);
    for (const char* bad : {"99ms", "3600001ms", "99d", "soon"}) {
        EXPECT_FALSE(parse_timeout_ms(bad)) << bad;
    }
    EXPECT_EQ(parse_timeout_ms("99d").error().what, "'99d' is not between 100ms and 1h");
    EXPECT_EQ(parse_duration_ms("90s"), 90'000);
    EXPECT_EQ(parse_duration_ms("5m"), 300'000);
    EXPECT_EQ(parse_duration_ms("1h"), 3'600'000);
    EXPECT_EQ(parse_duration_ms("366d"), kLongestMs);
    for (const char* bad : {"", "5", "0s", "-1s", "1.5h", "s", "5 m", "5M", "367d",
                            "99999999999999999999s", "9223372036854775807h"}) {
        EXPECT_FALSE(parse_duration_ms(bad)) << bad;
    }
}

TEST(Duration, IsShownShort) {
    EXPECT_EQ(show_duration(0), "0.0s");
    EXPECT_EQ(show_duration(59'500), "59.5s");
    EXPECT_EQ(show_duration(156'400), "2m 36s");
    EXPECT_EQ(show_duration(3'900'000), "1h 05m");
    EXPECT_EQ(show_duration(600'000), "10m");
    EXPECT_EQ(show_duration(7'200'000), "2h");
}

}  // namespace
}  // namespace xenpack
