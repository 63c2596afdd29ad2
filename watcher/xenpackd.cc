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
#include <optional>

#ifdef XENPACK_HAVE_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#include "watcher/daemon_lock.h"
#include "watcher/loop/descriptors.h"
#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/toolstack/toolstack.h"
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
    app.add_option("--config", options.config_path, "configuration file")
        ->type_name("FILE")
        ->capture_default_str();
    app.footer("See xenpackd(8), also for the exit status, and xenpack.conf(5).");
    app.add_flag("--check-config", options.check_config,
                 "read the configuration, say what is wrong with it, and exit");
    const std::map<std::string, LogLevel> levels{{"error", LogLevel::error},
                                                 {"warning", LogLevel::warning},
                                                 {"notice", LogLevel::notice},
                                                 {"info", LogLevel::info},
                                                 {"debug", LogLevel::debug}};
    app.add_option("--log-level", options.log_level, "error, warning, notice, info or debug")
        ->transform(CLI::CheckedTransformer(levels).description(""))
        ->type_name("LEVEL");
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
        case EINVAL:  // what the plugin itself was told to do
            return EX_CONFIG;
        default:
            return EX_UNAVAILABLE;
    }
}

std::string run_directory(const Config& config) {
    return std::filesystem::path(config.socket_path).parent_path().string();
}

Expected<OverridesFile> load_overrides(const Config& config) {
    std::error_code ignored;  // reading the file below says it better
    std::filesystem::create_directories(run_directory(config), ignored);
    return OverridesFile::load(run_directory(config) + "/settings.json");
}

// Beside the socket, and for the host, if it is one: of simulated hosts there may be many.
std::vector<std::string> lock_paths(const Config& config, const PluginObject& plugin) {
    std::vector<std::string> paths{run_directory(config) + "/xenpackd.lock"};
    if (plugin.ops().open_store == nullptr) {
        paths.emplace_back("/run/xenpack/xenpackd.lock");
    }
    return paths;
}

// Everything that lives while the loop runs; destroyed in the opposite order.
class Daemon {
  public:
    Daemon(const Options& options, const Config& config, const Journal& journal)
        : options_(options), config_(config), journal_(journal) {}

    // Returns the exit status.
    int run() {
        const auto term = loop_.watch_signal(SIGTERM, [this] { leave(EX_OK); });
        const auto interrupt = loop_.watch_signal(SIGINT, [this] { leave(EX_OK); });
        const auto hangup = loop_.watch_signal(SIGHUP, [this] { reload(); });
        if (const auto wired = wire(); !wired) {
            journal_.log(LogLevel::error, wired.error().what);
            return exit_status(wired.error());
        }
        notify("READY=1");
        if (status_ == EX_OK) {  // nothing was lost while it was wired
            loop_.run();
        }
        notify("STOPPING=1");
        watcher_->attach(nullptr);
        return status_;
    }

  private:
    Expected<void> wire() {
        auto plugin = PluginObject::load(config_.toolstack);
        if (!plugin) {
            return tl::unexpected(plugin.error());
        }
        plugin_ = std::make_unique<PluginObject>(*plugin);
        auto lock = DaemonLock::take(lock_paths(config_, *plugin_));
        if (!lock) {
            return tl::unexpected(lock.error());
        }
        lock_.emplace(std::move(*lock));
        auto store = plugin_->open_store(loop_, [this] { lose("the connection to xenstored"); });
        if (!store) {
            return tl::unexpected(store.error());
        }
        store_ = std::move(*store);
        auto overrides = load_overrides(config_);
        if (!overrides) {
            return tl::unexpected(overrides.error());
        }
        watcher_ = std::make_unique<Watcher>(
            Watcher::Rooms{loop_, *plugin_, *store_, journal_}, config_, std::move(*overrides),
            [this] { return load_config(options_.config_path); },
            [this] { lose("the toolstack's hold of the host"); });
        auto control = Control::listen(loop_, config_.socket_path, *watcher_);
        if (!control) {
            return tl::unexpected(control.error());
        }
        control_ = std::move(*control);
        if (auto started = watcher_->start(); !started) {
            return started;
        }
        watcher_->attach(control_.get());
        return {};
    }

    void reload() {
        if (watcher_) {
            notify("RELOADING=1");
            (void)watcher_->reload();  // has told the journal
            notify("READY=1");
        }
    }

    void lose(std::string_view what) {
        journal_.log(LogLevel::error, fmt::format("{} is lost; exiting", what));
        leave(EX_UNAVAILABLE);
    }

    void leave(int status) {
        status_ = status;
        loop_.stop();
    }

    const Options& options_;
    const Config& config_;
    const Journal& journal_;
    int status_ = EX_OK;
    Loop loop_;
    std::unique_ptr<PluginObject> plugin_;
    std::optional<DaemonLock> lock_;
    std::unique_ptr<Store> store_;
    std::unique_ptr<Watcher> watcher_;
    std::unique_ptr<Control> control_;
};

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
    raise_descriptor_limit();
    return Daemon(options, *config, journal).run();
}

}  // namespace
}  // namespace xenpack

int main(int argc, char** argv) {
    try {
        return xenpack::main_of(argc, argv);
    } catch (const std::exception& error) {
        (void)std::fprintf(stderr, "xenpackd: %s\n", error.what());
        return EX_SOFTWARE;
    }
}
