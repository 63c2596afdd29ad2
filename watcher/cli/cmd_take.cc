// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack take: asks the daemon to hand out a fork that stands ready in a pool, and waits until it
// is what was asked for. Hanging up, as by Ctrl-C, is how it is given up.
#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/request_body.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

using nlohmann::json;

class TakeCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "take"; }
    [[nodiscard]] const char* summary() const override {
        return "Take a fork that stands ready in a pool";
    }
    [[nodiscard]] const char* examples() const override {
        return "Pools are sections [pool NAME] of xenpack.conf. Where none stands ready the next "
               "one is\nwaited for, if one can be made. Its place is filled again.\n\n"
               "Examples:\n"
               "  xenpack take jobs\n"
               "  xenpack take jobs --name build-17 --until ready --timeout 10s";
    }

    void add_options(CLI::App& app) override {
        app.add_option("POOL", pool_, "The pool's name")->required()->type_name("");
        app.add_option("--name", name_, "What the fork is called from now on")->type_name("NAME");
        app.add_option("--until", until_,
                       "Wait until it is running, or is ready: with an identity of its own, and on "
                       "its networks. ready if not given")
            ->type_name("STATE")
            ->check(CLI::IsMember({"running", "ready"}));
        app.add_option(
               "--timeout", timeout_,
               "How long one that stands ready, and then its identity, is waited for, as in "
               "30s; 60s if not given")
            ->type_name("TIME");
        app.add_option("--address", address_, "Given to the hooks in the fork, as in 10.0.0.7/24")
            ->type_name("ADDRESS");
    }

    Result<void> run(const CommonOptions& common) override {
        json body = json::object();
        put_given(body, "name", name_);
        put_given(body, "until", until_);
        put_given(body, "address", address_);
        if (const auto put = put_timeout(body, timeout_); !put) {
            return tl::unexpected(put.error());
        }
        const auto taken =
            Client(common.socket).post_once("/v1/pools/" + path_segment(pool_) + "/take", body);
        if (!taken) {
            return tl::unexpected<Failure>(taken.error());
        }
        return print(common.json ? taken->dump(2) + "\n" : render_taken(*taken));
    }

  private:
    std::string pool_;
    std::string name_;
    std::string until_;
    std::string timeout_;
    std::string address_;
};

}  // namespace

std::unique_ptr<Command> make_take_command() {
    return std::make_unique<TakeCommand>();
}

}  // namespace xenpack
