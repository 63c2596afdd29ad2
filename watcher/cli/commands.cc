// SPDX-License-Identifier: LGPL-2.1-or-later
// The table of commands, which main walks through. A new command is one file, one
// declaration in command.h and one line here.
#include <array>

#include "watcher/cli/command.h"

namespace xenpack {

namespace {

constexpr std::array<MakeCommand, 14> kCommands = {
    make_status_command,   make_events_command,   make_set_command,    make_create_command,
    make_template_command, make_fork_command,     make_pool_command,   make_take_command,
    make_df_command,       make_density_command,  make_reload_command, make_check_config_command,
    make_record_command,   make_simulate_command,
};

}  // namespace

std::span<const MakeCommand> command_table() {
    return kCommands;
}

}  // namespace xenpack
