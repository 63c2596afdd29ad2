// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/scenario.h promises: each key does what xenpack-sim(7) says, and each mistake is
// one line with the file and the line.
#include "plugin/sim/scenario.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;

Scenario good(const std::string& text) {
    auto scenario = parse_scenario(text, "f.sim");
    EXPECT_TRUE(scenario) << (scenario ? "" : scenario.error().what);
    return scenario.value_or(Scenario{});
}

std::string mistake_in(const std::string& text) {
    const auto scenario = parse_scenario(text, "f.sim");
    EXPECT_FALSE(scenario) << text;
    if (scenario) {
        return "";
    }
    EXPECT_EQ(scenario.error().code, EINVAL);
    EXPECT_EQ(scenario.error().what.find('\n'), std::string::npos);
    return scenario.error().what;
}

constexpr const char* kZone = "[zone web]\nmemory = 256M\ngenerate = idle\n";

TEST(Scenario, TheBuiltInOneHasThreeZonesThatTogetherWantMoreThanThereIs) {
    const auto scenario = parse_scenario(built_in_scenario(), "built in");
    ASSERT_TRUE(scenario) << scenario.error().what;
    ASSERT_EQ(scenario->zones.size(), 3U);
    std::uint64_t at_start = 0;
    std::uint64_t peaks = 0;
    for (const ZonePlan& zone : scenario->zones) {
        at_start += Host::start_cost_kib(zone.config);
        peaks += zone.trace->peak_kib();
        EXPECT_GT(zone.config.max_memory_kib, zone.trace->peak_kib());
    }
    const HostConfig& host = scenario->host;
    const std::uint64_t for_zones = host.total_kib - host.xen_kib - host.dom0_kib;
    EXPECT_LT(at_start, for_zones);
    EXPECT_GT(peaks, for_zones);
}

TEST(Scenario, ReadsAHost) {
    const Scenario scenario =
        good("# a comment\n[host]\nmemory = 8G ; as the machine\n xen = 100M\ndom0 = 1G\ncpus=8\n");
    EXPECT_EQ(scenario.host.total_kib, 8192 * kMib);
    EXPECT_EQ(scenario.host.xen_kib, 100 * kMib);
    EXPECT_EQ(scenario.host.dom0_kib, 1024 * kMib);
    EXPECT_EQ(scenario.cpus, 8U);
    EXPECT_TRUE(scenario.zones.empty());
}

TEST(Scenario, ReadsAllOfAZone) {
    const Scenario scenario = good(
        "[zone web]\nmemory = 256M\nmaxmem = 1G\nvcpus = 2\nswap = 128M\ndisk = 50M\nalloc = 2G\n"
        "brake = yes\nrepeat = no\nphase = 3s\nidle = 4s\nballoon = dead\nballoon-speed = 512M\n"
        "balloon-offset = 4M\nboot = 500ms\nreporter = garbled\nheartbeat = 1m\nstart = 1s\n"
        "end = 1h\nsave = 10s\nsave-for = 5s\ngenerate = bursts\nbase = 50M\npeak = 150M\n"
        "cache = 8M\nrate = 10M\nhold = 2s\nperiod = 20s\nlength = 2m\nseed = 7\n");
    ASSERT_EQ(scenario.zones.size(), 1U);
    const ZonePlan& zone = scenario.zones[0];
    EXPECT_EQ(zone.name, "web");
    EXPECT_EQ(zone.config.memory_kib, 256 * kMib);
    EXPECT_EQ(zone.config.max_memory_kib, 1024 * kMib);
    EXPECT_EQ(zone.config.vcpus, 2U);
    EXPECT_EQ(zone.config.guest.swap_kib, 128 * kMib);
    EXPECT_EQ(zone.config.guest.disk_kib_per_s, 50 * kMib);
    EXPECT_EQ(zone.config.guest.alloc_kib_per_s, 2048 * kMib);
    EXPECT_TRUE(zone.config.guest.brake);
    EXPECT_FALSE(zone.config.guest.repeat);
    EXPECT_EQ(zone.config.guest.start_at_ms, 3'000);
    EXPECT_EQ(zone.config.guest.idle_until_ms, 4'000);
    EXPECT_TRUE(zone.config.balloon.dead);
    EXPECT_EQ(zone.config.balloon.kib_per_s, 512 * kMib);
    EXPECT_EQ(zone.config.balloon.offset_kib, 4 * 1024);
    EXPECT_EQ(zone.config.balloon.boot_ms, 500);
    EXPECT_EQ(zone.reporter, ReporterHabit::garbled);
    EXPECT_EQ(zone.heartbeat_s, 60U);
    EXPECT_EQ(zone.start_ms, 1'000);
    EXPECT_EQ(zone.end_ms, 3'600'000);
    EXPECT_EQ(zone.save_ms, 10'000);
    EXPECT_EQ(zone.save_for_ms, 5'000);
    EXPECT_EQ(zone.trace->name, "bursts");
    EXPECT_EQ(zone.trace->length_ms(), 120'000);
    EXPECT_EQ(zone.trace->at(0).anon_kib, 50 * kMib);
    EXPECT_EQ(zone.trace->at(0).cache_kib, 8 * kMib);
}

TEST(Scenario, EveryGeneratorMakesATrace) {
    for (const char* name : {"bursts", "day", "idle", "ramp", "sawtooth", "training"}) {
        const Scenario scenario =
            good(std::string("[zone z]\nmemory = 256M\ngenerate = ") + name + "\n");
        ASSERT_EQ(scenario.zones.size(), 1U) << name;
        EXPECT_EQ(scenario.zones[0].trace->name, name);
    }
}

TEST(Scenario, PeakIsWhatIsHeldAtTheTop) {
    const Scenario scenario = good(
        "[zone z]\nmemory = 256M\ngenerate = ramp\nbase = 50M\npeak = 300M\nrise-from = 2s\n"
        "rise-to = 3s\nlength = 9s\n");
    const Trace& trace = *scenario.zones.at(0).trace;
    EXPECT_EQ(trace.at(1'000).anon_kib, 50 * kMib);
    EXPECT_EQ(trace.at(4'000).anon_kib, 300 * kMib);
    EXPECT_EQ(trace.length_ms(), 9'000);
}

TEST(Scenario, CountMakesZonesOfTheSameKindApartInTimeAndSeed) {
    const Scenario scenario = good(
        "[zone w]\nmemory = 64M\ncount = 3\napart = 2s\nstart = 1s\nend = 10s\ngenerate = "
        "bursts\n");
    ASSERT_EQ(scenario.zones.size(), 3U);
    EXPECT_EQ(scenario.zones[0].name, "w-1");
    EXPECT_EQ(scenario.zones[2].name, "w-3");
    EXPECT_EQ(scenario.zones[2].start_ms, 5'000);
    EXPECT_EQ(scenario.zones[2].end_ms, 14'000);
    EXPECT_NE(scenario.zones[0].trace->origin, scenario.zones[1].trace->origin);
}

TEST(Scenario, ATraceIsReadBesideTheScenario) {
    const std::string folder = testing::TempDir();
    std::ofstream(folder + "/t.trace") << "xenpack-trace 1\n0 1000 500 300 0 0\n500 2000 0 0 0 0\n";
    std::ofstream(folder + "/s.sim") << "[zone z]\nmemory = 64M\ncount = 2\ntrace = t.trace\n";
    const auto scenario = load_scenario(folder + "/s.sim");
    ASSERT_TRUE(scenario) << scenario.error().what;
    EXPECT_EQ(scenario->zones.at(0).trace->rows.size(), 2U);
    EXPECT_EQ(scenario->zones[0].trace, scenario->zones.at(1).trace) << "shared";
}

TEST(Scenario, AMistakeInATraceNamesBothLines) {
    const std::string folder = testing::TempDir();
    std::ofstream(folder + "/bad.trace") << "xenpack-trace 1\n0 1000 500 300 0 -1\n";
    const auto scenario =
        parse_scenario("[zone z]\nmemory = 64M\ntrace = bad.trace\n", folder + "/s.sim");
    ASSERT_FALSE(scenario);
    EXPECT_NE(scenario.error().what.find("s.sim:3: the trace bad.trace: line 2"), std::string::npos)
        << scenario.error().what;
}

TEST(Scenario, NamesFileAndLineOfAMistake) {
    const std::string zone = kZone;
    const std::vector<std::pair<std::string, std::string>> cases{
        {"memory = 4G\n", "f.sim:1: memory is above the first section"},
        {"[host\n", "f.sim:1: a section is written"},
        {"[host]\n\nmemory 4G\n", "f.sim:3: a line is a section in brackets, or key = value"},
        {"[host]\nmemory =\n", "f.sim:2: memory has no value"},
        {"[host]\nmemory = 4\n", "f.sim:2: memory = '4' is not a size"},
        {"[host]\nmemory = 1M\n", "f.sim:2: memory = 1M is not from 256M to"},
        {"[host]\nmemory = 1G\nmemory = 1G\n", "f.sim:3: memory is set twice"},
        {"[host]\ndom0 = 4G\n", "f.sim:1: xen and dom0 leave nothing"},
        {"[host]\nmemroy = 4G\n", "f.sim:2: [host] has no use for memroy"},
        {"[host]\n[host]\n", "f.sim:2: [host] is there twice"},
        {"[host x]\n", "f.sim:1: [host] has no name"},
        {"[guest x]\n", "f.sim:1: there is no section [guest]"},
        {"[zone]\n", "f.sim:1: a zone has a name"},
        {"[zone a b]\n", "f.sim:1: a section is written"},
        {"[zone web]\ngenerate = idle\n", "f.sim:1: a zone needs memory"},
        {"[zone web]\nmemory = 64M\n", "f.sim:1: a zone has either trace"},
        {zone + "trace = x\n", "f.sim:3: a zone has either trace"},
        {zone + "maxmem = 64M\n", "f.sim:4: maxmem is under memory"},
        {zone + "brake = maybe\n", "f.sim:4: brake = maybe is none of: no, yes"},
        {zone + "start = 5\n", "f.sim:4: start = 5 is not a time"},
        {zone + "start = 99999999999999999999s\n", "f.sim:4: start = "},
        {zone + "vcpus = -1\n", "f.sim:4: vcpus = -1 is not a whole number"},
        {zone + "vcpus = 2x\n", "f.sim:4: vcpus = 2x is not a whole number"},
        {zone + "start = 5s\nend = 5s\n", "f.sim:5: a zone cannot end before it starts"},
        {zone + "save = 5s\n", "f.sim:4: save and save-for go together"},
        {zone + "peak = 10M\n", "f.sim:4: peak is under base"},
        {zone + "rate = 10M\n", "f.sim:4: [zone web] has no use for rate"},
        {zone + "colour = \x1b[31m\n", "f.sim:4: a control character"},
        {"[zone web]\nmemory = 64M\ntrace = /no/such\n",
         "f.sim:3: the trace /no/such: cannot read"},
        {"[zone web]\nmemory = 64M\ngenerate = noise\n", "f.sim:3: generate = noise is none of"},
        {"[zone w-1]\nmemory=64M\ngenerate=idle\n[zone w]\nmemory=64M\ngenerate=idle\ncount=2\n",
         "f.sim: two zones are named w-1"},
    };
    for (const auto& [text, begins] : cases) {
        EXPECT_EQ(mistake_in(text).substr(0, begins.size()), begins) << text;
    }
}

TEST(Scenario, SaysThatAFileIsNotThere) {
    const auto scenario = load_scenario("/no/such/file");
    ASSERT_FALSE(scenario);
    EXPECT_EQ(scenario.error().code, EINVAL);
    EXPECT_NE(scenario.error().what.find("/no/such/file"), std::string::npos);
}

TEST(Scenario, BoundsTheNumberOfZones) {
    std::string text;
    for (const char* name : {"a", "b"}) {
        text += std::string("[zone ") + name + "]\nmemory = 64M\ncount = 6000\ngenerate = ramp\n";
    }
    EXPECT_NE(mistake_in(text).find("f.sim:5: more than 10000 zones"), std::string::npos);
}

TEST(Scenario, SaysWhatBecomesOfTemplatesAndForks) {
    const Scenario plain = good(kZone);
    EXPECT_TRUE(plain.sharing);
    EXPECT_EQ(plain.zones[0].quiesce, Compliance::works);
    EXPECT_TRUE(plain.zones[0].suspends);
    EXPECT_FALSE(plain.zones[0].forks_end_ms);
    const Scenario told = good("[host]\nsharing = no\n" + std::string(kZone) +
                               "quiesce = fails\nidentity = hangs\nsuspend = hangs\n"
                               "fork-end = 3s\n");
    EXPECT_FALSE(told.sharing);
    EXPECT_EQ(told.zones[0].quiesce, Compliance::fails);
    EXPECT_EQ(told.zones[0].identity, Compliance::hangs);
    EXPECT_FALSE(told.zones[0].suspends);
    EXPECT_EQ(told.zones[0].forks_end_ms, 3'000);
    EXPECT_NE(mistake_in(std::string(kZone) + "suspend = fails\n").find("f.sim:4"),
              std::string::npos);
}

}  // namespace
}  // namespace xenpack::sim
