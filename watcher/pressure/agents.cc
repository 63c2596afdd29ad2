// SPDX-License-Identifier: LGPL-2.1-or-later
// Parsers of other agents' keys. The keys' names and units are those their agents document.
#include "watcher/pressure/agents.h"

#include <algorithm>
#include <charconv>

namespace xenpack {

std::string_view name_of(Agent agent) {
    switch (agent) {
        case Agent::none:
            return "none";
        case Agent::xenpack:
            return "xenpack";
        case Agent::qubes:
            return "qubes";
        case Agent::xen_guest_agent:
            return "xen-guest-agent";
    }
    return "";
}

Sample sample_of(const Report& report) {
    return {Agent::xenpack, report.total_kib, report.total_kib - report.available_kib, report};
}

Expected<std::uint64_t> parse_kib(std::string_view untrusted_text, std::uint64_t limit_kib) {
    const bool digits =
        !untrusted_text.empty() && untrusted_text.size() <= 20 &&
        std::ranges::all_of(untrusted_text, [](char c) { return c >= '0' && c <= '9'; });
    std::uint64_t kib = 0;
    if (!digits ||
        std::from_chars(untrusted_text.data(), untrusted_text.data() + untrusted_text.size(), kib)
                .ec != std::errc{}) {
        return fail("not a number of KiB");
    }
    if (kib == 0 || kib > limit_kib) {
        return fail("{} KiB is not between 1 and the zone's {} KiB", kib, limit_kib);
    }
    return kib;
}

Expected<Sample> parse_xen_guest_agent(std::string_view untrusted_free,
                                       std::string_view untrusted_total, std::uint64_t limit_kib) {
    const auto total = parse_kib(untrusted_total, limit_kib);
    if (!total) {
        return tl::unexpected(total.error().during("data/meminfo_total"));
    }
    const auto free = parse_kib(untrusted_free, *total);
    if (!free) {
        return tl::unexpected(free.error().during("data/meminfo_free"));
    }
    return Sample{Agent::xen_guest_agent, *total, *total - *free, std::nullopt};
}

Expected<Sample> parse_qubes(std::string_view untrusted_used, std::uint64_t limit_kib) {
    const auto used = parse_kib(untrusted_used, limit_kib);
    if (!used) {
        return tl::unexpected(used.error().during("memory/meminfo"));
    }
    return Sample{Agent::qubes, 0, *used, std::nullopt};
}

}  // namespace xenpack
