// SPDX-License-Identifier: LGPL-2.1-or-later
// Agents: what reporters other than ours write to xenstore, read as the same plain Sample.
// Called by zones/ with raw values. Pure: no I/O, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "watcher/error.h"
#include "watcher/pressure/report.h"

namespace xenpack {

// Who speaks for a zone, best first: a zone with two agents is judged by the better one alone.
enum class Agent {
    none,
    xenpack,          // xenpack-guest: data/xenpack/report
    qubes,            // meminfo-writer of Qubes OS: memory/meminfo, memory in use, KiB
    xen_guest_agent,  // xe-guest-utilities, xen-guest-agent: data/meminfo_free and meminfo_total,
                      // KiB
};

[[nodiscard]] std::string_view name_of(Agent agent);

// One reading of a zone's memory, whoever took it.
struct Sample {
    Agent agent = Agent::none;
    std::uint64_t total_kib = 0;   // what the guest's kernel manages; 0: the agent does not say
    std::uint64_t used_kib = 0;    // not available without swapping or losing hot cache
    std::optional<Report> report;  // ours only: uptime, PSI, swap-ins, refaults
};

[[nodiscard]] Sample sample_of(const Report& report);

// Decimal digits only, 1..20 of them, in (0, limit_kib].
[[nodiscard]] Expected<std::uint64_t> parse_kib(std::string_view untrusted_text,
                                                std::uint64_t limit_kib);

[[nodiscard]] Expected<Sample> parse_xen_guest_agent(std::string_view untrusted_free,
                                                     std::string_view untrusted_total,
                                                     std::uint64_t limit_kib);
[[nodiscard]] Expected<Sample> parse_qubes(std::string_view untrusted_used,
                                           std::uint64_t limit_kib);

}  // namespace xenpack
