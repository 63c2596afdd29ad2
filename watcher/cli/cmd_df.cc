// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack df: who holds the host's memory, and what one more zone or fork would take. The daemon
// counts; this asks and shows.
#include <CLI/CLI.hpp>

#include "watcher/cli/account_view.h"
#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/dry_run.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

using nlohmann::json;

class DfCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "df"; }
    [[nodiscard]] const char* summary() const override {
        return "Show who holds the host's memory, and what one more would take";
    }
    [[nodiscard]] const char* examples() const override {
        return "OWN are pages that nobody else has; SHARED are a family's, paid once. TAKES is "
               "what "
               "the host\nhas less by a domain, FREES what it had more if that went.\n\n"
               "Examples:\n"
               "  xenpack df\n"
               "  xenpack df --start /etc/xen/web.cfg    # what its start would take\n"
               "  xenpack df --fork web-1                # what one more fork of it would take";
    }

    void add_options(CLI::App& app) override {
        auto* start = app.add_option("--start", config_file_,
                                     "What starting the domain of this file would take")
                          ->type_name("FILE");
        app.add_option("--fork", template_, "What a fork of this template would take")
            ->type_name("TEMPLATE")
            ->excludes(start);
    }

    Result<void> run(const CommonOptions& common) override {
        const Client client(common.socket);
        if (config_file_.empty() && template_.empty()) {
            const auto account = client.get("/v1/account");
            return account ? print(common.json ? account->dump(2) + "\n"
                                               : render_account(*account, output_screen()))
                           : tl::unexpected<Failure>(account.error());
        }
        const auto asked = question();
        if (!asked) {
            return tl::unexpected<Failure>(asked.error());
        }
        const auto cost = client.post("/v1/cost", *asked);
        return cost ? print(common.json ? cost->dump(2) + "\n" : render_cost(*cost))
                    : tl::unexpected<Failure>(cost.error());
    }

  private:
    [[nodiscard]] Result<json> question() const {
        if (config_file_.empty()) {
            return json{{"template", template_}};
        }
        return dry_run({config_file_}).map([](const std::string& config) {
            return json{{"config", config}};
        });
    }

    std::string config_file_;
    std::string template_;
};

}  // namespace

std::unique_ptr<Command> make_df_command() {
    return std::make_unique<DfCommand>();
}

}  // namespace xenpack
