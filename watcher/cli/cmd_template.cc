// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack template: makes a template of a zone, shows templates, removes one. All of it is the
// daemon's work; this asks, waits and shows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/request_body.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/terminal.h"
#include "watcher/cli/text.h"

namespace xenpack {

namespace {

using nlohmann::json;

class TemplateCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "template"; }
    [[nodiscard]] const char* summary() const override {
        return "Make a template of a domain, to be forked; list, show and remove templates";
    }
    [[nodiscard]] const char* examples() const override {
        return "A template is a domain that was suspended for good; forks share its memory until "
               "they "
               "write.\n"
               "Who hangs up, as by Ctrl-C, does not undo a template that is being made.\n\n"
               "Examples:\n"
               "  xenpack template create base --name web-1\n"
               "  xenpack template list\n"
               "  xenpack template show web-1\n"
               "  xenpack template rm web-1";
    }

    void add_options(CLI::App& app) override {
        app.require_subcommand(1);
        create_ = app.add_subcommand("create", "Suspend a domain, and make a template of it");
        create_->add_option("DOMAIN", zone_, "Its name or domid; its maxmem must be its memory")
            ->required()
            ->type_name("");
        create_
            ->add_option("--name", name_, "What the template is called; as the domain if not given")
            ->type_name("NAME");
        create_
            ->add_option(
                "--identity", identity_,
                "Who gives a fork its own identity: \"guest\" is xenpack-guest in it; with "
                "\"none\" forks are all alike")
            ->type_name("WHO")
            ->check(CLI::IsMember({"guest", "none"}));
        create_
            ->add_option("--timeout", timeout_,
                         "How long it has to be quiet and suspend, as in 30s; 60s if not given")
            ->type_name("TIME");
        list_ = app.add_subcommand("list", "List the templates");
        show_ = app.add_subcommand("show", "Show a template and its forks");
        remove_ = app.add_subcommand("rm", "Remove a template that has no forks");
        for (CLI::App* verb : {show_, remove_}) {
            verb->add_option("TEMPLATE", template_, "Its name or domid")->required()->type_name("");
        }
        for (CLI::App* verb : {create_, list_, show_, remove_}) {
            verb->fallthrough();  // to --json and --socket
        }
    }

    Result<void> run(const CommonOptions& common) override {
        const Client client(common.socket);
        if (create_->parsed()) {
            return create(client, common.json);
        }
        if (list_->parsed()) {
            return list(client, common.json);
        }
        return show_->parsed() ? show(client, common.json) : remove(client, common.json);
    }

  private:
    Result<void> create(const Client& client, bool as_json) const {
        json body{{"zone", zone_}};
        put_given(body, "name", name_);
        put_given(body, "identity", identity_);
        if (const auto put = put_timeout(body, timeout_); !put) {
            return tl::unexpected(put.error());
        }
        const auto made = client.post_once("/v1/templates", body);
        if (!made) {
            return tl::unexpected<Failure>(made.error());
        }
        if (as_json) {
            return print(made->dump(2) + "\n");
        }
        return print(fmt::format(
            "{} ({})  sealed after {} ms\n", escaped(made->at("name").get<std::string>()),
            made->at("domid").get<std::uint64_t>(), made->at("took_ms").get<std::int64_t>()));
    }

    static Result<void> list(const Client& client, bool as_json) {
        const auto status = client.get("/v1/status");
        if (!status) {
            return tl::unexpected<Failure>(status.error());
        }
        const json& templates = status->at("templates");
        return print(as_json ? json{{"templates", templates}}.dump(2) + "\n"
                             : render_templates(templates, output_screen()));
    }

    static std::string shown(const json& one, const json& forks) {
        std::string text = render_templates(json::array({one}), output_screen());
        for (const json& fork : forks) {
            text += fork.contains("fork_state")
                        ? render_fork(fork)
                        : fmt::format("  {} ({})  a template itself\n",
                                      escaped(fork.at("name").get<std::string>()),
                                      fork.at("domid").get<std::uint32_t>());
        }
        return text;
    }

    Result<void> show(const Client& client, bool as_json) const {
        const auto status = client.get("/v1/status");
        if (!status) {
            return tl::unexpected<Failure>(status.error());
        }
        for (json one : status->at("templates")) {
            if (one.at("name") != template_ && one.at("domid").dump() != template_) {
                continue;
            }
            json forks = json::array();
            for (const json& domain : status->at("unmanaged")) {
                if (domain.value("template", "") == one.at("name")) {
                    forks.push_back(domain);
                }
            }
            for (const json& other : status->at("templates")) {
                if (other.at("template") == one.at("name")) {
                    forks.push_back(other);
                }
            }
            if (as_json) {
                one["forks"] = forks;
                return print(one.dump(2) + "\n");
            }
            return print(shown(one, forks));
        }
        return fail_as(ExitStatus::failed,
                       fmt::format("there is no template {}: xenpack template list shows which "
                                   "there are",
                                   template_));
    }

    Result<void> remove(const Client& client, bool as_json) const {
        const auto removed = client.remove("/v1/templates/" + path_segment(template_));
        if (!removed) {
            return tl::unexpected<Failure>(removed.error());
        }
        return as_json ? print(removed->dump(2) + "\n") : Result<void>{};
    }

    CLI::App* create_ = nullptr;
    CLI::App* list_ = nullptr;
    CLI::App* show_ = nullptr;
    CLI::App* remove_ = nullptr;
    std::string zone_;
    std::string name_;
    std::string identity_;
    std::string timeout_;
    std::string template_;
};

}  // namespace

std::unique_ptr<Command> make_template_command() {
    return std::make_unique<TemplateCommand>();
}

}  // namespace xenpack
