// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack events: the daemon's decisions as they happen, one line each. How a line looks is in
// event_view.h.
#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/event_view.h"
#include "watcher/cli/interrupt.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

class EventsCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "events"; }
    [[nodiscard]] const char* summary() const override {
        return "Show decisions as they happen, until interrupted";
    }
    [[nodiscard]] const char* examples() const override {
        return "Ends with status 0 when interrupted, and with 69 when the daemon goes.\n\n"
               "Examples:\n"
               "  xenpack events\n"
               "  xenpack events --json | jq 'select(.kind == \"grow\")'";
    }
    void add_options(CLI::App&) override {}

    Result<void> run(const CommonOptions& common) override {
        end_well_when_interrupted();
        const Client client(common.socket);
        return tl::unexpected<Failure>(
            client.follow("/v1/events", [&common](std::string_view line) -> Result<void> {
                const nlohmann::json event = nlohmann::json::parse(line);
                return print((common.json ? event.dump() : render_event(event)) + "\n");
            }));
    }
};

}  // namespace

std::unique_ptr<Command> make_events_command() {
    return std::make_unique<EventsCommand>();
}

}  // namespace xenpack
