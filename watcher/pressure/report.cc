// SPDX-License-Identifier: LGPL-2.1-or-later
// Report: strict reading and writing of its one-line form. The form is described in report.h.
// The watcher reads with it what a guest wrote, xenpack-guest writes with it. Pure; and no byte of
// an unknown text gets into an error message, since those end in terminals and journals.
#include "watcher/pressure/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

namespace xenpack {
namespace {

constexpr std::string_view kVersion = "1 ";
// The shortest field, with the space before the next, is "a=1 ".
constexpr std::size_t kMaxFields = kReportMaxBytes / 4 + 1;

struct Field {
    std::string_view name;
    std::string_view value;
};

struct Fields {
    std::array<Field, kMaxFields> slots;
    std::size_t count = 0;

    [[nodiscard]] std::span<const Field> all() const { return {slots.data(), count}; }
    [[nodiscard]] const Field* find(std::string_view name) const {
        const auto fields = all();
        const auto hit = std::ranges::find(fields, name, &Field::name);
        return hit == fields.end() ? nullptr : &*hit;
    }
};

struct WhyName {
    ReportWhy why;
    std::string_view name;
};
constexpr std::array<WhyName, 6> kWhyNames = {{{ReportWhy::start, "start"},
                                               {ReportWhy::psi, "psi"},
                                               {ReportWhy::low, "low"},
                                               {ReportWhy::change, "change"},
                                               {ReportWhy::calm, "calm"},
                                               {ReportWhy::heartbeat, "heartbeat"}}};

struct NumberField {
    std::string_view name;
    std::uint64_t Report::*member;
    bool required;
};
constexpr std::array<NumberField, 9> kNumberFields = {{{"n", &Report::sequence, true},
                                                       {"up", &Report::uptime_ms, true},
                                                       {"hb", &Report::heartbeat_s, true},
                                                       {"tot", &Report::total_kib, true},
                                                       {"av", &Report::available_kib, true},
                                                       {"swt", &Report::swap_total_kib, false},
                                                       {"swf", &Report::swap_free_kib, false},
                                                       {"si", &Report::swap_ins, false},
                                                       {"rf", &Report::refaults, false}}};

struct OptionalField {
    std::string_view name;
    std::optional<std::uint64_t> Report::*member;
};
constexpr std::array<OptionalField, 4> kOptionalFields = {{{"fr", &Report::free_kib},
                                                           {"brk", &Report::brake_kib},
                                                           {"some", &Report::some_us},
                                                           {"full", &Report::full_us}}};

bool is_name(std::string_view text) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    return !text.empty() && text.front() >= 'a' && text.front() <= 'z' &&
           std::ranges::all_of(text, allowed);
}

bool is_value(std::string_view text) {
    const auto allowed = [](char c) { return c > ' ' && c <= '~' && c != '='; };
    return !text.empty() && std::ranges::all_of(text, allowed);
}

// `text` is what follows the version: one field or more, one space between them, none at the end.
Expected<Fields> split_fields(std::string_view text) {
    Fields fields;
    for (;;) {
        const std::size_t space = text.find(' ');
        const std::string_view word = text.substr(0, space);
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos) {
            return fail("field {} is not of the form name=value", fields.count + 1);
        }
        const Field field{word.substr(0, equals), word.substr(equals + 1)};
        if (!is_name(field.name) || !is_value(field.value)) {
            return fail("field {} is not of the form name=value", fields.count + 1);
        }
        if (fields.find(field.name) != nullptr) {
            return fail("field {} has the name of an earlier one", fields.count + 1);
        }
        if (fields.count == fields.slots.size()) {
            return fail("more than {} fields", fields.slots.size());
        }
        fields.slots[fields.count++] = field;
        if (space == std::string_view::npos) {
            return fields;
        }
        text.remove_prefix(space + 1);
    }
}

Expected<std::uint64_t> parse_number(const Field& field) {
    std::uint64_t number = 0;
    const char* const end = field.value.data() + field.value.size();
    const auto [stop, status] = std::from_chars(field.value.data(), end, number);
    if (status == std::errc::result_out_of_range) {
        return fail("{}= is above 2^64-1", field.name);
    }
    if (status != std::errc() || stop != end) {
        return fail("{}= is not a decimal number", field.name);
    }
    return number;
}

Expected<ReportWhy> parse_why(const Fields& fields) {
    const Field* const field = fields.find("why");
    if (field == nullptr) {
        return fail("why= is missing");
    }
    const auto* const hit = std::ranges::find(kWhyNames, field->value, &WhyName::name);
    if (hit == kWhyNames.end()) {
        return fail("why= is none of start, psi, low, change, calm, heartbeat");
    }
    return hit->why;
}

Expected<std::optional<std::uint64_t>> parse_optional(const Fields& fields, std::string_view name) {
    const Field* const field = fields.find(name);
    if (field == nullptr) {
        return std::optional<std::uint64_t>();
    }
    return parse_number(*field).map([](std::uint64_t number) { return std::optional(number); });
}

Expected<Report> check_sense(const Report& report) {
    if (report.heartbeat_s < kHeartbeatMinS || report.heartbeat_s > kHeartbeatMaxS) {
        return fail("hb={} is outside of {} to {} seconds", report.heartbeat_s, kHeartbeatMinS,
                    kHeartbeatMaxS);
    }
    if (report.total_kib == 0) {
        return fail("tot= is 0");
    }
    if (report.available_kib > report.total_kib) {
        return fail("av={} is above tot={}", report.available_kib, report.total_kib);
    }
    if (report.free_kib.value_or(0) > report.total_kib) {
        return fail("fr={} is above tot={}", *report.free_kib, report.total_kib);
    }
    if (report.brake_kib.value_or(0) > report.total_kib) {
        return fail("brk={} is above tot={}", *report.brake_kib, report.total_kib);
    }
    if (report.swap_free_kib > report.swap_total_kib) {
        return fail("swf={} is above swt={}", report.swap_free_kib, report.swap_total_kib);
    }
    if (report.full_us && !report.some_us) {
        return fail("full= without some=");
    }
    return report;
}

Expected<Report> read_fields(const Fields& fields) {
    Report report;
    const auto why = parse_why(fields);
    if (!why) {
        return tl::unexpected(why.error());
    }
    report.why = *why;
    for (const NumberField& known : kNumberFields) {
        const Field* const field = fields.find(known.name);
        if (field == nullptr && known.required) {
            return fail("{}= is missing", known.name);
        }
        if (field == nullptr) {
            continue;
        }
        const auto number = parse_number(*field);
        if (!number) {
            return tl::unexpected(number.error());
        }
        report.*known.member = *number;
    }
    for (const OptionalField& known : kOptionalFields) {
        const auto number = parse_optional(fields, known.name);
        if (!number) {
            return tl::unexpected(number.error());
        }
        report.*known.member = *number;
    }
    return check_sense(report);
}

}  // namespace

Expected<Report> parse_report(std::string_view untrusted_text) {
    if (untrusted_text.size() > kReportMaxBytes) {
        return fail("{} bytes long, the most allowed is {}", untrusted_text.size(),
                    kReportMaxBytes);
    }
    if (!untrusted_text.starts_with(kVersion)) {
        return fail("does not begin with \"1 \", the version of the format");
    }
    const auto fields = split_fields(untrusted_text.substr(kVersion.size()));
    if (!fields) {
        return tl::unexpected(fields.error());
    }
    return read_fields(*fields);
}

std::string format_report(const Report& report) {
    std::string text =
        fmt::format("1 why={} n={} up={} hb={} tot={} av={} swt={} swf={} si={} rf={}",
                    name_of(report.why), report.sequence, report.uptime_ms, report.heartbeat_s,
                    report.total_kib, report.available_kib, report.swap_total_kib,
                    report.swap_free_kib, report.swap_ins, report.refaults);
    for (const OptionalField& known : kOptionalFields) {
        if (report.*known.member) {
            text += fmt::format(" {}={}", known.name, *(report.*known.member));
        }
    }
    return text;
}

std::string_view name_of(ReportWhy why) {
    switch (why) {
        case ReportWhy::start:
            return "start";
        case ReportWhy::psi:
            return "psi";
        case ReportWhy::low:
            return "low";
        case ReportWhy::change:
            return "change";
        case ReportWhy::calm:
            return "calm";
        case ReportWhy::heartbeat:
            return "heartbeat";
    }
    return "heartbeat";  // unreachable: the switch names every value
}

}  // namespace xenpack
