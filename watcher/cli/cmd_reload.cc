// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack reload: has the daemon read its configuration again. It must not judge the file:
// what the daemon says counts.
#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

class ReloadCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "reload"; }
    [[nodiscard]] const char* summary() const override {
        return "Have the daemon read its configuration again";
    }
    [[nodiscard]] const char* examples() const override {
        return "A bad file is refused with status 78, and the daemon keeps what it had.\n\n"
               "Example:\n"
               "  xenpack reload";
    }
    void add_options(CLI::App&) override {}

    Result<void> run(const CommonOptions& common) override {
        const auto answer = Client(common.socket).post("/v1/reload", nlohmann::json::object());
        if (!answer) {
            return tl::unexpected<Failure>(answer.error());
        }
        return print(common.json ? answer->dump(2) + "\n"
                                 : "xenpackd uses the configuration as it is now\n");
    }
};

}  // namespace

std::unique_ptr<Command> make_reload_command() {
    return std::make_unique<ReloadCommand>();
}

}  // namespace xenpack
