// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack record: a command, a cgroup or this machine, recorded as a trace. How it is looked at and
// what is made of it is in watcher/record; this is the options, the file and the last words.
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "plugin/sim/trace.h"
#include "watcher/cli/command.h"
#include "watcher/cli/duration.h"
#include "watcher/cli/quantity.h"
#include "watcher/cli/terminal.h"
#include "watcher/cli/text.h"
#include "watcher/files/whole_file.h"
#include "watcher/record/child.h"
#include "watcher/record/derive.h"
#include "watcher/record/recording.h"

namespace xenpack {

namespace {

namespace rec = xenpack::record;

constexpr std::int64_t kShortestIntervalMs = 50;
// Stalls of more than this share of a recording make it one of a program that was short of memory.
constexpr std::uint64_t kStallsToldPercent = 1;
// Columns of a command line that the trace tells.
constexpr std::size_t kLongestOrigin = 200;

struct Options {
    std::string output;
    std::string cgroup;
    bool machine = false;
    std::string length;
    std::string interval = "500ms";
    std::string name;
    std::string origin;
    std::vector<std::string> command;
};

struct Plan {
    std::int64_t interval_ms = 0;
    std::int64_t length_ms = 0;
};

tl::unexpected<Failure> failed(const Error& error) {
    const bool permission = error.code == EACCES || error.code == EPERM;
    return fail_as(permission ? ExitStatus::not_permitted : ExitStatus::failed,
                   error.what + (permission && ::geteuid() != 0 ? "; try it as root" : ""));
}

Result<Plan> make_plan(const Options& options) {
    const int subjects =
        (options.command.empty() ? 0 : 1) + (options.cgroup.empty() ? 0 : 1) + options.machine;
    if (subjects != 1) {
        return fail_as(ExitStatus::usage,
                       "say what to record: one of --cgroup PATH, --machine, or -- COMMAND");
    }
    const auto interval = parse_duration_ms(options.interval);
    if (!interval) {
        return fail_as(ExitStatus::usage, "--interval " + interval.error().what);
    }
    if (*interval < kShortestIntervalMs) {
        return fail_as(ExitStatus::usage,
                       fmt::format("--interval must be at least {}ms", kShortestIntervalMs));
    }
    constexpr auto kMostRows = static_cast<std::int64_t>(sim::kTraceMaxRows);
    const std::int64_t longest = std::min(kLongestMs, *interval * (kMostRows - 1));
    if (options.length.empty()) {
        return Plan{*interval, longest};
    }
    const auto length = parse_duration_ms(options.length);
    if (!length) {
        return fail_as(ExitStatus::usage, "--for " + length.error().what);
    }
    if (*length > longest) {
        return fail_as(ExitStatus::usage,
                       fmt::format("--for {} is more than the {} samples that a trace may have: "
                                   "choose a longer --interval",
                                   options.length, kMostRows));
    }
    return Plan{*interval, *length};
}

std::string joined(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        line += (line.empty() ? "" : " ") + word;
    }
    return line;
}

Expected<rec::Hierarchies> hierarchies_here() {
    const auto mounts = read_file("/proc/self/mountinfo");
    const auto cgroup = read_file("/proc/self/cgroup");
    if (!mounts || !cgroup) {
        return tl::unexpected<Error>(mounts ? cgroup.error() : mounts.error());
    }
    return rec::parse_hierarchies(*mounts, *cgroup);
}

struct Finished {
    rec::Recorded recorded;
    bool saw_touched = false;
};

Expected<Finished> record_place(const rec::Place& place, rec::Recording& recording) {
    rec::Sampler sampler(place);
    auto recorded = recording.run(sampler, std::nullopt);
    if (!recorded) {
        return tl::unexpected<Error>(recorded.error());
    }
    return Finished{std::move(*recorded), sampler.sees_touched()};
}

Expected<Finished> record_command(const std::vector<std::string>& command,
                                  const rec::Hierarchies& hierarchies, rec::Recording& recording) {
    const auto fresh = rec::Fresh::make(hierarchies);
    if (!fresh) {
        return tl::unexpected<Error>(fresh.error());
    }
    const auto child = rec::start_child(command, fresh->entrances());
    if (!child) {
        return tl::unexpected<Error>(child.error());
    }
    rec::Sampler sampler(fresh->place());
    auto recorded = recording.run(sampler, *child);
    if (!recorded) {
        rec::Recorded nothing;
        recording.end_command(nothing, *child);
        return tl::unexpected<Error>(recorded.error());
    }
    recording.end_command(*recorded, *child);
    return Finished{std::move(*recorded), sampler.sees_touched()};
}

Expected<Finished> record_subject(const Options& options, rec::Recording& recording) {
    if (options.machine) {
        return record_place(rec::machine_place(), recording);
    }
    const auto hierarchies = hierarchies_here();
    if (!hierarchies) {
        return tl::unexpected<Error>(hierarchies.error());
    }
    if (!options.command.empty()) {
        return record_command(options.command, *hierarchies, recording);
    }
    const auto place = rec::existing_place(*hierarchies, options.cgroup);
    return place ? record_place(*place, recording)
                 : Expected<Finished>(tl::unexpected<Error>(place.error()));
}

std::string origin_of(const Options& options) {
    if (!options.origin.empty()) {
        return "recorded, " + escaped(options.origin);
    }
    if (options.machine) {
        return "recorded, a whole machine";
    }
    const std::string subject =
        options.command.empty() ? "cgroup " + options.cgroup : joined(options.command);
    return "recorded, " + cut_to(escaped(subject), kLongestOrigin);
}

// What a reader of the trace should know of how it came about.
void warn(const Finished& finished, const sim::Trace& trace) {
    const auto stalled_us = rec::stalled_us(finished.recorded.samples);
    const auto length_us = static_cast<std::uint64_t>(trace.length_ms()) * 1000;
    if (stalled_us && *stalled_us * 100 > length_us * kStallsToldPercent) {
        std::fprintf(stderr,
                     "xenpack: it waited for memory for %s while it was recorded: it would have "
                     "asked for more; record it where there is plenty\n",
                     show_duration(static_cast<std::int64_t>(*stalled_us / 1000)).c_str());
    }
    if (!finished.saw_touched) {
        std::fprintf(stderr,
                     "xenpack: no process' /proc/PID/clear_refs could be written: active_kib is "
                     "all of anon_kib, and cache_kib is without mapped files\n");
    }
}

const char* word_of(rec::End end) {
    switch (end) {
        case rec::End::command_ended:
            return "command ended";
        case rec::End::time_over:
            return "time over";
        case rec::End::interrupted:
            return "interrupted";
        case rec::End::gone:
            return "gone";
    }
    return "";
}

std::string report(const Options& options, const Finished& finished, const sim::Trace& trace,
                   bool json) {
    const auto stalled_us = rec::stalled_us(finished.recorded.samples);
    if (json) {
        nlohmann::json object = {
            {"file", options.output},       {"name", trace.name},
            {"rows", trace.rows.size()},    {"length_ms", trace.length_ms()},
            {"peak_kib", trace.peak_kib()}, {"end", word_of(finished.recorded.end)},
            {"stalled_ms", nullptr}};
        if (stalled_us) {
            object["stalled_ms"] = *stalled_us / 1000;
        }
        return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
    return fmt::format("{}: {} rows over {}, at most {}; {}\n", escaped(options.output),
                       trace.rows.size(), show_duration(trace.length_ms()),
                       show_size(trace.peak_kib()), word_of(finished.recorded.end));
}

// The recording is kept; what is said of the subject.
Result<void> verdict(const Options& options, const rec::Recorded& recorded) {
    if (recorded.end == rec::End::gone) {
        return fail_as(ExitStatus::failed,
                       fmt::format("the recording ended early, and what there was is in {}: {}",
                                   options.output, recorded.why_gone));
    }
    if (recorded.end == rec::End::command_ended) {
        const std::string end = rec::describe_end(*recorded.wait_status);
        if (!end.empty()) {
            return fail_as(ExitStatus::failed,
                           fmt::format("{} {}; the recording is in {}", options.command.front(),
                                       end, options.output));
        }
    }
    return {};
}

class RecordCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "record"; }
    [[nodiscard]] const char* summary() const override {
        return "Record what a command, a cgroup or a machine asks of memory, as a trace";
    }
    [[nodiscard]] const char* examples() const override {
        return "Needs no Xen, but root and cgroups. Ends with the command, after the time of "
               "--for, or when\n"
               "interrupted, and keeps what was recorded. xenpack-trace(5) says how.\n\n"
               "Examples:\n"
               "  xenpack record -o make.trace -- make -j2\n"
               "  xenpack record -o db.trace --cgroup system.slice/postgresql.service --for 10m\n"
               "  xenpack record -o host.trace --machine --for 1h --interval 1s";
    }
    [[nodiscard]] bool needs_daemon() const override { return false; }

    void add_options(CLI::App& app) override {
        app.add_option("-o,--output", options_.output, "The trace to write")
            ->required()
            ->type_name("FILE");
        app.add_option("--cgroup", options_.cgroup,
                       "Record a cgroup and all below it: a folder, or a path below the mount")
            ->type_name("PATH");
        app.add_flag("--machine", options_.machine, "Record all of this machine");
        app.add_option("--for", options_.length, "End after this time; also the command")
            ->type_name("TIME");
        app.add_option("--interval", options_.interval, "Between two rows of the trace")
            ->type_name("TIME")
            ->capture_default_str();
        app.add_option("--name", options_.name, "Of the trace; else the file's")->type_name("NAME");
        app.add_option("--origin", options_.origin, "What was recorded, for readers of the trace")
            ->type_name("TEXT");
        app.add_option("COMMAND", options_.command, "A command to record, in a cgroup of its own")
            ->type_name("");
    }

    Result<void> run(const CommonOptions& common) override {
        const auto plan = make_plan(options_);
        if (!plan) {
            return tl::unexpected<Failure>(plan.error());
        }
        auto file = NewFile::begin(options_.output);
        if (!file) {
            return failed(file.error());
        }
        auto recording = rec::Recording::prepare(plan->interval_ms, plan->length_ms);
        if (!recording) {
            return failed(recording.error());
        }
        const auto finished = record_subject(options_, *recording);
        if (!finished) {
            return failed(finished.error());
        }
        const sim::Trace trace{options_.name.empty()
                                   ? std::filesystem::path(options_.output).stem().string()
                                   : options_.name,
                               origin_of(options_), rec::derive_rows(finished->recorded.samples)};
        if (auto written = file->finish(sim::format_trace(trace)); !written) {
            return failed(written.error());
        }
        warn(*finished, trace);
        if (auto printed = print(report(options_, *finished, trace, common.json)); !printed) {
            return printed;
        }
        return verdict(options_, finished->recorded);
    }

  private:
    Options options_;
};

}  // namespace

std::unique_ptr<Command> make_record_command() {
    return std::make_unique<RecordCommand>();
}

}  // namespace xenpack
