// SPDX-License-Identifier: LGPL-2.1-or-later
// Lays out the status: one line for the host, a table of zones, then faults and unmanaged domains.
// Pure; must print nothing of the daemon's answer unescaped.
#include "watcher/cli/status_view.h"

#include <fmt/format.h>

#include <cstdint>

#include "watcher/cli/cell.h"
#include "watcher/cli/quantity.h"
#include "watcher/cli/text.h"

namespace xenpack {

namespace {

using nlohmann::json;

// The member, or null where there is none.
const json& member(const json& object, const char* name) {
    static const json null;
    const auto found = object.find(name);
    return found == object.end() ? null : *found;
}

// Green: all is well and something happens. Yellow: worth a look. Red: needs somebody.
Colour colour_of_state(const std::string& state) {
    for (const char* moving : {"growing", "shrinking", "plenty"}) {
        if (state == moving) {
            return Colour::green;
        }
    }
    for (const char* look : {"waiting", "stale", "pinned", "tight"}) {
        if (state == look) {
            return Colour::yellow;
        }
    }
    for (const char* bad : {"garbled", "flooding", "stuck", "short"}) {
        if (state == bad) {
            return Colour::red;
        }
    }
    return Colour::none;
}

std::string host_lines(const json& status, const Screen& screen) {
    const json& host = member(status, "host");
    const json& dom0 = member(status, "dom0");
    const std::string state = text_of(member(host, "state"));
    return fmt::format(
        "host  total {}  free {}  spendable {}  reserve {}  {}  ({})\n"
        "dom0  {}, floor {}\n",
        size_of(member(host, "total_kib")), size_of(member(host, "free_kib")),
        size_of(member(host, "spendable_kib")), size_of(member(host, "reserve_kib")),
        painted(state, colour_of_state(state), screen.colours), text_of(member(host, "toolstack")),
        size_of(member(dom0, "current_kib")), size_of(member(dom0, "floor_kib")));
}

std::string faults_of(const json& owner, const std::string& name, const Screen& screen) {
    std::string lines;
    for (const json& fault : member(owner, "faults")) {
        lines +=
            fmt::format("  {}: {}\n", painted(name, Colour::red, screen.colours), text_of(fault));
    }
    return lines;
}

std::string all_faults(const json& status, const Screen& screen) {
    std::string lines = faults_of(member(status, "host"), "host", screen);
    for (const json& zone : member(status, "zones")) {
        lines += faults_of(
            zone,
            fmt::format("{} ({})", text_of(member(zone, "name")), number_of(member(zone, "domid"))),
            screen);
    }
    return lines.empty() ? lines : "\nfaults:\n" + lines;
}

std::string reservations(const json& status) {
    std::string lines;
    for (const json& r : member(status, "reservations")) {
        const std::string process = member(r, "pid").is_null()
                                        ? std::string()
                                        : fmt::format(" (process {})", number_of(member(r, "pid")));
        lines += fmt::format("  {}{}  {}  {}, {} kept free for it, ends in {}\n",
                             text_of(member(r, "owner")), process, size_of(member(r, "size_kib")),
                             text_of(member(r, "state")), size_of(member(r, "held_kib")),
                             age_of(member(r, "deadline_in_ms")));
    }
    return lines.empty() ? lines : "\nreservations:\n" + lines;
}

std::string templates(const json& status) {
    std::string lines;
    for (const json& one : member(status, "templates")) {
        lines +=
            fmt::format("  {} ({})  {}  {}  forks: {}\n", text_of(member(one, "name")),
                        number_of(member(one, "domid")), text_of(member(one, "state")),
                        size_of(member(one, "memory_kib")), number_of(member(one, "children")));
    }
    return lines.empty() ? lines : "\ntemplates:\n" + lines;
}

std::string forks(const json& status) {
    std::string lines;
    for (const json& domain : member(status, "unmanaged")) {
        if (domain.contains("template")) {
            lines += render_fork(domain);
        }
    }
    return lines.empty() ? lines : "\nforks:\n" + lines;
}

std::string pools(const json& status) {
    std::string lines;
    for (const json& pool : member(status, "pools")) {
        lines += fmt::format("  {}  {} of {} ready  making {}  taken {}, of {}",
                             text_of(member(pool, "name")), number_of(member(pool, "ready")),
                             number_of(member(pool, "wanted")), number_of(member(pool, "making")),
                             number_of(member(pool, "taken")), text_of(member(pool, "template")));
        lines += member(pool, "why").is_null() ? "\n" : ": " + text_of(member(pool, "why")) + "\n";
    }
    return lines.empty() ? lines : "\npools:\n" + lines;
}

std::string state_of_fork(const json& fork) {
    std::string state = fork.value("paused", false)  ? "paused"
                        : fork.value("ready", false) ? "ready"
                                                     : "not ready";
    if (member(fork, "pool").is_null()) {
        return state;
    }
    const std::string pool = text_of(member(fork, "pool"));
    return fork.value("stands_ready", false) ? "stands ready in " + pool
           : fork.value("taken", false)      ? state + ", taken from " + pool
                                             : state + ", for " + pool;
}

// What keeps this host from forks, where it does.
std::string forks_lack(const json& status) {
    std::string lines;
    for (const json& sentence : member(member(status, "host"), "forks_lack")) {
        lines += fmt::format("  {}\n", text_of(sentence));
    }
    return lines.empty() ? lines : "\nno forks on this host:\n" + lines;
}

std::string unmanaged(const json& status) {
    std::string lines;
    for (const json& domain : member(status, "unmanaged")) {
        if (domain.contains("template")) {
            continue;
        }
        lines +=
            fmt::format("  {} ({})  {}  {}\n", text_of(member(domain, "name")),
                        number_of(member(domain, "domid")), size_of(member(domain, "current_kib")),
                        text_of(member(domain, "why")));
    }
    return lines.empty() ? lines : "\nnot managed:\n" + lines;
}

}  // namespace

std::string render_zones(const json& zones, const Screen& screen) {
    using enum Table::Align;
    Table table({{"ZONE", left},
                 {"STATE", left},
                 {"TARGET", right},
                 {"ACTUAL", right},
                 {"DEMAND", right},
                 {"PRESSURE", right},
                 {"FLOOR", right},
                 {"CEILING", right},
                 {"AGO", right},
                 {"LAST REASON", left}});
    for (const json& zone : zones) {
        const std::string state = text_of(member(zone, "state"));
        table.add_row({{text_of(member(zone, "name"))},
                       {state, colour_of_state(state)},
                       {size_of(member(zone, "target_kib"))},
                       {size_of(member(zone, "current_kib"))},
                       {size_of(member(zone, "demand_kib"))},
                       {percent_of(member(zone, "pressure_percent"))},
                       {size_of(member(zone, "floor_kib"))},
                       {size_of(member(zone, "ceiling_kib"))},
                       {age_of(member(zone, "reason_age_ms")), Colour::dim},
                       {text_of(member(zone, "reason"))}});
    }
    return table.render(screen);
}

std::string render_status(const json& status, const Screen& screen) {
    const json& zones = member(status, "zones");
    const std::string table =
        zones.empty() ? "no zones: a domain becomes one when its maxmem is above its memory, or "
                        "with manage = yes in xenpack.conf\n"
                      : render_zones(zones, screen);
    return host_lines(status, screen) + "\n" + table + all_faults(status, screen) +
           templates(status) + pools(status) + forks(status) + reservations(status) +
           unmanaged(status) + forks_lack(status);
}

std::string render_fork(const json& fork) {
    const std::string state = state_of_fork(fork);
    std::string line =
        fmt::format("  {} ({})  {} of its own  {}, of {}", text_of(member(fork, "name")),
                    number_of(member(fork, "domid")), size_of(member(fork, "current_kib")), state,
                    text_of(member(fork, "template")));
    if (!member(fork, "waits_why").is_null()) {
        line += fmt::format("  {} for {}: {}", fork.value("starved", false) ? "starved" : "held",
                            age_of(member(fork, "waits_ms")), text_of(member(fork, "waits_why")));
    }
    return line + "\n";
}

std::string render_pools(const json& pools, const Screen& screen) {
    if (pools.empty()) {
        return "no pools: a section [pool NAME] in xenpack.conf makes one\n";
    }
    using enum Table::Align;
    Table table({{"POOL", left},
                 {"TEMPLATE", left},
                 {"KEEP", left},
                 {"READY", right},
                 {"OF", right},
                 {"MAKING", right},
                 {"TAKEN", right},
                 {"MOST", right},
                 {"WHY NOT", left}});
    for (const json& pool : pools) {
        table.add_row({{text_of(member(pool, "name"))},
                       {text_of(member(pool, "template"))},
                       {text_of(member(pool, "keep"))},
                       {number_of(member(pool, "ready"))},
                       {number_of(member(pool, "wanted"))},
                       {number_of(member(pool, "making"))},
                       {number_of(member(pool, "taken"))},
                       {number_of(member(pool, "most"))},
                       {text_of(member(pool, "why")), Colour::yellow}});
    }
    return table.render(screen);
}

std::string render_taken(const json& fork) {
    const json& ready_ms = member(fork, "ready_ms");
    return fmt::format(
        "{} ({})  {}\n", text_of(member(fork, "name")), number_of(member(fork, "domid")),
        ready_ms.is_null() ? "running" : "ready after " + number_of(ready_ms) + " ms");
}

std::string render_templates(const json& templates, const Screen& screen) {
    if (templates.empty()) {
        return "no templates: xenpack template create DOMAIN makes one of a domain\n";
    }
    using enum Table::Align;
    Table table({{"TEMPLATE", left},
                 {"DOMID", right},
                 {"STATE", left},
                 {"MEMORY", right},
                 {"FORKS", right},
                 {"IDENTITY", left},
                 {"OF", left}});
    for (const json& one : templates) {
        table.add_row({{text_of(member(one, "name"))},
                       {number_of(member(one, "domid"))},
                       {text_of(member(one, "state"))},
                       {size_of(member(one, "memory_kib"))},
                       {number_of(member(one, "children"))},
                       {text_of(member(one, "identity"))},
                       {text_of(member(one, "template"))}});
    }
    return table.render(screen);
}

std::string render_made(const json& fork) {
    const auto after = [&fork](const char* name) {
        return fmt::format("{:.0f} ms", member(fork, name).get<double>());
    };
    std::string line =
        fmt::format("{} ({})  ", text_of(member(fork, "name")), number_of(member(fork, "domid")));
    line += member(fork, "unpaused_ms").is_null() ? "left paused, made in " + after("made_ms")
                                                  : "running after " + after("unpaused_ms");
    if (!member(fork, "ready_ms").is_null()) {
        line += ", ready after " + after("ready_ms");
    }
    return line + "\n";
}

}  // namespace xenpack
