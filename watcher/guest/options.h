// SPDX-License-Identifier: LGPL-2.1-or-later
// Options: what xenpack-guest's command line asks for. Pure; main calls it. What it accepts is in
// --help and in xenpack-guest(8), and must be the same in all three.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack::guest {

struct Options {
    enum class Action { run, once, fork, help, version };

    Action action = Action::run;
    std::uint64_t heartbeat_s = 30;  // kHeartbeatMinS to kHeartbeatMaxS
    std::string brake;               // a cgroup v2 directory; empty: no brake
    std::string workload;   // what is frozen for forks; empty: the brake's, if there is one
    unsigned forks = 1;     // beside this zone
    std::string fork_name;  // a pattern; empty: the host's choice
};

// arguments: without the program's name. The last of several equal options holds.
[[nodiscard]] Expected<Options> parse_options(std::span<const char* const> arguments);

[[nodiscard]] std::string_view help_text();

}  // namespace xenpack::guest
