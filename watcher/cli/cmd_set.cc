// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack set: a zone's bounds, weight and pin, for as long as the host is up. What the options
// mean is in zone_settings.h.
#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/terminal.h"
#include "watcher/cli/zone_settings.h"

namespace xenpack {

namespace {

class SetCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "set"; }
    [[nodiscard]] const char* summary() const override {
        return "Set a zone's floor, ceiling, weight or pin";
    }
    [[nodiscard]] const char* examples() const override {
        return "What is set goes before xenpack.conf, by the zone's uuid: it outlives reboots of "
               "the zone\n"
               "and restarts of xenpackd, and ends with \"default\", --auto, or the host's "
               "reboot.\n\n"
               "Examples:\n"
               "  xenpack set web --floor 256M --ceiling 2G\n"
               "  xenpack set web --ceiling default\n"
               "  xenpack set 7 --pin 1G\n"
               "  xenpack set 7 --auto";
    }

    void add_options(CLI::App& app) override {
        app.add_option("ZONE", zone_, "The zone's name or domid")->required()->type_name("");
        app.add_option("--floor", settings_.floor, "Never shrink it below; or \"default\"")
            ->type_name("SIZE");
        app.add_option("--ceiling", settings_.ceiling, "Never grow it above; or \"default\"")
            ->type_name("SIZE");
        app.add_option("--weight", settings_.weight,
                       "Its share when memory is short, 1 to 10000; or \"default\"")
            ->type_name("N");
        app.add_option("--pin", settings_.pin,
                       "Keep it at this size from now on, whatever it reports")
            ->type_name("SIZE");
        app.add_flag("--auto", settings_.automatic, "End a pin: let it follow demand again");
    }

    Result<void> run(const CommonOptions& common) override {
        if (zone_.empty()) {
            return fail_as(ExitStatus::usage, "ZONE is empty: name a zone, or give its domid");
        }
        const auto body = request_body(settings_);
        if (!body) {
            return tl::unexpected<Failure>(body.error());
        }
        const auto zone =
            Client(common.socket).post("/v1/zones/" + path_segment(zone_) + "/settings", *body);
        if (!zone) {
            return tl::unexpected<Failure>(zone.error());
        }
        return print(common.json ? zone->dump(2) + "\n"
                                 : render_zones(nlohmann::json::array({*zone}), output_screen()));
    }

  private:
    std::string zone_;
    ZoneSettings settings_;
};

}  // namespace

std::unique_ptr<Command> make_set_command() {
    return std::make_unique<SetCommand>();
}

}  // namespace xenpack
