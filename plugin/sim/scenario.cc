// SPDX-License-Identifier: LGPL-2.1-or-later
// From sections of keys to a scenario; bounds and relations between keys are checked here. Called
// once, when the plugin is opened.
#include "plugin/sim/scenario.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "plugin/sim/keys.h"
#include "plugin/sim/sections.h"
#include "plugin/sim/workload.h"
#include "watcher/pressure/report.h"

namespace xenpack::sim {

namespace {

constexpr std::size_t kMostScenarioBytes = std::size_t{1} << 20;
constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kLeastZoneKib = 32 * kMib;              // below, a kernel would not boot
constexpr std::uint64_t kMostZoneKib = std::uint64_t{1} << 34;  // 16 TiB
constexpr std::uint64_t kMostHostKib = std::uint64_t{1} << 36;  // 64 TiB
constexpr std::int64_t kMostMs = 30LL * 24 * 3'600'000;         // a month

constexpr std::string_view kBuiltIn = R"([host]
memory = 4G
dom0 = 512M

[zone ant]
memory = 512M
maxmem = 3G
brake = yes
generate = ramp
base = 80M
cache = 40M
peak = 1.5G
rise-from = 40s
rise-to = 44s
length = 60s
phase = 30s

[zone bee]
memory = 512M
maxmem = 3G
brake = yes
generate = ramp
base = 80M
cache = 40M
peak = 1.5G
rise-from = 40s
rise-to = 44s
length = 60s
phase = 10s

[zone cat]
memory = 512M
maxmem = 3G
brake = yes
generate = ramp
base = 80M
cache = 40M
peak = 1.5G
rise-from = 40s
rise-to = 44s
length = 60s
phase = 10s
idle = 20s
)";

Expected<void> read_host(Section& section, Scenario& scenario) {
    if (!section.name().empty()) {
        return section.problem("[host] has no name");
    }
    Keys keys(section);
    HostConfig& host = scenario.host;
    keys.size("memory", host.total_kib, 256 * kMib, kMostHostKib);
    keys.size("xen", host.xen_kib, 0, kMostHostKib);
    keys.size("dom0", host.dom0_kib, 0, kMostHostKib);
    keys.number("cpus", scenario.cpus, 1, 4096);
    keys.yes_no("sharing", scenario.sharing);
    if (host.xen_kib + host.dom0_kib >= host.total_kib) {
        keys.refuse("memory", "xen and dom0 leave nothing of memory for zones");
    }
    return keys.done();
}

void read_size(Keys& keys, DomainConfig& config) {
    keys.size("memory", config.memory_kib, kLeastZoneKib, kMostZoneKib);
    if (config.memory_kib == 0) {
        keys.refuse("memory", "a zone needs memory = SIZE");
    }
    config.max_memory_kib = config.memory_kib;
    keys.size("maxmem", config.max_memory_kib, kLeastZoneKib, kMostZoneKib);
    if (config.max_memory_kib < config.memory_kib) {
        keys.refuse("maxmem", "maxmem is under memory");
    }
    keys.number("vcpus", config.vcpus, 1, 512);
}

void read_guest(Keys& keys, GuestConfig& guest) {
    keys.size("swap", guest.swap_kib, 0, kMostZoneKib);
    keys.size("disk", guest.disk_kib_per_s, kMib, kMostZoneKib);
    keys.size("alloc", guest.alloc_kib_per_s, kMib, kMostZoneKib);
    keys.yes_no("brake", guest.brake);
    keys.yes_no("repeat", guest.repeat);
    keys.duration("phase", guest.start_at_ms, 0, kMostMs);
    keys.duration("idle", guest.idle_until_ms, 0, kMostMs);
}

void read_balloon(Keys& keys, BalloonConfig& balloon) {
    static constexpr std::array<std::string_view, 2> kWords{"follows", "dead"};
    if (const auto chosen = keys.word("balloon", kWords)) {
        balloon.dead = *chosen == 1;
    }
    keys.size("balloon-speed", balloon.kib_per_s, kMib, kMostZoneKib);
    std::uint64_t offset_kib = 0;
    keys.size("balloon-offset", offset_kib, 0, kLeastZoneKib);
    balloon.offset_kib = static_cast<std::int64_t>(offset_kib);
    keys.duration("boot", balloon.boot_ms, 0, kMostMs);
}

void read_reporter(Keys& keys, ZonePlan& zone) {
    static constexpr std::array<std::string_view, 6> kWords{"truthful", "silent", "garbled",
                                                            "flooding", "lying",  "dying"};
    static constexpr std::array<ReporterHabit, 6> kHabits{
        ReporterHabit::truthful, ReporterHabit::silent, ReporterHabit::garbled,
        ReporterHabit::flooding, ReporterHabit::lying,  ReporterHabit::dying};
    if (const auto chosen = keys.word("reporter", kWords)) {
        zone.reporter = kHabits[*chosen];
    }
    std::int64_t heartbeat_ms = static_cast<std::int64_t>(zone.heartbeat_s) * 1000;
    keys.duration("heartbeat", heartbeat_ms, kHeartbeatMinS * 1000, kHeartbeatMaxS * 1000);
    zone.heartbeat_s = static_cast<std::uint64_t>(heartbeat_ms) / 1000;
}

void read_compliance(Keys& keys, std::string_view key, Compliance& value) {
    static constexpr std::array<std::string_view, 3> kWords{"works", "fails", "hangs"};
    static constexpr std::array<Compliance, 3> kValues{Compliance::works, Compliance::fails,
                                                       Compliance::hangs};
    if (const auto chosen = keys.word(key, kWords)) {
        value = kValues[*chosen];
    }
}

// As a template, and of its forks.
void read_forking(Keys& keys, ZonePlan& zone) {
    static constexpr std::array<std::string_view, 2> kSuspend{"works", "hangs"};
    read_compliance(keys, "quiesce", zone.quiesce);
    read_compliance(keys, "identity", zone.identity);
    if (const auto chosen = keys.word("suspend", kSuspend)) {
        zone.suspends = *chosen == 0;
    }
    std::int64_t end_ms = -1;
    keys.duration("fork-end", end_ms, 0, kMostMs);
    if (end_ms >= 0) {
        zone.forks_end_ms = end_ms;
    }
    keys.size("fork-writes", zone.config.fork_writes_kib_per_s, 0, kMostZoneKib);
}

struct Repeat {
    unsigned count = 1;
    std::int64_t apart_ms = 0;
};

void read_life(Keys& keys, ZonePlan& zone, Repeat& repeat) {
    keys.duration("start", zone.start_ms, 0, kMostMs);
    std::int64_t end_ms = -1;
    keys.duration("end", end_ms, 0, kMostMs);
    if (end_ms >= 0) {
        zone.end_ms = end_ms;
        if (end_ms <= zone.start_ms) {
            keys.refuse("end", "a zone cannot end before it starts");
        }
    }
    keys.duration("save", zone.save_ms, 0, kMostMs);
    keys.duration("save-for", zone.save_for_ms, 1, kMostMs);
    if ((zone.save_ms > 0) != (zone.save_for_ms > 0)) {
        keys.refuse(zone.save_ms > 0 ? "save" : "save-for", "save and save-for go together");
    }
    keys.number("count", repeat.count, 1, kMostZones);
    keys.duration("apart", repeat.apart_ms, 0, kMostMs / 10'000);
}

Expected<void> read_zone(Section& section, Workloads& workloads, Scenario& scenario) {
    if (section.name().empty()) {
        return section.problem("a zone has a name: [zone NAME]");
    }
    Keys keys(section);
    ZonePlan zone;
    Repeat repeat;
    read_size(keys, zone.config);
    read_guest(keys, zone.config.guest);
    read_balloon(keys, zone.config.balloon);
    read_reporter(keys, zone);
    read_life(keys, zone, repeat);
    read_forking(keys, zone);
    const Workload workload = workloads.read(keys);
    if (auto ok = keys.done(); !ok) {
        return ok;
    }
    if (scenario.zones.size() + repeat.count > kMostZones) {
        return section.problem(fmt::format("more than {} zones", kMostZones));
    }
    for (unsigned n = 0; n < repeat.count; ++n) {
        ZonePlan& one = scenario.zones.emplace_back(zone);
        one.name = repeat.count == 1 ? section.name() : fmt::format("{}-{}", section.name(), n + 1);
        one.trace = workload(n);
        const std::int64_t later_ms = repeat.apart_ms * n;
        one.start_ms += later_ms;
        one.save_ms += later_ms;
        if (one.end_ms) {
            *one.end_ms += later_ms;
        }
    }
    return {};
}

Expected<void> check_names(const Scenario& scenario, const std::string& file) {
    std::set<std::string_view> names;
    for (const ZonePlan& zone : scenario.zones) {
        if (!names.insert(zone.name).second) {
            return fail_with(EINVAL, "{}: two zones are named {}: count names zones too", file,
                             zone.name);
        }
    }
    return {};
}

}  // namespace

std::string_view built_in_scenario() {
    return kBuiltIn;
}

Expected<Scenario> parse_scenario(std::string_view text, const std::string& file) {
    auto sections = parse_sections(text, file);
    if (!sections) {
        return tl::unexpected(sections.error());
    }
    Scenario scenario;
    scenario.host = {4096 * kMib, 64 * kMib, 512 * kMib};
    Workloads workloads(std::filesystem::path(file).parent_path());
    for (Section& section : *sections) {
        Expected<void> ok;
        if (section.kind() == "host") {
            ok = read_host(section, scenario);
        } else if (section.kind() == "zone") {
            ok = read_zone(section, workloads, scenario);
        } else {
            ok = section.problem(fmt::format(
                "there is no section [{}]: only [host] and [zone NAME]", section.kind()));
        }
        if (!ok) {
            return tl::unexpected(ok.error());
        }
    }
    if (auto ok = check_names(scenario, file); !ok) {
        return tl::unexpected(ok.error());
    }
    return scenario;
}

Expected<Scenario> load_scenario(const std::string& path) {
    const auto text = read_file(path, kMostScenarioBytes);
    if (!text) {
        return fail_with(EINVAL, "the scenario that XENPACK_SIM names: {}", text.error().what);
    }
    return parse_scenario(*text, path);
}

}  // namespace xenpack::sim
