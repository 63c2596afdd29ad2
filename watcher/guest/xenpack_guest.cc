// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack-guest: the reporter inside a zone. main: options, keeping itself alive when memory is
// short, and the exit status.
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string>

#include "watcher/guest/fork_call.h"
#include "watcher/guest/options.h"
#include "watcher/guest/reporter.h"
#include "watcher/guest/say.h"
#include "watcher/guest/text_file.h"

#ifndef XENPACK_VERSION
#define XENPACK_VERSION "development"
#endif

namespace {

using xenpack::guest::Options;
using xenpack::guest::say;

// From <sysexits.h>.
constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;
constexpr int kExitNotNow = 75;

int print(std::string_view text) {
    const ssize_t r = ::write(STDOUT_FILENO, text.data(), text.size());
    return r == static_cast<ssize_t>(text.size()) ? 0 : kExitUnavailable;
}

// The reporter is needed most when memory is short: the OOM killer shall pass it by, and its pages
// shall stay. Both need privileges, and neither is worth failing for.
void outlive_shortage() {
    const auto score = xenpack::guest::TextFile::open("/proc/self/oom_score_adj", O_WRONLY);
    const auto hidden = score ? score->write("-1000") : tl::unexpected(score.error());
    if (!hidden) {
        say("cannot hide from the out-of-memory killer: {}", hidden.error().what);
    }
    // One heap for all threads: another would reserve, and lock, 64 MiB of addresses.
    ::mallopt(M_ARENA_MAX, 1);
    // Its pages as they are now, and later ones as they are touched: not whole thread stacks.
    if (::mlockall(MCL_CURRENT) != 0 || ::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        say("cannot lock the reporter's memory; going on without");
    }
}

int once(const Options& options) {
    const auto line = xenpack::guest::report_once("/proc", options.heartbeat_s);
    if (!line) {
        say("{}", line.error().what);
        return kExitUnavailable;
    }
    return print(*line + "\n");
}

int run(const Options& options) {
    outlive_shortage();
    auto reporter = xenpack::guest::Reporter::start(options);
    if (!reporter) {
        say("{}", reporter.error().what);
        return kExitUnavailable;
    }
    const auto ended = (*reporter)->run();
    if (!ended) {
        say("{}", ended.error().what);
        return kExitUnavailable;
    }
    return 0;
}

int fork_this_zone(const Options& options) {
    const auto index = xenpack::guest::run_fork_call(options.forks, options.fork_name);
    if (!index) {
        say("fork: {}", index.error().what);
        return index.error().code == EAGAIN ? kExitNotNow : kExitUnavailable;
    }
    return print(std::to_string(*index) + "\n");
}

int act(const Options& options) {
    switch (options.action) {
        case Options::Action::run:
            return run(options);
        case Options::Action::once:
            return once(options);
        case Options::Action::fork:
            return fork_this_zone(options);
        case Options::Action::help:
            return print(xenpack::guest::help_text());
        case Options::Action::version:
            return print("xenpack-guest " XENPACK_VERSION "\n");
    }
    return kExitUsage;  // unreachable: the switch names every value
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<const char* const> arguments(argv, static_cast<std::size_t>(argc));
    const auto options = xenpack::guest::parse_options(arguments.subspan(argc > 0 ? 1 : 0));
    if (!options) {
        say("{}", options.error().what);
        return kExitUsage;
    }
    // Past the destructors of statics: a thread may still wait for xenstore.
    ::_exit(act(*options));
}
