// SPDX-License-Identifier: LGPL-2.1-or-later
// Words one event. Pure; must print nothing of the daemon's answer unescaped.
#include "watcher/cli/event_view.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>

#include "watcher/cli/quantity.h"
#include "watcher/cli/text.h"

namespace xenpack {

std::string render_event(const nlohmann::json& event) {
    const auto has = [&event](const char* name) {
        return event.contains(name) && !event.at(name).is_null();
    };
    const auto text = [&event, &has](const char* name) {
        return has(name) ? escaped(event.at(name).get<std::string>()) : std::string("-");
    };
    const auto size = [&event](const char* name) {
        return show_size(event.at(name).get<std::uint64_t>());
    };
    std::string line = fmt::format("{} {:<6}", text("time"), text("kind"));
    const auto out = std::back_inserter(line);
    if (has("zone")) {
        fmt::format_to(out, " {}", text("zone"));
    }
    if (has("domid")) {
        fmt::format_to(out, " ({})", event.at("domid").get<std::uint64_t>());
    }
    if (has("from_kib") && has("to_kib")) {
        fmt::format_to(out, "  {} -> {}", size("from_kib"), size("to_kib"));
    } else if (has("to_kib")) {
        fmt::format_to(out, "  {}", size("to_kib"));
    }
    if (has("reason")) {
        fmt::format_to(out, "  {}", text("reason"));
    }
    return line;
}

}  // namespace xenpack
