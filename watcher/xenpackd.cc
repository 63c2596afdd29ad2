// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpackd's main: parses the command line, makes the rooms, wires them, runs the loop.
// Nothing is decided here.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#ifdef XENPACK_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/watcher.h"

namespace xenpack {
namespace {

struct Options {
    std::string config_path = XENPACK_CONFIG_DIR "/xenpack.conf";
    bool check_config = false;
    LogLevel log_level = LogLevel::info;
};

void notify([[maybe_unused]] const char* state) {
#ifdef XENPACK_HAVE_SYSTEMD
    sd_notify(0, state);
#endif
}

// 0: go on with the options; else exit with *status.
bool parse(int argc, char** argv, Options& options, int& status) {
    CLI::App app{"Gives each Xen zone the memory it needs, out of what others leave unused.",
                 "xenpackd"};
    app.set_version_flag("--version", "xenpackd " XENPACK_VERSION);
    app.add_option("--config", options.config_path, "configuration file")->capture_default_str();
    app.add_flag("--check-config", options.check_config,
                 "read the configuration, say what is wrong with it, and exit");
    const std::map<std::string, LogLevel> levels{{"error", LogLevel::error},
                                                 {"warning", LogLevel::warning},
                                                 {"notice", LogLevel::notice},
                                                 {"info", LogLevel::info},
                                                 {"debug", LogLevel::debug}};
    app.add_option("--log-level", options.log_level, "error, warning, notice, info or debug")
        ->transform(CLI::CheckedTransformer(levels));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        status = app.exit(error) == 0 ? EX_OK : EX_USAGE;
        return false;
    }
    return true;
}

int exit_status(const Error& error) {
    switch (error.code) {
        case ENOEXEC:
            return XENPACK_EXIT_WRONG_HYPERVISOR;
        case EPERM:
        case EACCES:
            return EX_NOPERM;
        default:
            return EX_UNAVAILABLE;
    }
}

int run(const Options& options, const Config& config, const Journal& journal) {
    Loop loop;
    int status = EX_OK;
    const auto leave = [&](int with) {
        status = with;
        loop.stop();
    };
    const auto give_up = [&](const Error& error) {
        journal.log(LogLevel::error, error.what);
        return exit_status(error);
    };

    const auto term = loop.watch_signal(SIGTERM, [&] { leave(EX_OK); });
    const auto interrupt = loop.watch_signal(SIGINT, [&] { leave(EX_OK); });

    auto store = Store::connect(loop, [&] {
        journal.log(LogLevel::error, "the connection to xenstored is lost; exiting");
        leave(EX_UNAVAILABLE);
    });
    if (!store) {
        return give_up(store.error());
    }
    std::error_code ignored;
    const auto run_directory = std::filesystem::path(config.socket_path).parent_path();
    std::filesystem::create_directories(run_directory, ignored);
    auto overrides = OverridesFile::load((run_directory / "settings.json").string());
    if (!overrides) {
        return give_up(overrides.error());
    }
    Watcher watcher(
        {loop, **store, journal}, config, std::move(*overrides),
        [&] { return load_config(options.config_path); },
        [&] {
            journal.log(LogLevel::error, "the toolstack has lost the host; exiting");
            leave(EX_UNAVAILABLE);
        });
    const auto hangup = loop.watch_signal(SIGHUP, [&] {
        notify("RELOADING=1");
        (void)watcher.reload();  // has told the journal
        notify("READY=1");
    });
    auto control = Control::listen(loop, config.socket_path, watcher);
    if (!control) {
        return give_up(control.error());
    }
    if (const auto started = watcher.start(); !started) {
        return give_up(started.error());
    }
    watcher.attach(control->get());
    notify("READY=1");
    loop.run();
    notify("STOPPING=1");
    watcher.attach(nullptr);
    return status;
}

int main_of(int argc, char** argv) {
    Options options;
    int status = EX_OK;
    if (!parse(argc, argv, options, status)) {
        return status;
    }
    const Journal journal(options.log_level);
    const auto config = load_config(options.config_path);
    if (!config) {
        journal.log(LogLevel::error, config.error().what);
        return EX_CONFIG;
    }
    if (options.check_config) {
        return EX_OK;
    }
    return run(options, *config, journal);
}

}  // namespace
}  // namespace xenpack

int main(int argc, char** argv) {
    try {
        return xenpack::main_of(argc, argv);
    } catch (const std::exception& error) {
        fmt::print(stderr, "xenpackd: {}\n", error.what());
        return EX_SOFTWARE;
    }
}
