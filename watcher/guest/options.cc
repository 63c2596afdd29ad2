// SPDX-License-Identifier: LGPL-2.1-or-later
// Options of xenpack-guest, read by hand: the program is too small for a library. main calls it.
#include "watcher/guest/options.h"

#include <optional>

#include "watcher/guest/fork_text.h"
#include "watcher/guest/proc_text.h"
#include "watcher/pressure/report.h"

namespace xenpack::guest {
namespace {

// Walks the arguments; an option's value is behind "=" or is the argument that follows.
class Arguments {
  public:
    explicit Arguments(std::span<const char* const> rest) : rest_(rest) {}

    [[nodiscard]] bool next() {
        if (rest_.empty()) {
            return false;
        }
        const std::string_view word = rest_.front();
        rest_ = rest_.subspan(1);
        const std::size_t equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
        name_ = word.substr(0, equals);
        value_.reset();
        if (equals != std::string_view::npos) {
            value_ = word.substr(equals + 1);
        }
        return true;
    }

    [[nodiscard]] std::string_view name() const { return name_; }
    [[nodiscard]] bool has_value() const { return value_.has_value(); }

    [[nodiscard]] std::optional<std::string_view> take_value() {
        if (!value_ && !rest_.empty()) {
            value_ = rest_.front();
            rest_ = rest_.subspan(1);
        }
        return value_;
    }

  private:
    std::span<const char* const> rest_;
    std::string_view name_;
    std::optional<std::string_view> value_;
};

Expected<void> take_heartbeat(Arguments& arguments, Options& options) {
    const auto seconds = parse_single(arguments.take_value().value_or(""));
    if (!seconds || *seconds < kHeartbeatMinS || *seconds > kHeartbeatMaxS) {
        return fail("--heartbeat needs a number of seconds from {} to {}", kHeartbeatMinS,
                    kHeartbeatMaxS);
    }
    options.heartbeat_s = *seconds;
    return {};
}

Expected<void> take_cgroup(Arguments& arguments, std::string& cgroup) {
    const std::string_view name = arguments.name();
    const auto directory = arguments.take_value();
    if (!directory || !directory->starts_with('/')) {
        return fail("{} needs the path of a cgroup, as in /sys/fs/cgroup/workload", name);
    }
    cgroup = *directory;
    return {};
}

std::optional<Options::Action> action_of(std::string_view name) {
    if (name == "--once") {
        return Options::Action::once;
    }
    if (name == "--help" || name == "-h") {
        return Options::Action::help;
    }
    if (name == "--version") {
        return Options::Action::version;
    }
    return std::nullopt;
}

// fork [N] [--name PATTERN]
Expected<Options> parse_fork(Arguments& arguments) {
    Options options;
    options.action = Options::Action::fork;
    while (arguments.next()) {
        if (arguments.name() == "--name") {
            options.fork_name = arguments.take_value().value_or("");
            if (!is_pattern(options.fork_name)) {
                return fail("--name needs a name with one %d in it, as in web-job-%d");
            }
        } else if (const auto count = parse_single(arguments.name());
                   count && !arguments.has_value()) {
            if (*count < 1 || *count > kMostWished) {
                return fail("fork needs a number of forks from 1 to {}", kMostWished);
            }
            options.forks = static_cast<unsigned>(*count);
        } else if (action_of(arguments.name()) == Options::Action::help && !arguments.has_value()) {
            options.action = Options::Action::help;
            return options;
        } else {
            return fail("unknown argument {} of fork; --help lists them", arguments.name());
        }
    }
    return options;
}

}  // namespace

Expected<Options> parse_options(std::span<const char* const> arguments) {
    Options options;
    Arguments walk(arguments);
    if (!arguments.empty() && std::string_view(arguments.front()) == "fork") {
        (void)walk.next();
        return parse_fork(walk);
    }
    while (walk.next()) {
        Expected<void> taken;
        if (walk.name() == "--heartbeat") {
            taken = take_heartbeat(walk, options);
        } else if (walk.name() == "--brake") {
            taken = take_cgroup(walk, options.brake);
        } else if (walk.name() == "--workload") {
            taken = take_cgroup(walk, options.workload);
        } else if (const auto action = action_of(walk.name()); action && !walk.has_value()) {
            options.action = *action;
        } else {
            return fail("unknown option {}; --help lists them", walk.name());
        }
        if (!taken) {
            return tl::unexpected(taken.error());
        }
    }
    return options;
}

std::string_view help_text() {
    return "usage: xenpack-guest [--heartbeat SECONDS] [--brake CGROUP] [--workload CGROUP]\n"
           "       xenpack-guest --once\n"
           "       xenpack-guest fork [N] [--name PATTERN]\n"
           "\n"
           "Reports this zone's memory to the host it runs on, when it matters and not otherwise:\n"
           "one line in the zone's xenstore directory, data/xenpack/report. Makes the zone quiet "
           "when a\n"
           "template is made of it, and makes a fork of a template a machine of its own.\n"
           "\n"
           "  --heartbeat SECONDS  report at least this often; 1 to 600, else 30\n"
           "  --brake CGROUP       keep memory.high of this cgroup v2 directory a little under "
           "what\n"
           "                       the zone has: a workload in it that allocates faster than the\n"
           "                       host can give is slowed, not killed. Lifted when the zone is "
           "at\n"
           "                       its ceiling, or when no memory came for 10 seconds\n"
           "  --workload CGROUP    freeze this cgroup v2 directory while the zone is quiet, until "
           "a\n"
           "                       fork has its identity; else the --brake group, if there is one\n"
           "  --once               print one report and end; needs no Xen\n"
           "  fork [N]             have this zone forked, where its host allows that: N zones "
           "beside\n"
           "                       it, else 1. Prints 0 in the zone that goes on as this one, "
           "and\n"
           "                       1 to N in the others, each with an identity of its own\n"
           "  --name PATTERN       their names: this zone's own name, \"-\", and more with a %d in "
           "it,\n"
           "                       as in web-job-%d; else web-%d\n"
           "  --help, --version\n"
           "\n"
           "Ends on SIGTERM or SIGINT. Exit status: 0; 64 wrong usage; 69 no xenstore, no\n"
           "/proc/meminfo or no such cgroup, or not forked; 75 not forked now, perhaps later.\n";
}

}  // namespace xenpack::guest
