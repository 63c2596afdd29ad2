// SPDX-License-Identifier: LGPL-2.1-or-later
// The benchmark of memory policies on a simulated host, in virtual time: Xenpack's, the published
// rules of others, and an oracle, on the same zones. Called by make bench-balance, make
// check-bench, and by developers to study one run. It must not decide what is good: verdict.h does.
//
// exit status: 0 if all was measured; with --check 1 if Xenpack's policy holds fewer zones than the
// best peer or nine tenths of the oracle's, or kills what the oracle does not; 2 for a wrong
// command line or a file that cannot be used.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "tests/bench/chart.h"
#include "tests/bench/print.h"

namespace {

using xenpack::Expected;
using xenpack::fail;
namespace bench = xenpack::bench;
namespace simulate = xenpack::simulate;

constexpr std::string_view kUsage =
    "usage: balance_bench [--check] [--traces DIR] [--out DIR] [--set NAME]... [--policy NAME]...\n"
    "       balance_bench --policy NAME --set NAME --zones N [--seed N] [--trace-csv FILE]\n"
    "  --check        PASS and FAIL lines, and an exit status\n"
    "  --traces DIR   recorded traces (tests/bench/traces)\n"
    "  --out DIR      where balance.json and balance.svg go (build/bench)\n"
    "  --set, --policy  only these; --list names them\n"
    "  --zones N      one run with N zones, and its figures\n"
    "  --trace-csv FILE  its samples, one row a second\n";

struct Options {
    bool check = false;
    bool list = false;
    std::string traces = "tests/bench/traces";
    std::string out = "build/bench";
    std::vector<std::string> sets;
    std::vector<std::string> policies;
    std::optional<unsigned> zones;
    std::uint64_t seed = 1;
    std::string trace_csv;
};

template <class Number>
bool read(std::string_view text, Number& number) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

Expected<Options> options_of(const std::vector<std::string_view>& words) {
    Options options;
    for (std::size_t at = 0; at < words.size(); ++at) {
        const std::string_view word = words[at];
        if (word == "--check" || word == "--list") {
            (word == "--check" ? options.check : options.list) = true;
            continue;
        }
        if (at + 1 == words.size()) {
            return fail("{}: not an option, or its value is missing", word);
        }
        const std::string value(words[++at]);
        if (word == "--traces") {
            options.traces = value;
        } else if (word == "--out") {
            options.out = value;
        } else if (word == "--set") {
            options.sets.push_back(value);
        } else if (word == "--policy") {
            options.policies.push_back(value);
        } else if (word == "--trace-csv") {
            options.trace_csv = value;
        } else if (word == "--zones") {
            if (!read(value, options.zones.emplace())) {
                return fail("--zones {}: not a number", value);
            }
        } else if (word == "--seed") {
            if (!read(value, options.seed)) {
                return fail("--seed {}: not a number", value);
            }
        } else {
            return fail("{}: not an option", word);
        }
    }
    return options;
}

// Those that are named, all where none is.
template <class Item, class Name>
Expected<std::vector<Item>> chosen(const std::vector<Item>& all,
                                   const std::vector<std::string>& names, Name name_of) {
    if (names.empty()) {
        return all;
    }
    std::vector<Item> result;
    for (const std::string& name : names) {
        const auto found = std::find_if(all.begin(), all.end(),
                                        [&](const Item& item) { return name_of(item) == name; });
        if (found == all.end()) {
            return fail("there is no {}; --list names what there is", name);
        }
        result.push_back(*found);
    }
    return result;
}

Expected<std::vector<bench::TraceSet>> all_sets(const std::string& folder) {
    std::vector<bench::TraceSet> sets = bench::generated_sets();
    auto recorded = bench::recorded_sets(folder);
    if (!recorded) {
        return tl::unexpected(recorded.error());
    }
    if (recorded->empty()) {
        fmt::print(stderr, "WARNING: no recorded traces in {}: only generated ones are tried\n",
                   folder);
    }
    sets.insert(sets.end(), recorded->begin(), recorded->end());
    const bench::TraceSet mix = bench::mix_of(sets);
    sets.push_back(mix);
    sets.push_back(bench::with_swap(mix));
    return sets;
}

Expected<void> write(const std::string& path, const std::string& text) {
    std::error_code error;
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) {
        std::filesystem::create_directories(folder, error);
    }
    std::ofstream file(path);
    file << text;
    file.close();
    if (!file) {
        return fail("cannot write {}", path);
    }
    return {};
}

// One run, for who tunes a policy.
Expected<void> study(const bench::TraceSet& set, const bench::Contender& contender,
                     const bench::Effort& effort, const Options& options) {
    simulate::Setup setup = bench::setup_for(set, effort);
    setup.zones = *options.zones;
    setup.seed = options.seed;
    setup.sample = !options.trace_csv.empty();
    const auto policy = contender.make();
    const simulate::Outcome outcome = simulate::run(setup, *policy);
    fmt::print(
        "{} on {}, seed {}: {} zones started, {} refused\n"
        "  time lost {:.3f} %, OOM kills {}, held {:.0f} MiB of {:.0f}, needed {:.0f}\n"
        "  target changes {:.2f} per zone and minute, stalls {}, to grant p50 {}, p99 {}\n",
        contender.name, set.name, options.seed, outcome.zones_started, outcome.zones_refused,
        100 * outcome.stalled_share(), outcome.oom_kills, outcome.mean_held_kib / 1024,
        static_cast<double>(setup.host.total_kib) / 1024, outcome.mean_ease_kib / 1024,
        outcome.changes_per_zone_minute(), outcome.stall_to_grant_ms.size(),
        bench::seconds(outcome.stall_to_grant_percentile_ms(0.50)),
        bench::seconds(outcome.stall_to_grant_percentile_ms(0.99)));
    return setup.sample ? write(options.trace_csv, bench::csv_of(outcome)) : Expected<void>();
}

// Lines as tests/check/suite counts them.
int check_lines(const bench::Verdict& verdict) {
    for (const std::string& failure : verdict.failures) {
        fmt::print("FAIL {}\n", failure);
    }
    if (verdict.failures.empty()) {
        fmt::print(
            "PASS as many zones as the best peer\nPASS within 10 % of the oracle's zones\n"
            "PASS no OOM kill that the oracle avoids\n");
    }
    return verdict.failures.empty() ? 0 : 1;
}

Expected<int> compare(const std::vector<bench::TraceSet>& sets,
                      const std::vector<bench::Contender>& contenders, const Options& options) {
    const bench::Effort effort;
    const auto scores = bench::run_all(sets, contenders, effort);
    const bench::Verdict verdict = bench::judge(scores, contenders);
    fmt::print("{}", bench::table_of(scores, contenders, verdict, effort));
    const std::string json = options.out + "/balance.json";
    const std::string svg = options.out + "/balance.svg";
    for (const auto& written : {write(json, bench::json_of(scores, contenders, verdict, effort)),
                                write(svg, bench::chart_of(scores, contenders))}) {
        if (!written) {
            return tl::unexpected(written.error());
        }
    }
    fmt::print("\nwritten to {} and {}\n", json, svg);
    return options.check ? check_lines(verdict) : 0;
}

Expected<int> run(const std::vector<std::string_view>& words) {
    const auto options = options_of(words);
    if (!options) {
        return tl::unexpected(options.error());
    }
    const auto every_set = all_sets(options->traces);
    if (!every_set) {
        return tl::unexpected(every_set.error());
    }
    if (options->list) {
        for (const bench::TraceSet& set : *every_set) {
            fmt::print("set {}\n", set.name);
        }
        for (const bench::Contender& contender : bench::contenders()) {
            fmt::print("policy {}\n", contender.name);
        }
        return 0;
    }
    const auto sets =
        chosen(*every_set, options->sets, [](const bench::TraceSet& set) { return set.name; });
    if (!sets) {
        return tl::unexpected(sets.error());
    }
    const auto contenders = chosen(bench::contenders(), options->policies,
                                   [](const bench::Contender& each) { return each.name; });
    if (!contenders) {
        return tl::unexpected(contenders.error());
    }
    if (!options->zones) {
        return compare(*sets, *contenders, *options);
    }
    for (const bench::TraceSet& set : *sets) {
        for (const bench::Contender& contender : *contenders) {
            const auto studied = study(set, contender, bench::Effort(), *options);
            if (!studied) {
                return tl::unexpected(studied.error());
            }
        }
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto result = run({argv + 1, argv + argc});
    if (!result) {
        fmt::print(stderr, "balance_bench: {}\n{}", result.error().what, kUsage);
        return 2;
    }
    return *result;
}
