// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's text files as values, without copying or allocating: proc_reader calls this many
// times a minute for as long as the zone runs. Pure.
#include "watcher/guest/proc_text.h"

#include <algorithm>
#include <charconv>

namespace xenpack::guest {
namespace {

// The number at the start of text, behind blanks; what follows it is the caller's.
std::optional<std::uint64_t> leading_number(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    std::uint64_t number = 0;
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool ends_well = stop == text.data() + text.size() || *stop == ' ' || *stop == '\n';
    return status == std::errc() && ends_well ? std::optional(number) : std::nullopt;
}

// What follows `name` in the line whose first word it is; empty if there is none.
std::string_view line_after(std::string_view text, std::string_view name) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        if (line.starts_with(name) && line.substr(name.size()).starts_with(' ')) {
            return line.substr(name.size());
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return {};
}

std::optional<std::uint64_t> stall_total(std::string_view text, std::string_view kind) {
    constexpr std::string_view kTotal = " total=";
    const std::string_view line = line_after(text, kind);
    const std::size_t at = line.find(kTotal);
    return at == std::string_view::npos ? std::nullopt
                                        : leading_number(line.substr(at + kTotal.size()));
}

}  // namespace

std::optional<std::uint64_t> number_of(std::string_view text, std::string_view name) {
    return leading_number(line_after(text, name));
}

std::optional<std::uint64_t> parse_single(std::string_view text) {
    if (text.ends_with('\n')) {
        text.remove_suffix(1);
    }
    std::uint64_t number = 0;
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = status == std::errc() && stop == text.data() + text.size();
    return whole ? std::optional(number) : std::nullopt;
}

std::optional<MemorySample> parse_meminfo(std::string_view text) {
    const auto total = number_of(text, "MemTotal:");
    const auto free = number_of(text, "MemFree:");
    const auto available = number_of(text, "MemAvailable:");
    if (!total || !free || !available || *total == 0) {
        return std::nullopt;
    }
    MemorySample sample;
    sample.total_kib = *total;
    // The kernel does not read its counters at one instant: while the balloon moves, a part can
    // come out larger than the whole.
    sample.free_kib = std::min(*free, *total);
    sample.available_kib = std::min(*available, *total);
    sample.swap_total_kib = number_of(text, "SwapTotal:").value_or(0);
    sample.swap_free_kib =
        std::min(number_of(text, "SwapFree:").value_or(0), sample.swap_total_kib);
    return sample;
}

PagingCounts parse_vmstat(std::string_view text) {
    PagingCounts counts;
    counts.swap_ins = number_of(text, "pswpin").value_or(0);
    const auto anon = number_of(text, "workingset_refault_anon");
    const auto file = number_of(text, "workingset_refault_file");
    counts.refaults = anon || file ? anon.value_or(0) + file.value_or(0)
                                   : number_of(text, "workingset_refault").value_or(0);
    return counts;
}

std::optional<StallTotals> parse_pressure(std::string_view text) {
    const auto some = stall_total(text, "some");
    if (!some) {
        return std::nullopt;
    }
    return StallTotals{*some, stall_total(text, "full").value_or(0)};
}

}  // namespace xenpack::guest
