// SPDX-License-Identifier: LGPL-2.1-or-later
// xenpack status: the host and its zones, once or again every second. How they look is in
// status_view.h.
#include <poll.h>

#include <CLI/CLI.hpp>

#include "watcher/cli/client.h"
#include "watcher/cli/command.h"
#include "watcher/cli/interrupt.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/terminal.h"

namespace xenpack {

namespace {

constexpr int kRefreshMs = 1000;

// Overwrites in place, so that the screen does not flicker: home, clear the end of each line, and
// what is below the last.
std::string redrawn(const std::string& text) {
    std::string screen = "\033[H";
    for (const char c : text) {
        screen += c == '\n' ? "\033[K\n" : std::string(1, c);
    }
    return screen + "\033[J";
}

class StatusCommand final : public Command {
  public:
    [[nodiscard]] const char* name() const override { return "status"; }
    [[nodiscard]] const char* summary() const override { return "Show the host and its zones"; }
    [[nodiscard]] const char* examples() const override {
        return "Examples:\n"
               "  xenpack status\n"
               "  xenpack status --watch\n"
               "  xenpack status --json | jq '.zones[] | {name, target_kib}'";
    }

    void add_options(CLI::App& app) override {
        app.add_flag("--watch", watch_, "Show it again every second, until interrupted");
    }

    Result<void> run(const CommonOptions& common) override {
        const Client client(common.socket);
        if (watch_) {
            end_well_when_interrupted();
        }
        for (bool first = true;; first = false) {
            const auto status = client.get("/v1/status");
            if (!status) {
                return tl::unexpected<Failure>(status.error());
            }
            if (auto shown = show(*status, common.json, first); !shown || !watch_) {
                return shown;
            }
            poll(nullptr, 0, kRefreshMs);
        }
    }

  private:
    Result<void> show(const nlohmann::json& status, bool as_json, bool first) const {
        if (as_json) {
            return print(status.dump(watch_ ? -1 : 2) + "\n");
        }
        const std::string text = render_status(status, output_screen());
        if (watch_ && output_is_terminal()) {
            return print((first ? "\033[2J" : "") + redrawn(text));
        }
        return print(first ? text : "\n" + text);
    }

    bool watch_ = false;
};

}  // namespace

std::unique_ptr<Command> make_status_command() {
    return std::make_unique<StatusCommand>();
}

}  // namespace xenpack
