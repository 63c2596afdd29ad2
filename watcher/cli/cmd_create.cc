// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack create: `xl create`, once the daemon has promised the memory for it. Having the promise,
// this process becomes xl: what was promised ends with it, by Ctrl-C, by xl's failure, or by its
// success, when the domain has taken it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/dry_run.h"
#include "watcher/cli/program.h"
#include "watcher/cli/start_request.h"
#include "watcher/cli/text.h"

namespace xenpack {

namespace {

class CreateCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "create"; }
    [[nodiscard]] const char* summary() const override {
        return "Start a domain with xl once its memory is there";
    }
    [[nodiscard]] const char* examples() const override {
        return "xenpack create [OPTIONS] CONFIG [xl create's options] [KEY=VALUE...]\n\n"
               "All other options and key=value settings are xl create's, and are passed on as "
               "they "
               "are.\n"
               "Exit status: xl's; 75 where the memory is not there, and nothing was started.\n\n"
               "Examples:\n"
               "  xenpack create /etc/xen/web.cfg\n"
               "  xenpack create web.cfg -c memory=512 'maxmem=2048'\n"
               "  xenpack create --wait 5m batch.cfg\n"
               "  xenpack create --no-wait web.cfg || echo 'not now'";
    }
    [[nodiscard]] bool prints_json() const override { return false; }
    [[nodiscard]] bool passes_on() const override { return true; }

    void add_options(CLI::App& app) override {
        app_ = &app;
        app.allow_extras();
        app.add_option("--wait", options_.wait,
                       "How long to wait for memory, as in 90s or 5m; 1m where not given")
            ->type_name("TIME");
        app.add_flag("--no-wait", options_.no_wait, "Start now or not at all");
        app.add_flag("--without-daemon", without_daemon_,
                     "Where xenpackd does not run: start it all the same, as xl does");
    }

    Result<void> run(const CommonOptions& common) override {
        std::vector<std::string> arguments = app_->remaining();
        arguments.insert(arguments.end(), common.after_dashes.begin(), common.after_dashes.end());
        if (arguments.empty()) {
            return fail_as(ExitStatus::usage, "name the domain's configuration file");
        }
        // So that what is wrong with --wait is said before anything is done.
        if (auto checked = reservation_body(options_, ""); !checked) {
            return tl::unexpected<Failure>(checked.error());
        }
        std::string uuid;
        if (!creates_nothing(arguments)) {
            auto reserved = reserve(common, arguments);
            if (!reserved) {
                return tl::unexpected<Failure>(reserved.error());
            }
            uuid = *reserved;
        }
        return tl::unexpected<Failure>(become_program(create_command(arguments, uuid)));
    }

  private:
    // The uuid of the domain for which memory is kept; empty: for none.
    Result<std::string> reserve(const CommonOptions& common,
                                const std::vector<std::string>& arguments) const {
        auto config = dry_run(arguments);
        if (!config) {
            return config;
        }
        const auto body = reservation_body(options_, *config);
        const auto granted = Client(common.socket).post_and_wait("/v1/reservations", *body);
        if (!granted) {
            if (without_daemon_ && granted.error().status == ExitStatus::daemon_not_running) {
                return std::string();
            }
            return tl::unexpected<Failure>(granted.error());
        }
        const auto& uuid = granted->at("uuid");
        return uuid.is_string() ? uuid.get<std::string>() : std::string();
    }

    const CLI::App* app_ = nullptr;
    StartOptions options_;
    bool without_daemon_ = false;
};

}  // namespace

std::unique_ptr<Command> make_create_command() {
    return std::make_unique<CreateCommand>();
}

}  // namespace xenpack
