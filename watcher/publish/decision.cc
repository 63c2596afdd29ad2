// SPDX-License-Identifier: LGPL-2.1-or-later
// The two written forms of a decision.
#include "watcher/publish/decision.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

namespace xenpack {
namespace {

// A domain's name may come from a tenant: nothing in it may end a line or act on a terminal.
std::string printable(std::string_view text) {
    std::string safe;
    for (const char c : text) {
        safe += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
    return safe;
}

std::string now_utc() {
    using namespace std::chrono;
    const auto now = floor<milliseconds>(system_clock::now());
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                       fmt::gmtime(system_clock::to_time_t(floor<seconds>(now))),
                       now.time_since_epoch().count() % 1000);
}

}  // namespace

Decision about_host(DecisionKind kind, std::string reason) {
    Decision decision;
    decision.kind = kind;
    decision.reason = std::move(reason);
    return decision;
}

std::string_view name_of(DecisionKind kind) {
    switch (kind) {
        case DecisionKind::grow:
            return "grow";
        case DecisionKind::shrink:
            return "shrink";
        case DecisionKind::found:
            return "found";
        case DecisionKind::gone:
            return "gone";
        case DecisionKind::fault:
            return "fault";
        case DecisionKind::host:
            return "host";
        case DecisionKind::config:
            return "config";
        case DecisionKind::start:
            return "start";
        case DecisionKind::sealed:
            return "template";
        case DecisionKind::fork:
            return "fork";
    }
    return "";
}

std::string to_line(const Decision& d) {
    std::string line =
        d.uuid.empty()
            ? ""
            : fmt::format("{} ({}): ", d.zone.empty() ? "domain" : printable(d.zone), d.domid);
    line += name_of(d.kind);
    if (d.from_kib && d.to_kib) {
        line += fmt::format(" {} -> {} MiB", (*d.from_kib + 512) / 1024, (*d.to_kib + 512) / 1024);
    }
    return line + ": " + d.reason;
}

nlohmann::json to_json(const Decision& d) {
    nlohmann::json json{{"time", now_utc()}, {"kind", name_of(d.kind)}, {"reason", d.reason}};
    if (!d.uuid.empty()) {
        json["zone"] = d.zone;
        json["domid"] = d.domid;
        json["uuid"] = d.uuid;
    }
    if (d.from_kib) {
        json["from_kib"] = *d.from_kib;
    }
    if (d.to_kib) {
        json["to_kib"] = *d.to_kib;
    }
    return json;
}

}  // namespace xenpack
