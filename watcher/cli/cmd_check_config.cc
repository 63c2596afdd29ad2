// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack check-config: what the daemon would say of a configuration file. Needs no daemon,
// and must read the file by the same path as the daemon does.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>

#include "watcher/cli/command.h"
#include "watcher/cli/config_view.h"
#include "watcher/cli/terminal.h"
#include "watcher/config/config.h"

#ifndef XENPACK_CONFIG_DIR
#error "the build gives XENPACK_CONFIG_DIR, the directory of xenpack.conf"
#endif

namespace xenpack {

namespace {

// Code 0 is a file that was read and refused; else it could not be read.
ExitStatus status_of(const Error& error) {
    switch (error.code) {
        case 0:
            return ExitStatus::bad_configuration;
        case EACCES:
        case EPERM:
            return ExitStatus::not_permitted;
        default:
            return ExitStatus::failed;
    }
}

class CheckConfigCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "check-config"; }
    [[nodiscard]] const char* summary() const override {
        return "Check a configuration file, without the daemon";
    }
    [[nodiscard]] const char* examples() const override {
        return "Every problem is named with its line; the status is then 78.\n\n"
               "Examples:\n"
               "  xenpack check-config\n"
               "  xenpack check-config ./xenpack.conf";
    }
    [[nodiscard]] bool needs_daemon() const override { return false; }

    void add_options(CLI::App& app) override {
        app.add_option("FILE", file_, "The file to check")->type_name("")->capture_default_str();
    }

    Result<void> run(const CommonOptions& common) override {
        const auto config = load_config(file_);
        if (common.json) {
            auto printed = print(check_result(file_, config).dump(2) + "\n");
            if (!printed) {
                return printed;
            }
        }
        if (!config) {
            return fail_as(status_of(config.error()),
                           config.error().code == 0
                               ? fmt::format("bad configuration\n{}", config.error().what)
                               : config.error().what);
        }
        if (common.json) {
            return {};
        }
        std::error_code unknown;
        const bool empty = std::filesystem::file_size(file_, unknown) == 0 && !unknown;
        return print(file_ + (empty ? ": good: it is empty, and all defaults hold\n" : ": good\n"));
    }

  private:
    std::string file_ = XENPACK_CONFIG_DIR "/xenpack.conf";
};

}  // namespace

std::unique_ptr<Command> make_check_config_command() {
    return std::make_unique<CheckConfigCommand>();
}

}  // namespace xenpack
