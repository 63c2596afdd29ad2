// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack fork: asks the daemon for forks of a template, and waits until all are there. Hanging up,
// as by Ctrl-C, is how they are given up.
#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/request_body.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

using nlohmann::json;

class ForkCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "fork"; }
    [[nodiscard]] const char* summary() const override { return "Fork zones of a template"; }
    [[nodiscard]] const char* examples() const override {
        return "All of the forks come to be, or none. Prints a line for each.\n\n"
               "Examples:\n"
               "  xenpack fork web-1\n"
               "  xenpack fork web-1 -n 20 --name 'job-%d'\n"
               "  xenpack fork web-1 --name db --address 10.0.0.7/24 --until ready\n"
               "  xenpack fork web-1 --name later --paused";
    }

    void add_options(CLI::App& app) override {
        app.add_option("TEMPLATE", template_, "The template's name or domid")
            ->required()
            ->type_name("");
        app.add_option("-n,--count", count_, "How many; 1 if not given")->type_name("N");
        app.add_option("--name", name_,
                       "Their names; %d is a number from 1 on that is free. TEMPLATE-%d if not "
                       "given")
            ->type_name("NAME");
        app.add_option("--until", until_,
                       "Wait until they are running, or are ready: with identities of their own, "
                       "and on their networks. ready if not given; running with --paused")
            ->type_name("STATE")
            ->check(CLI::IsMember({"running", "ready"}));
        app.add_option("--timeout", timeout_,
                       "How long memory, and then each fork's identity, is waited for, as in 30s; "
                       "60s if not given")
            ->type_name("TIME");
        app.add_flag("--paused", paused_, "Leave them paused");
        app.add_option("--address", address_, "Given to the hooks in the fork, as in 10.0.0.7/24")
            ->type_name("ADDRESS");
    }

    Result<void> run(const CommonOptions& common) override {
        const auto body = request();
        if (!body) {
            return tl::unexpected<Failure>(body.error());
        }
        const auto made = Client(common.socket).post_once("/v1/forks", *body);
        if (!made) {
            return tl::unexpected<Failure>(made.error());
        }
        if (common.json) {
            return print(made->dump(2) + "\n");
        }
        std::string text;
        for (const json& fork : made->at("forks")) {
            text += render_made(fork);
        }
        return print(text);
    }

  private:
    [[nodiscard]] Result<json> request() const {
        json body{{"template", template_}, {"count", count_}, {"paused", paused_}};
        put_given(body, "name", name_);
        put_given(body, "until", until_);
        put_given(body, "address", address_);
        if (const auto put = put_timeout(body, timeout_); !put) {
            return tl::unexpected(put.error());
        }
        return body;
    }

    std::string template_;
    unsigned count_ = 1;
    std::string name_;
    std::string until_;
    std::string timeout_;
    std::string address_;
    bool paused_ = false;
};

}  // namespace

std::unique_ptr<Command> make_fork_command() {
    return std::make_unique<ForkCommand>();
}

}  // namespace xenpack
