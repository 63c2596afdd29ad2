// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack simulate: how many zones fit on a host, and how much they stall, in virtual time. What is
// simulated is in watcher/simulate; this is the options, the traces' files and the output.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <future>
#include <optional>

#include "watcher/cli/command.h"
#include "watcher/cli/duration.h"
#include "watcher/cli/progress_line.h"
#include "watcher/cli/quantity.h"
#include "watcher/cli/simulate_view.h"
#include "watcher/cli/terminal.h"
#include "watcher/config/config.h"
#include "watcher/files/whole_file.h"
#include "watcher/simulate/drawing.h"
#include "watcher/simulate/static_policy.h"
#include "watcher/simulate/workloads.h"
#include "watcher/simulate/xenpack_policy.h"

namespace xenpack {

namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kGib = 1024 * kMib;
// What Xen itself takes of a host: its code, page tables, and a heap of its own.
constexpr std::uint64_t kXenKib = 128 * kMib;
constexpr std::uint64_t kLeastHostKib = 512 * kMib;
constexpr std::uint64_t kMostHostKib = 64 * 1024 * kGib;
// The generated ones differ from zone to zone, as far as this.
constexpr std::uint64_t kVariants = 8;
// The search tries each number of zones with as many beginnings.
constexpr std::array<std::uint64_t, 3> kSeeds = {1, 2, 3};
constexpr unsigned kMostZones = 5'000;

struct Options {
    std::string host;
    std::string dom0;
    std::string swap;
    unsigned zones = 0;
    std::string length = "10m";
    double budget_percent = 1;
    bool compare = false;
    std::string svg;
    std::vector<std::string> traces;
};

struct Plan {
    simulate::Setup setup;
    std::vector<std::string> names;  // of setup.traces
    double stall_budget = 0;
    bool most = false;
};

using SharedTrace = std::shared_ptr<const sim::Trace>;

Result<std::uint64_t> size_option(const std::string& name, const std::string& text,
                                  std::uint64_t least_kib, std::uint64_t most_kib) {
    const auto size = parse_size_kib(text);
    if (!size) {
        return fail_as(ExitStatus::usage, name + ": " + size.error().what);
    }
    if (*size < least_kib || *size > most_kib) {
        return fail_as(ExitStatus::usage, fmt::format("{} {} is out of range: {} to {}", name, text,
                                                      show_size(least_kib), show_size(most_kib)));
    }
    return *size;
}

Result<sim::HostConfig> read_host(const Options& options) {
    const auto total = size_option("--host", options.host, kLeastHostKib, kMostHostKib);
    if (!total) {
        return tl::unexpected<Failure>(total.error());
    }
    sim::HostConfig host{*total, kXenKib, std::min(kGib, *total / 8)};
    if (!options.dom0.empty()) {
        const auto dom0 = size_option("--dom0", options.dom0, 64 * kMib, *total - 2 * kXenKib);
        if (!dom0) {
            return tl::unexpected<Failure>(dom0.error());
        }
        host.dom0_kib = *dom0;
    }
    return host;
}

// A word that is no kind is taken for a file.
std::string no_kind_either() {
    std::string names;
    for (const simulate::Kind& kind : simulate::kinds()) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
    }
    return "; nor is it a kind that is generated, which are " + names;
}

Result<SharedTrace> read_trace(const std::string& path) {
    const auto text = read_file(path);
    if (!text) {
        return fail_as(ExitStatus::failed,
                       text.error().what + (text.error().code == ENOENT ? no_kind_either() : ""));
    }
    auto trace = sim::parse_trace(*text, path);
    if (!trace) {
        return fail_as(ExitStatus::failed, path + ": " + trace.error().what);
    }
    return std::make_shared<const sim::Trace>(std::move(*trace));
}

// Zone after zone takes the next word; a generated one with the next seed each time around.
Result<void> read_traces(const std::vector<std::string>& words, Plan& plan) {
    std::vector<std::optional<simulate::Generator>> generators;
    std::vector<SharedTrace> files;
    for (const std::string& word : words) {
        auto generator = simulate::parse_generator(word);
        if (generator && !*generator) {
            return fail_as(ExitStatus::usage, generator->error().what);
        }
        generators.push_back(generator ? std::optional(**generator) : std::nullopt);
        files.emplace_back();
        if (!generator) {
            auto trace = read_trace(word);
            if (!trace) {
                return tl::unexpected<Failure>(trace.error());
            }
            files.back() = std::move(*trace);
        }
    }
    const bool varies = std::any_of(generators.begin(), generators.end(),
                                    [](const auto& each) { return each.has_value(); });
    for (std::uint64_t seed = 1; seed <= (varies ? kVariants : 1); ++seed) {
        for (std::size_t i = 0; i < words.size(); ++i) {
            plan.setup.traces.push_back(
                generators[i]
                    ? std::make_shared<const sim::Trace>(simulate::generate(*generators[i], seed))
                    : files[i]);
            plan.names.push_back(generators[i] ? words[i] : files[i]->name);
        }
    }
    return {};
}

Result<Plan> make_plan(const Options& options) {
    Plan plan;
    auto host = read_host(options);
    if (!host) {
        return tl::unexpected<Failure>(host.error());
    }
    plan.setup.host = *host;
    const auto length = parse_duration_ms(options.length);
    // In less, what is lost while caches are cold would weigh more than all else.
    if (!length || *length < 60'000 || *length > 7 * 24 * 3'600'000) {
        return fail_as(ExitStatus::usage,
                       length ? "--for must be from 1m to 7d" : "--for " + length.error().what);
    }
    plan.setup.duration_ms = *length;
    if (!options.swap.empty()) {
        const auto swap = size_option("--swap", options.swap, 0, kMostHostKib);
        if (!swap) {
            return tl::unexpected<Failure>(swap.error());
        }
        plan.setup.swap_kib = *swap;
    }
    if (std::isnan(options.budget_percent)) {  // a range that CLI11 checks lets it pass
        return fail_as(ExitStatus::usage, "--stalls nan: a percentage from 0 to 100 is needed");
    }
    plan.stall_budget = options.budget_percent / 100;
    plan.most = options.zones == 0;
    plan.setup.zones = options.zones;
    plan.setup.sample = !options.svg.empty();
    if (auto read = read_traces(options.traces, plan); !read) {
        return tl::unexpected<Failure>(read.error());
    }
    return plan;
}

Simulated simulate_with(const Plan& plan, simulate::MakePolicy make, ProgressLine& line) {
    const std::unique_ptr<simulate::Policy> policy = make();
    Simulated result;
    result.policy = policy->name();
    simulate::Setup setup = plan.setup;
    if (line.wanted()) {
        setup.progress = [&line, name = result.policy](unsigned zones, double share) {
            line.say(fmt::format("{}: {} zones, {:.0f} %", name, zones, share * 100));
        };
    }
    if (plan.most) {
        auto best = simulate::capacity(setup, make, plan.stall_budget,
                                       {kSeeds.begin(), kSeeds.end()}, kMostZones);
        result.zones = best.zones;
        result.outcome = std::move(best.outcome);
    } else {
        result.zones = setup.zones;
        result.outcome = simulate::run(setup, *policy);
    }
    return result;
}

SimulationView simulate_all(const Options& options, const Plan& plan) {
    SimulationView view;
    view.host_kib = plan.setup.host.total_kib;
    view.dom0_kib = plan.setup.host.dom0_kib;
    view.duration_ms = plan.setup.duration_ms;
    view.stall_budget = plan.stall_budget;
    view.most = plan.most;
    view.ceiling = kMostZones;
    view.room_kib = plan.setup.host.total_kib - plan.setup.host.xen_kib - plan.setup.host.dom0_kib;
    const auto ours = simulate::make_xenpack_policy();
    for (const SharedTrace& trace : plan.setup.traces) {
        view.largest_start_kib =
            std::max(view.largest_start_kib,
                     sim::Host::start_cost_kib(ours->zone_config(trace->peak_kib())));
    }
    view.workloads.assign(plan.names.begin(),
                          plan.names.begin() + static_cast<std::ptrdiff_t>(options.traces.size()));
    ProgressLine line;
    // They share nothing but the line, and the traces, which nobody changes.
    auto compared = std::async(options.compare ? std::launch::async : std::launch::deferred, [&] {
        return simulate_with(plan, &simulate::make_static_policy, line);
    });
    view.policies.push_back(simulate_with(plan, &simulate::make_xenpack_policy, line));
    if (options.compare) {
        view.policies.push_back(compared.get());
    }
    return view;
}

std::string drawing_of(const Plan& plan, const SimulationView& view) {
    simulate::Drawing drawing;
    drawing.host_kib = view.host_kib;
    drawing.title = fmt::format("A host of {}: the memory of its zones", show_size(view.host_kib));
    drawing.subtitle = fmt::format("{} of dom0, {} after the last start", show_size(view.dom0_kib),
                                   show_duration(view.duration_ms));
    for (const Simulated& each : view.policies) {
        simulate::Panel panel;
        panel.title = fmt::format("{}: {} zones, {:.2f} % of their time lost to memory, {} killed",
                                  each.policy, each.outcome.zones_started,
                                  each.outcome.stalled_share() * 100, each.outcome.oom_kills);
        panel.outcome = &each.outcome;
        for (const std::size_t trace : each.outcome.follows) {
            panel.workloads.push_back(plan.names[trace]);
        }
        drawing.panels.push_back(std::move(panel));
    }
    return simulate::draw(drawing);
}

std::string examples_text() {
    std::string text =
        "A TRACE is a file of `xenpack record`, or a kind that is generated, with "
        "the most\nmemory it wants, as in bursts:512M:\n";
    for (const simulate::Kind& kind : simulate::kinds()) {
        text += fmt::format("  {:10}{}\n", kind.name, kind.about);
    }
    return text +
           "Zones take the traces in turn; to have more of one, name it again. Needs no Xen.\n"
           "To find the most takes some minutes where that is hundreds.\n\n"
           "Examples:\n"
           "  xenpack simulate --host 64G web.trace web.trace db.trace\n"
           "  xenpack simulate --host 16G --zones 40 --compare --svg host.svg idle:128M bursts:1G";
}

class SimulateCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "simulate"; }
    [[nodiscard]] const char* summary() const override {
        return "Tell how many zones with these traces fit, and how much they would stall";
    }
    [[nodiscard]] const char* examples() const override { return examples_.c_str(); }
    [[nodiscard]] bool needs_daemon() const override { return false; }

    void add_options(CLI::App& app) override {
        app.add_option("TRACE", options_.traces, "What zones do")->required()->type_name("");
        app.add_option("--host", options_.host, "All memory of the host")
            ->required()
            ->type_name("SIZE");
        app.add_option("--dom0", options_.dom0, "Of it dom0's; else an eighth, at most 1G")
            ->type_name("SIZE");
        app.add_option("--zones", options_.zones, "Try so many; else the most that fit are found")
            ->type_name("N")
            ->check(CLI::Range(1U, kMostZones));
        app.add_option("--for", options_.length, "How long they run after the last start")
            ->type_name("TIME")
            ->capture_default_str();
        app.add_option("--stalls", options_.budget_percent,
                       "The most of their time they may lose, in percent")
            ->type_name("PERCENT")
            ->check(CLI::Range(0.0, 100.0))
            ->capture_default_str();
        app.add_option("--swap", options_.swap, "A swap disk in each zone")->type_name("SIZE");
        app.add_flag("--compare", options_.compare, "Also with static sizes, each at its peak");
        app.add_option("--svg", options_.svg, "Draw it")->type_name("FILE");
    }

    Result<void> run(const CommonOptions& common) override {
        const auto plan = make_plan(options_);
        if (!plan) {
            return tl::unexpected<Failure>(plan.error());
        }
        std::optional<NewFile> svg;
        if (!options_.svg.empty()) {
            auto file = NewFile::begin(options_.svg);
            if (!file) {
                return fail_as(ExitStatus::failed, file.error().what);
            }
            svg.emplace(std::move(*file));
        }
        const SimulationView view = simulate_all(options_, *plan);
        if (svg) {
            if (auto drawn = svg->finish(drawing_of(*plan, view)); !drawn) {
                return fail_as(ExitStatus::failed, drawn.error().what);
            }
        }
        return print(common.json ? simulation_json(view).dump(
                                       2, ' ', false, nlohmann::json::error_handler_t::replace) +
                                       "\n"
                                 : render_simulation(view, output_screen()));
    }

  private:
    Options options_;
    std::string examples_ = examples_text();
};

}  // namespace

std::unique_ptr<Command> make_simulate_command() {
    return std::make_unique<SimulateCommand>();
}

}  // namespace xenpack
