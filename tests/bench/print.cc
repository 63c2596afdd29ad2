// SPDX-License-Identifier: LGPL-2.1-or-later
// Texts.
#include "tests/bench/print.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace xenpack::bench {
namespace {

nlohmann::json or_null(std::optional<std::int64_t> ms) {
    return ms ? nlohmann::json(*ms) : nlohmann::json(nullptr);
}

struct Row {
    std::string_view name;
    unsigned zones = 0;
    double to_static = 0;
    double lost = 0;
    std::uint64_t kills = 0;
    unsigned refused = 0;
    double held = 0;
    double changes = 0;
    std::optional<std::int64_t> p50_ms;
    std::optional<std::int64_t> p99_ms;
};

void put(std::string& text, const Row& row) {
    fmt::format_to(
        std::back_inserter(text),
        "  {:<13} {:>6} {:>7.0f} % | {:>8.2f} % {:>7} {:>8} {:>8.2f} {:>9.1f} {:>9} {:>9}\n",
        row.name, row.zones, row.to_static, 100 * row.lost, row.kills, row.refused, row.held,
        row.changes, seconds(row.p50_ms), seconds(row.p99_ms));
}

void put_head(std::string& text, std::string_view left, std::string_view right) {
    fmt::format_to(std::back_inserter(text), "  {:<31}| {}\n", left, right);
    fmt::format_to(std::back_inserter(text),
                   "  {:<13} {:>6} {:>9} | {:>10} {:>7} {:>8} {:>8} {:>9} {:>19}\n", "policy",
                   "zones", "of static", "time lost", "killed", "refused", "memory*", "changes*",
                   "stall to grant*");
}

std::size_t static_of(const std::vector<Contender>& contenders) {
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        if (contenders[who].name == "static") {
            return who;
        }
    }
    return 0;
}

double percent(unsigned part, unsigned whole) {
    return whole == 0 ? 0 : 100.0 * part / whole;
}

void put_set(std::string& text, const SetScores& set, const std::vector<Contender>& contenders) {
    fmt::format_to(std::back_inserter(text), "\n{} (host of {:.1f} GiB)\n", set.set,
                   static_cast<double>(set.host.total_kib) / (1024 * 1024));
    put_head(text, "at equal stalls", fmt::format("at {} zones", set.equal_zones));
    const unsigned fixed = set.scores[static_of(contenders)].zones;
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        const Score& score = set.scores[who];
        const simulate::Outcome& equal = score.equal;
        put(text,
            {contenders[who].name, score.zones, percent(score.zones, fixed), equal.stalled_share(),
             equal.oom_kills, equal.zones_refused, score.held_to_oracle,
             equal.changes_per_zone_minute(), equal.stall_to_grant_percentile_ms(0.50),
             equal.stall_to_grant_percentile_ms(0.99)});
    }
}

nlohmann::json json_of_outcome(const simulate::Outcome& outcome) {
    return {{"zones_started", outcome.zones_started},
            {"zones_refused", outcome.zones_refused},
            {"zone_ms", outcome.zone_ms},
            {"stalled_ms", outcome.stalled_ms},
            {"worked_ms", outcome.worked_ms},
            {"oom_kills", outcome.oom_kills},
            {"target_changes", outcome.target_changes},
            {"target_changes_per_zone_minute", outcome.changes_per_zone_minute()},
            {"mean_held_kib", outcome.mean_held_kib},
            {"mean_ease_kib", outcome.mean_ease_kib},
            {"stall_to_grant_ms",
             {{"count", outcome.stall_to_grant_ms.size()},
              {"p50", or_null(outcome.stall_to_grant_percentile_ms(0.50))},
              {"p99", or_null(outcome.stall_to_grant_percentile_ms(0.99))}}}};
}

}  // namespace

std::string seconds(std::optional<std::int64_t> ms) {
    return ms ? fmt::format("{:.1f} s", static_cast<double>(*ms) / 1000) : "-";
}

std::string table_of(const std::vector<SetScores>& sets, const std::vector<Contender>& contenders,
                     const Verdict& verdict, const Effort& effort) {
    std::string text = fmt::format(
        "Zones per host at equal stalls: the most of which all start, none is killed, and at most\n"
        "{:.0f} % of their time is lost to memory, in each of {} runs of {} s of virtual time. "
        "Each\n"
        "host holds {} zones at the sizes of their peaks. Then the same number of zones for all:\n"
        "the most that any peer fits.\n",
        100 * effort.stall_budget, effort.seeds.size(), effort.duration_ms / 1000,
        effort.static_zones);
    for (const SetScores& set : sets) {
        put_set(text, set, contenders);
    }
    fmt::format_to(std::back_inserter(text), "\nall {} sets\n", sets.size());
    put_head(text, "at equal stalls", "at each set's equal number of zones");
    const unsigned fixed = verdict.totals[static_of(contenders)].zones;
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        const Total& total = verdict.totals[who];
        unsigned refused = 0;
        for (const SetScores& set : sets) {
            refused += set.scores[who].equal.zones_refused;
        }
        put(text, {contenders[who].name, total.zones, percent(total.zones, fixed), total.lost,
                   total.kills, refused, total.held_to_oracle, total.changes_per_zone_minute,
                   total.grant_p50_ms, total.grant_p99_ms});
    }
    text +=
        "\n  * memory held, in proportion to the oracle's; target changes of a zone in a minute; "
        "from "
        "the\n    start of a stall that more memory ends to that memory, p50 and p99.\n\n";
    for (const Aim& aim : verdict.aims) {
        fmt::format_to(std::back_inserter(text), "  {:<14} {:<46} {:>16}   {}\n", aim.policy,
                       aim.text, aim.measured, aim.met ? "met" : "missed");
    }
    return text;
}

std::string json_of(const std::vector<SetScores>& sets, const std::vector<Contender>& contenders,
                    const Verdict& verdict, const Effort& effort) {
    nlohmann::json json = {{"stall_budget", effort.stall_budget},
                           {"duration_ms", effort.duration_ms},
                           {"seeds", effort.seeds},
                           {"static_zones", effort.static_zones},
                           {"best_peer", contenders[verdict.best_peer].name}};
    for (const SetScores& set : sets) {
        nlohmann::json policies = nlohmann::json::object();
        for (std::size_t who = 0; who < contenders.size(); ++who) {
            const Score& score = set.scores[who];
            policies[std::string(contenders[who].name)] = {
                {"zones_at_equal_stalls", score.zones},
                {"memory_to_oracle", score.held_to_oracle},
                {"at_equal_zones", json_of_outcome(score.equal)}};
        }
        json["sets"].push_back({{"name", set.set},
                                {"host_kib", set.host.total_kib},
                                {"equal_zones", set.equal_zones},
                                {"policies", policies}});
    }
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        const Total& total = verdict.totals[who];
        json["totals"][std::string(contenders[who].name)] = {
            {"zones_at_equal_stalls", total.zones},
            {"oom_kills", total.kills},
            {"stalled_share", total.lost},
            {"memory_to_oracle", total.held_to_oracle},
            {"target_changes_per_zone_minute", total.changes_per_zone_minute},
            {"stall_to_grant_ms",
             {{"p50", or_null(total.grant_p50_ms)}, {"p99", or_null(total.grant_p99_ms)}}}};
    }
    for (const Aim& aim : verdict.aims) {
        json["aims"].push_back({{"policy", aim.policy},
                                {"aim", aim.text},
                                {"measured", aim.measured},
                                {"met", aim.met}});
    }
    return json.dump(2) + "\n";
}

std::string csv_of(const simulate::Outcome& outcome) {
    std::string text = "t_s,free_kib";
    const std::size_t zones =
        outcome.samples.empty() ? 0 : outcome.samples.back().current_kib.size();
    for (std::size_t zone = 1; zone <= zones; ++zone) {
        fmt::format_to(std::back_inserter(text),
                       ",z{0}_current_kib,z{0}_target_kib,z{0}_ease_kib,z{0}_stalled_ms,z{0}_kills",
                       zone);
    }
    text += '\n';
    for (const simulate::Sample& sample : outcome.samples) {
        fmt::format_to(std::back_inserter(text), "{},{}", sample.at_ms / 1000, sample.free_kib);
        for (std::size_t zone = 0; zone < zones; ++zone) {
            if (zone >= sample.current_kib.size()) {
                text += ",,,,,";
                continue;
            }
            fmt::format_to(std::back_inserter(text), ",{},{},{},{},{}", sample.current_kib[zone],
                           sample.target_kib[zone], sample.ease_kib[zone],
                           sample.stalled_us[zone] / 1000, sample.oom_kills[zone]);
        }
        text += '\n';
    }
    return text;
}

}  // namespace xenpack::bench
