// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack: the command line's main. Parses arguments, runs one command of the table, prints its
// failure, and turns it into an exit status. What a command does is in its own file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "watcher/cli/command.h"
#include "watcher/cli/text.h"
#include "watcher/config/config.h"

#ifndef XENPACK_VERSION
#error "the build gives XENPACK_VERSION, a string"
#endif

namespace xenpack {

namespace {

constexpr const char* kFooter = R"(Sizes are a number and one of K, M, G, T, as in 512M or 1.5G.

Exit status:
  0   done
  1   failed
  2   wrong usage
  69  xenpackd is not running
  75  not now: the memory for a start or a fork is not there, too many wait, or no fork
      of a pool stands ready
  77  not permitted
  78  the configuration is bad

Examples:
  xenpack status --watch
  xenpack set web --floor 256M --ceiling 2G
  xenpack create /etc/xen/web.cfg
  xenpack template create web && xenpack fork web -n 3
  xenpack check-config && xenpack reload

See xenpack(1), xenpack.conf(5), xenpackd(8).)";

std::string default_socket() {
    const char* chosen = std::getenv("XENPACK_SOCKET");
    return chosen != nullptr && *chosen != '\0' ? chosen : Config{}.socket_path;
}

int to_int(ExitStatus status) {
    return static_cast<int>(status);
}

std::vector<std::unique_ptr<Command>> add_commands(CLI::App& app, CommonOptions& common) {
    std::vector<std::unique_ptr<Command>> commands;
    for (const MakeCommand make : command_table()) {
        auto command = make();
        CLI::App* sub = app.add_subcommand(command->name(), command->summary());
        sub->footer(command->examples());
        command->add_options(*sub);
        if (command->prints_json()) {
            sub->add_flag("--json", common.json, "Print JSON, with all amounts in KiB");
        }
        if (command->needs_daemon()) {
            sub->add_option("--socket", common.socket, "The daemon's socket; also $XENPACK_SOCKET")
                ->type_name("PATH")
                ->capture_default_str();
        }
        commands.push_back(std::move(command));
    }
    return commands;
}

Result<void> run_chosen(const CLI::App& app, const CommonOptions& common,
                        const std::vector<std::unique_ptr<Command>>& commands) {
    for (const auto& command : commands) {
        if (app.got_subcommand(command->name())) {
            return command->run(common);
        }
    }
    return fail_as(ExitStatus::usage, "no command given");
}

// Takes "--" and what is behind it away from a command that passes arguments on.
std::vector<std::string> take_after_dashes(int& argc, char** argv,
                                           const std::vector<std::unique_ptr<Command>>& commands) {
    const bool passes_on =
        argc > 1 && std::ranges::any_of(commands, [&](const auto& command) {
            return command->passes_on() && argv[1] == std::string(command->name());
        });
    char** const end = argv + argc;
    char** const dashes = passes_on ? std::find(argv, end, std::string_view("--")) : end;
    argc = static_cast<int>(dashes - argv);
    return {dashes, end};
}

int run(int argc, char** argv) {
    CLI::App app("Shows and steers how memory is shared among the zones of this Xen host.",
                 "xenpack");
    app.set_version_flag("--version", "xenpack " XENPACK_VERSION);
    app.require_subcommand(1);
    app.footer(kFooter);
    CommonOptions common{default_socket()};
    const auto commands = add_commands(app, common);
    common.after_dashes = take_after_dashes(argc, argv, commands);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (app.get_subcommands().empty() && app.remaining_size() > 0) {
            std::fprintf(stderr, "xenpack: there is no command %s; xenpack --help lists them\n",
                         escaped(app.remaining().front()).c_str());
            return to_int(ExitStatus::usage);
        }
        return app.exit(error) == 0 ? to_int(ExitStatus::ok) : to_int(ExitStatus::usage);
    }
    const auto result = run_chosen(app, common, commands);
    if (!result) {
        std::fprintf(stderr, "xenpack: %s\n", escaped_lines(result.error().what).c_str());
        return to_int(result.error().status);
    }
    return to_int(ExitStatus::ok);
}

}  // namespace

}  // namespace xenpack

int main(int argc, char** argv) {
    try {
        return xenpack::run(argc, argv);
    } catch (const nlohmann::json::exception& error) {
        std::fprintf(stderr,
                     "xenpack: xenpackd's answer is not as expected (%s): are xenpack and xenpackd "
                     "of one version?\n",
                     error.what());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "xenpack: %s\n", error.what());
    }
    return 1;
}
