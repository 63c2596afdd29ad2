// SPDX-License-Identifier: LGPL-2.1-or-later
// Trace: its text form and its reading between two rows. Called by whoever loads or follows traces.
// Pure: it opens no file.
#include "plugin/sim/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace xenpack::sim {

namespace {

constexpr std::string_view kMagic = "xenpack-trace 1";
constexpr std::string_view kBlanks = " \t";
constexpr std::size_t kColumns = 6;
constexpr std::array<std::string_view, kColumns> kColumnNames = {
    "t_ms", "anon_kib", "active_kib", "cache_kib", "read_kib_s", "stream_kib_s"};

using Columns = std::array<std::uint64_t, kColumns>;

std::uint64_t between(std::uint64_t from, std::uint64_t to, double share) {
    if (from == to) {
        return from;
    }
    const double a = static_cast<double>(from);
    const double b = static_cast<double>(to);
    return static_cast<std::uint64_t>(std::llround(a + (b - a) * share));
}

Demand between(const TraceRow& from, const TraceRow& to, std::int64_t ms) {
    const double share =
        static_cast<double>(ms - from.at_ms) / static_cast<double>(to.at_ms - from.at_ms);
    const Demand& a = from.demand;
    const Demand& b = to.demand;
    return {between(a.anon_kib, b.anon_kib, share), between(a.active_kib, b.active_kib, share),
            between(a.cache_kib, b.cache_kib, share),
            between(a.read_kib_per_s, b.read_kib_per_s, share),
            between(a.stream_kib_per_s, b.stream_kib_per_s, share)};
}

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// What follows "KEY:" in a comment's line.
std::optional<std::string_view> comment_value(std::string_view line, std::string_view key) {
    line = trimmed(line.substr(1));
    if (!line.starts_with(key) || !line.substr(key.size()).starts_with(':')) {
        return {};
    }
    return trimmed(line.substr(key.size() + 1));
}

Expected<std::uint64_t> parse_number(std::string_view word, std::size_t column) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    const std::uint64_t most = column == 0 ? static_cast<std::uint64_t>(kTraceMaxMs) : kTraceMaxKib;
    const bool digits = end == word.data() + word.size() && error != std::errc::invalid_argument;
    if (!digits) {
        return fail("{} must be a whole number, not negative", kColumnNames[column]);
    }
    if (error != std::errc{} || number > most) {
        return fail("{} is over {}", kColumnNames[column], most);
    }
    return number;
}

Expected<Columns> parse_columns(std::string_view line) {
    Columns numbers{};
    std::size_t column = 0;
    for (line = trimmed(line); !line.empty(); ++column) {
        if (column == kColumns) {
            return fail("there are more than {} numbers", kColumns);
        }
        const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
        const auto number = parse_number(line.substr(0, end), column);
        if (!number) {
            return tl::unexpected<Error>(number.error());
        }
        numbers[column] = *number;
        line = trimmed(line.substr(end));
    }
    if (column < kColumns) {
        return fail("{} is missing: a row has {} numbers", kColumnNames[column], kColumns);
    }
    return numbers;
}

Expected<TraceRow> parse_row(std::string_view line, const std::vector<TraceRow>& before) {
    const auto columns = parse_columns(line);
    if (!columns) {
        return tl::unexpected<Error>(columns.error());
    }
    const auto& [t, anon, active, cache, read, stream] = *columns;
    const auto at_ms = static_cast<std::int64_t>(t);
    if (before.empty() && at_ms != 0) {
        return fail("the first row must be at 0 ms, not at {}", at_ms);
    }
    if (!before.empty() && at_ms <= before.back().at_ms) {
        return fail("{} ms is not later than the row before, at {} ms", at_ms, before.back().at_ms);
    }
    if (active > anon) {
        return fail("active_kib, {}, is over anon_kib, {}, of which it is a part", active, anon);
    }
    if (before.size() >= kTraceMaxRows) {
        return fail("there are more than {} rows", kTraceMaxRows);
    }
    return TraceRow{at_ms, {anon, active, cache, read, stream}};
}

void read_comment(std::string_view line, Trace& trace) {
    if (const auto name = comment_value(line, "name"); name && !name->empty()) {
        trace.name = *name;
    } else if (const auto origin = comment_value(line, "origin")) {
        trace.origin = *origin;
    }
}

std::string one_line(std::string_view text) {
    std::string line(trimmed(text));
    std::replace(line.begin(), line.end(), '\n', ' ');
    return std::string(trimmed(line));
}

}  // namespace

Demand Trace::at(std::int64_t ms) const {
    std::size_t row = rows.size();
    return at(ms, row);
}

Demand Trace::at(std::int64_t ms, std::size_t& row) const {
    if (rows.empty()) {
        return {};
    }
    if (ms <= rows.front().at_ms) {
        return rows.front().demand;
    }
    const bool here = row + 1 < rows.size() && rows[row].at_ms <= ms && ms < rows[row + 1].at_ms;
    const bool next =
        !here && row + 2 < rows.size() && rows[row + 1].at_ms <= ms && ms < rows[row + 2].at_ms;
    if (next) {
        ++row;
    } else if (!here) {
        if (ms >= rows.back().at_ms) {
            return rows.back().demand;
        }
        const auto after = std::upper_bound(
            rows.begin(), rows.end(), ms,
            [](std::int64_t value, const TraceRow& each) { return value < each.at_ms; });
        row = static_cast<std::size_t>(after - rows.begin()) - 1;
    }
    return between(rows[row], rows[row + 1], ms);
}

std::uint64_t Trace::peak_kib() const {
    std::uint64_t peak = 0;
    for (const TraceRow& row : rows) {
        peak = std::max(peak, row.demand.anon_kib + row.demand.cache_kib);
    }
    return peak;
}

Expected<Trace> parse_trace(std::string_view text, std::string_view name) {
    Trace trace;
    trace.name = name;
    bool begun = false;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = trimmed(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.empty()) {
            continue;
        }
        if (!begun) {
            if (line != kMagic) {
                return fail("line {}: a trace begins with \"{}\"", number, kMagic);
            }
            begun = true;
        } else if (line.front() == '#') {
            read_comment(line, trace);
        } else if (auto row = parse_row(line, trace.rows)) {
            trace.rows.push_back(*row);
        } else {
            return fail("line {}: {}", number, row.error().what);
        }
    }
    if (!begun) {
        return fail("line 1: a trace begins with \"{}\", and this text is empty", kMagic);
    }
    if (trace.rows.empty()) {
        return fail("line 1: this trace has no row: at least one is needed, at 0 ms");
    }
    return trace;
}

std::string format_trace(const Trace& trace) {
    std::string text(kMagic);
    text += '\n';
    if (const std::string name = one_line(trace.name); !name.empty()) {
        text += fmt::format("# name: {}\n", name);
    }
    if (const std::string origin = one_line(trace.origin); !origin.empty()) {
        text += fmt::format("# origin: {}\n", origin);
    }
    text += "# columns:";
    for (const std::string_view column : kColumnNames) {
        text += fmt::format(" {}", column);
    }
    text += '\n';
    for (const TraceRow& row : trace.rows) {
        const Demand& demand = row.demand;
        text += fmt::format("{} {} {} {} {} {}\n", row.at_ms, demand.anon_kib, demand.active_kib,
                            demand.cache_kib, demand.read_kib_per_s, demand.stream_kib_per_s);
    }
    return text;
}

}  // namespace xenpack::sim
