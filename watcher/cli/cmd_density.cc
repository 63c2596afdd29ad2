// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack density: how many zones the host holds, what they were made for and what they take, and
// how many more of each kind would fit. The daemon counts; this asks and shows.
#include <CLI/CLI.hpp>

#include "watcher/cli/account_view.h"
#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

class DensityCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "density"; }
    [[nodiscard]] const char* summary() const override {
        return "Show how densely the host is packed, and how many more fit";
    }
    [[nodiscard]] const char* examples() const override {
        return "FIT NOW is of what is free and promised to nobody, FIT MORE with what zones have "
               "above\nwhat they need. Both are of zones as those of that kind are now.\n\n"
               "Example:\n"
               "  xenpack density";
    }

    void add_options(CLI::App&) override {}

    Result<void> run(const CommonOptions& common) override {
        const auto account = Client(common.socket).get("/v1/account");
        if (!account) {
            return tl::unexpected<Failure>(account.error());
        }
        return print(common.json ? account->at("density").dump(2) + "\n"
                                 : render_density(*account, output_screen()));
    }
};

}  // namespace

std::unique_ptr<Command> make_density_command() {
    return std::make_unique<DensityCommand>();
}

}  // namespace xenpack
