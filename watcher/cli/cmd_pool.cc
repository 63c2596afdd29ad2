// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack pool: shows the pools of forks that stand ready. They come to be by the configuration
// alone; this asks the daemon for its status, and shows of it what is about them.
#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

using nlohmann::json;

class PoolCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "pool"; }
    [[nodiscard]] const char* summary() const override {
        return "List the pools of forks that stand ready";
    }
    [[nodiscard]] const char* examples() const override {
        return "A pool is made by a section [pool NAME] in xenpack.conf, and ends with it.\n\n"
               "Example:\n"
               "  xenpack pool list";
    }

    void add_options(CLI::App& app) override {
        app.require_subcommand(1);
        app.add_subcommand("list", "List the pools: how many stand ready, and why not all")
            ->fallthrough();  // to --json and --socket
    }

    Result<void> run(const CommonOptions& common) override {
        const auto status = Client(common.socket).get("/v1/status");
        if (!status) {
            return tl::unexpected<Failure>(status.error());
        }
        const json& pools = status->at("pools");
        return print(common.json ? json{{"pools", pools}}.dump(2) + "\n"
                                 : render_pools(pools, output_screen()));
    }
};

}  // namespace

std::unique_ptr<Command> make_pool_command() {
    return std::make_unique<PoolCommand>();
}

}  // namespace xenpack
