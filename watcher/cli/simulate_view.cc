// SPDX-License-Identifier: LGPL-2.1-or-later
// One column for each policy, one line for each figure. Pure.
#include "watcher/cli/simulate_view.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "watcher/cli/duration.h"
#include "watcher/cli/quantity.h"
#include "watcher/cli/text.h"

namespace xenpack {
namespace {

using Cells = std::vector<Table::Cell>;

nlohmann::json or_null(std::optional<std::int64_t> ms) {
    return ms ? nlohmann::json(*ms) : nlohmann::json(nullptr);
}

std::uint64_t whole_kib(double kib) {
    return static_cast<std::uint64_t>(std::llround(kib));
}

std::string grants(const simulate::Outcome& outcome) {
    const auto median_ms = outcome.stall_to_grant_percentile_ms(0.5);
    const auto p99_ms = outcome.stall_to_grant_percentile_ms(0.99);
    return median_ms && p99_ms
               ? fmt::format("{} / {}", show_duration(*median_ms), show_duration(*p99_ms))
               : "-";
}

void add_line(Table& table, const SimulationView& view, const std::string& title,
              const std::function<Table::Cell(const Simulated&)>& cell) {
    Cells cells{{title}};
    for (const Simulated& each : view.policies) {
        cells.push_back(cell(each));
    }
    table.add_row(std::move(cells));
}

Table::Cell bad_if(bool bad, std::string text) {
    return {std::move(text), bad ? Colour::red : Colour::none};
}

bool nothing_ran(const Simulated& simulated) {
    return simulated.outcome.zone_ms == 0;
}

std::string head(const SimulationView& view) {
    std::string zones;
    for (const std::string& each : view.workloads) {
        zones += (zones.empty() ? "" : ", ") + escaped(each);
    }
    return fmt::format(
        "A host of {}, {} of it dom0's; zones in turn: {}.\n{} after the last "
        "start.{}\n\n",
        show_size(view.host_kib), show_size(view.dom0_kib), zones, show_duration(view.duration_ms),
        view.most ? fmt::format(" So many fit that all start, none is killed, and at most {:g} % "
                                "of their time is lost to memory.",
                                view.stall_budget * 100)
                  : std::string());
}

std::string count_of_zones(unsigned zones) {
    return fmt::format("{} zone{}", zones, zones == 1 ? "" : "s");
}

// Why not all could start.
std::string no_room(const SimulationView& view) {
    return fmt::format("a zone takes up to {} as it starts, and the host has {} for zones",
                       show_size(view.largest_start_kib), show_size(view.room_kib));
}

std::string conclusion(const SimulationView& view) {
    const Simulated& ours = view.policies.front();
    if (view.most && ours.zones == 0) {
        return view.largest_start_kib > view.room_kib
                   ? fmt::format("\nNot one zone fits: {}.\n", no_room(view))
                   : "\nNot one zone fits: with --zones 1 it is told what happens.\n";
    }
    if (view.most && ours.zones >= view.ceiling) {
        return fmt::format(
            "\nMore may fit: the search ends at {}, the most zones that are simulated.\n",
            view.ceiling);
    }
    if (view.most || fits(ours, view.stall_budget)) {
        return {};
    }
    if (ours.outcome.zones_started < ours.zones) {
        return fmt::format("\n{} found no room to start within a minute: {}.\n",
                           count_of_zones(ours.zones - ours.outcome.zones_started), no_room(view));
    }
    if (ours.outcome.oom_kills > 0) {
        return fmt::format("\n{} {} too many for {}: workloads are killed.\n",
                           count_of_zones(ours.zones), ours.zones == 1 ? "is" : "are",
                           escaped(ours.policy));
    }
    return fmt::format("\n{} {} too many for {}, if at most {:g} % of their time may be lost.\n",
                       count_of_zones(ours.zones), ours.zones == 1 ? "is" : "are",
                       escaped(ours.policy), view.stall_budget * 100);
}

}  // namespace

bool fits(const Simulated& simulated, double stall_budget) {
    const simulate::Outcome& outcome = simulated.outcome;
    return outcome.zones_started == simulated.zones && outcome.oom_kills == 0 &&
           outcome.stalled_share() <= stall_budget;
}

std::string render_simulation(const SimulationView& view, const Screen& screen) {
    std::vector<Table::Column> columns{{""}};
    for (const Simulated& each : view.policies) {
        columns.push_back({escaped(each.policy), Table::Align::right});
    }
    Table table(std::move(columns));
    if (view.most) {
        add_line(table, view, "zones that fit",
                 [](const Simulated& each) { return Table::Cell{std::to_string(each.zones)}; });
    } else {
        add_line(table, view, "zones started", [](const Simulated& each) {
            return bad_if(each.outcome.zones_started < each.zones,
                          fmt::format("{} of {}", each.outcome.zones_started, each.zones));
        });
    }
    add_line(table, view, "time lost to memory", [&view](const Simulated& each) {
        if (nothing_ran(each)) {
            return Table::Cell{"-"};
        }
        const double share = each.outcome.stalled_share();
        return bad_if(share > view.stall_budget, fmt::format("{:.2f} %", share * 100));
    });
    add_line(table, view, "killed for lack of memory", [](const Simulated& each) {
        return bad_if(each.outcome.oom_kills > 0, std::to_string(each.outcome.oom_kills));
    });
    add_line(table, view, "held by zones, on average", [](const Simulated& each) {
        return Table::Cell{nothing_ran(each) ? "-"
                                             : show_size(whole_kib(each.outcome.mean_held_kib))};
    });
    add_line(table, view, "needed by them not to stall", [](const Simulated& each) {
        return Table::Cell{nothing_ran(each) ? "-"
                                             : show_size(whole_kib(each.outcome.mean_ease_kib))};
    });
    add_line(table, view, "from a stall to its memory, median / 99 %",
             [](const Simulated& each) { return Table::Cell{grants(each.outcome)}; });
    add_line(table, view, "target changes per zone and minute", [](const Simulated& each) {
        return Table::Cell{nothing_ran(each)
                               ? "-"
                               : fmt::format("{:.1f}", each.outcome.changes_per_zone_minute())};
    });
    return head(view) + table.render(screen) + conclusion(view);
}

nlohmann::json simulation_json(const SimulationView& view) {
    nlohmann::json policies = nlohmann::json::array();
    for (const Simulated& each : view.policies) {
        const simulate::Outcome& outcome = each.outcome;
        policies.push_back({{"policy", each.policy},
                            {"zones", each.zones},
                            {"fits", each.zones > 0 && fits(each, view.stall_budget)},
                            {"zones_started", outcome.zones_started},
                            {"zones_refused", outcome.zones_refused},
                            {"stalled_share", outcome.stalled_share()},
                            {"oom_kills", outcome.oom_kills},
                            {"mean_held_kib", whole_kib(outcome.mean_held_kib)},
                            {"mean_needed_kib", whole_kib(outcome.mean_ease_kib)},
                            {"target_changes_per_zone_minute", outcome.changes_per_zone_minute()},
                            {"stall_to_grant_ms",
                             {{"count", outcome.stall_to_grant_ms.size()},
                              {"median", or_null(outcome.stall_to_grant_percentile_ms(0.5))},
                              {"p99", or_null(outcome.stall_to_grant_percentile_ms(0.99))}}}});
    }
    return {{"host_kib", view.host_kib},       {"dom0_kib", view.dom0_kib},
            {"duration_ms", view.duration_ms}, {"stall_budget", view.stall_budget},
            {"searched", view.most},           {"workloads", view.workloads},
            {"policies", std::move(policies)}};
}

}  // namespace xenpack
