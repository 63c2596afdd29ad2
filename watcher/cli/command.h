// SPDX-License-Identifier: LGPL-2.1-or-later
// Command: one verb of `xenpack`. Each has a file of its own and a line in the table of
// commands.cc. A command prints its result on standard output and returns its failure; main prints
// that.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "watcher/cli/failure.h"

namespace CLI {
class App;
}

namespace xenpack {

// Options that several commands share.
struct CommonOptions {
    std::string socket;  // of the daemon
    bool json = false;
    std::vector<std::string>
        after_dashes{};  // "--" and all behind it, for a command that passes on
};

class Command {
  public:
    virtual ~Command() = default;
    [[nodiscard]] virtual const char* name() const = 0;
    [[nodiscard]] virtual const char* summary() const = 0;
    [[nodiscard]] virtual const char* examples() const = 0;  // shown below its --help
    [[nodiscard]] virtual bool needs_daemon() const { return true; }
    [[nodiscard]] virtual bool prints_json() const { return true; }
    // What it does not know is another program's, "--" and all.
    [[nodiscard]] virtual bool passes_on() const { return false; }
    virtual void add_options(CLI::App& app) = 0;
    // Called once, after the options have been parsed into the command.
    [[nodiscard]] virtual Result<void> run(const CommonOptions& common) = 0;
};

using MakeCommand = std::unique_ptr<Command> (*)();

// In the order of the help.
[[nodiscard]] std::span<const MakeCommand> command_table();

[[nodiscard]] std::unique_ptr<Command> make_status_command();
[[nodiscard]] std::unique_ptr<Command> make_events_command();
[[nodiscard]] std::unique_ptr<Command> make_set_command();
[[nodiscard]] std::unique_ptr<Command> make_create_command();
[[nodiscard]] std::unique_ptr<Command> make_template_command();
[[nodiscard]] std::unique_ptr<Command> make_fork_command();
[[nodiscard]] std::unique_ptr<Command> make_pool_command();
[[nodiscard]] std::unique_ptr<Command> make_take_command();
[[nodiscard]] std::unique_ptr<Command> make_df_command();
[[nodiscard]] std::unique_ptr<Command> make_density_command();
[[nodiscard]] std::unique_ptr<Command> make_reload_command();
[[nodiscard]] std::unique_ptr<Command> make_check_config_command();
[[nodiscard]] std::unique_ptr<Command> make_record_command();
[[nodiscard]] std::unique_ptr<Command> make_simulate_command();

}  // namespace xenpack
