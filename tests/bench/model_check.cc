// SPDX-License-Identifier: LGPL-2.1-or-later
// How far the simulated host is from real Xen: reads what the lab's case "model" wrote down, runs
// the same in virtual time, prints both side by side, and writes the figures as JSON. Called by
// tests/lab/run as that case's judge, or by hand. What is near enough, model/compare.h says.
//
// usage: model_check RESULTS [--out DIR]     DIR: where model.json goes (build/bench)
// exit status: 0 if the two are near enough; 1 if not; 2 if RESULTS cannot be read or used.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "tests/bench/model/compare.h"

namespace {

namespace bench = xenpack::bench;
using xenpack::Expected;
using xenpack::fail;

constexpr std::int64_t kRowEveryMs = 3'000;
constexpr std::uint64_t kMib = 1024;

Expected<std::string> text_of(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    if (!file.good() && !file.eof()) {
        return fail("{}: cannot be read", path);
    }
    return text;
}

void print_machine(const bench::LabRun& run, const bench::Machine& machine) {
    fmt::print("measured in this run and given to the model: balloon {} MiB/s\n",
               machine.balloon_kib_per_s / kMib);
    for (std::size_t i = 0; i < run.zones.size(); ++i) {
        fmt::print("  {}: the guest itself uses {} MiB, and reads {} MiB/s from its disk\n",
                   run.zones[i].name, machine.base_kib[i] / kMib, machine.disk_kib_per_s[i] / kMib);
    }
}

const bench::HostSample& host_at(const bench::Replay& replay, std::int64_t at_ms) {
    std::size_t i = 0;
    while (i + 1 < replay.host.size() && replay.host[i + 1].at_ms <= at_ms) {
        ++i;
    }
    return replay.host[i];
}

// The zone's sample at that time or last before it; null before the first.
const bench::ReplaySample* sample_at(const std::vector<bench::ReplaySample>& samples,
                                     std::int64_t at_ms) {
    const bench::ReplaySample* last = nullptr;
    for (const bench::ReplaySample& sample : samples) {
        if (sample.at_ms > at_ms) {
            break;
        }
        last = &sample;
    }
    return last;
}

void print_zone(const bench::LabZone& zone, const std::vector<bench::ReplaySample>& model,
                std::int64_t at_ms) {
    const bench::ReplaySample* simulated = sample_at(model, at_ms);
    if (simulated == nullptr) {
        return;
    }
    const bench::WorkloadSample& inside = zone.workload_at(at_ms);
    fmt::print(" |{:6} {:6} {:5} {:7} {:5} {:8.1f} {:5.1f}",
               (inside.anon_kib + inside.file_kib) / kMib, zone.at(at_ms).current_kib / kMib,
               simulated->current_kib / kMib, (inside.total_kib - inside.available_kib) / kMib,
               (simulated->total_kib - simulated->available_kib) / kMib,
               static_cast<double>(inside.stall_us) / 1e6,
               static_cast<double>(simulated->stall_us) / 1e6);
}

void print_courses(const bench::LabRun& run, const bench::Replay& replay) {
    fmt::print("\nin MiB, and stalls in seconds so far; each the lab first, then the model\n");
    fmt::print("{:>4} {:>9}", "s", "free");
    for (const bench::LabZone& zone : run.zones) {
        fmt::print(" |{:>6} {:>12} {:>13} {:>14}", zone.name.substr(0, 6), "size", "used",
                   "stalls");
    }
    fmt::print("\n");
    const std::int64_t begin = bench::begin_ms(run);
    for (std::int64_t at = begin; at <= replay.host.back().at_ms; at += kRowEveryMs) {
        fmt::print("{:4} {:4} {:4}", (at - begin) / 1000, run.host_at(at).free_kib / kMib,
                   host_at(replay, at).free_kib / kMib);
        for (std::size_t i = 0; i < run.zones.size(); ++i) {
            print_zone(run.zones[i], replay.zones[i], at);
        }
        fmt::print("\n");
    }
}

nlohmann::json json_of(const bench::Distance& by) {
    return {{"zone", by.zone},
            {"size_mean_kib", by.mean_kib},
            {"size_mean_percent", by.mean_percent},
            {"size_largest_kib", by.largest_kib},
            {"size_largest_at_ms", by.largest_ms},
            {"used_mean_kib", by.used_mean_kib},
            {"overhead_lab_kib", by.overhead_lab_kib},
            {"overhead_model_kib", by.overhead_model_kib},
            {"lag_lab_ms", by.lag_lab_ms},
            {"lag_model_ms", by.lag_model_ms},
            {"stall_lab_ms", by.stall_lab_ms},
            {"stall_model_ms", by.stall_model_ms},
            {"kills_lab", by.kills_lab},
            {"kills_model", by.kills_model}};
}

Expected<void> write_json(const std::string& out, const bench::Machine& machine,
                          const std::vector<bench::Distance>& distances) {
    nlohmann::json zones = nlohmann::json::array();
    for (const bench::Distance& by : distances) {
        zones.push_back(json_of(by));
    }
    const nlohmann::json all = {{"machine",
                                 {{"balloon_kib_per_s", machine.balloon_kib_per_s},
                                  {"base_kib", machine.base_kib},
                                  {"disk_kib_per_s", machine.disk_kib_per_s}}},
                                {"zones", zones}};
    std::error_code ignored;
    std::filesystem::create_directories(out, ignored);
    const std::string path = out + "/model.json";
    std::ofstream file(path);
    file << all.dump(2) << '\n';
    file.flush();
    if (!file) {
        return fail("{}: cannot be written", path);
    }
    return {};
}

// The exit status.
Expected<int> check(const char* results, const std::string& out) {
    const auto text = text_of(results);
    if (!text) {
        return tl::unexpected<xenpack::Error>(text.error());
    }
    const auto run = bench::parse_lab_run(*text);
    if (!run) {
        return tl::unexpected<xenpack::Error>(run.error().during(results));
    }
    const bench::Machine machine = bench::machine_of(*run);
    const bench::Replay replay = bench::replay(*run, machine);
    const std::vector<bench::Distance> distances = bench::distances(*run, replay);
    print_machine(*run, machine);
    print_courses(*run, replay);
    if (const auto written = write_json(out, machine, distances); !written) {
        return tl::unexpected<xenpack::Error>(written.error());
    }
    int status = 0;
    fmt::print("\n");
    for (const bench::Finding& found : bench::judge(distances, *run, bench::bounds())) {
        fmt::print("{} - {}\n", found.good ? "ok" : "FAILED", found.what);
        status = found.good ? status : 1;
    }
    return status;
}

}  // namespace

int main(int argc, char** argv) {
    const bool out_given = argc == 4 && std::string_view(argv[2]) == "--out";
    if (argc != 2 && !out_given) {
        fmt::print(stderr, "usage: model_check RESULTS [--out DIR]\n");
        return 2;
    }
    const auto status = check(argv[1], out_given ? argv[3] : "build/bench");
    if (!status) {
        fmt::print(stderr, "model_check: {}\n", status.error().what);
        return 2;
    }
    return *status;
}
