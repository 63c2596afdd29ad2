// SPDX-License-Identifier: LGPL-2.1-or-later
// Lays out the account, and the density that was worked out of it: a table of domains, lines for
// families, a table of NUMA nodes, and the host's parts with their sum. Pure; must print nothing of
// the daemon's answer unescaped.
#include "watcher/cli/account_view.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "watcher/cli/cell.h"
#include "watcher/cli/quantity.h"

namespace xenpack {

namespace {

using nlohmann::json;

std::string numbers_of(const json& list) {
    std::string text;
    for (const json& number : list) {
        text += fmt::format("{}{}", text.empty() ? "" : ",", number.get<std::uint64_t>());
    }
    return text.empty() ? "-" : text;
}

std::string domains(const json& account, const Screen& screen) {
    using enum Table::Align;
    Table table({{"DOMAIN", left},
                 {"DOMID", right},
                 {"KIND", left},
                 {"OWN", right},
                 {"SHARED", right},
                 {"PAGING", right},
                 {"XEN", right},
                 {"TAKES", right},
                 {"FREES", right},
                 {"NODES", left}});
    for (const json& domain : account.at("domains")) {
        table.add_row({{text_of(domain.at("name"))},
                       {number_of(domain.at("domid"))},
                       {text_of(domain.at("kind"))},
                       {size_of(domain.at("own_kib"))},
                       {size_of(domain.at("shared_kib"))},
                       {size_of(domain.at("paging_kib"))},
                       {size_of(domain.at("records_kib"))},
                       {size_of(domain.at("takes_kib"))},
                       {size_of(domain.at("frees_kib"))},
                       {numbers_of(domain.at("nodes"))}});
    }
    return table.render(screen);
}

std::string families(const json& account) {
    std::string lines;
    for (const json& family : account.at("families")) {
        lines +=
            fmt::format("  {} and {} of its forks  {} for {}, {} of it shared\n",
                        text_of(family.at("template")), family.at("forks").get<std::uint64_t>(),
                        size_of(family.at("takes_kib")), size_of(family.at("sized_kib")),
                        size_of(family.at("shared_kib")));
    }
    return lines.empty() ? lines : "\nfamilies:\n" + lines;
}

// A host with one node has nothing to say here.
std::string nodes(const json& account, const Screen& screen) {
    using enum Table::Align;
    if (account.at("nodes").size() < 2) {
        return {};
    }
    Table table(
        {{"NODE", right}, {"SIZE", right}, {"FREE", right}, {"CPUS", right}, {"DISTANCES", left}});
    for (const json& node : account.at("nodes")) {
        table.add_row({{number_of(node.at("node"))},
                       {size_of(node.at("size_kib"))},
                       {size_of(node.at("free_kib"))},
                       {number_of(node.at("cpus"))},
                       {numbers_of(node.at("distances"))}});
    }
    return "\n" + table.render(screen);
}

struct Part {
    const char* member;
    const char* meaning;
};

constexpr std::array kParts{
    Part{"dom0_kib", "dom0"},
    Part{"zones_kib", "zones"},
    Part{"forks_kib", "forks, their own pages"},
    Part{"templates_kib", "templates, their own pages"},
    Part{"others_kib", "domains that are left alone"},
    Part{"shared_kib", "shared by templates and forks"},
    Part{"paging_kib", "the domains' page tables"},
    Part{"records_kib", "Xen's records of domains, estimated"},
    Part{"map_kib", "Xen's tables of the host's pages"},
    Part{"free_kib", "free"},
};

// Of what is free, and of what is shared.
std::string remarks(const json& host, const char* member) {
    const auto amount = [&](const char* name) { return host.at(name).get<std::uint64_t>(); };
    std::string text;
    const auto add = [&](const char* name, const char* words) {
        if (amount(name) > 0) {
            text +=
                fmt::format("{}{} {}", text.empty() ? ": " : ", ", show_size(amount(name)), words);
        }
    };
    if (std::string_view(member) == "free_kib") {
        add("claimed_kib", "claimed by domains being built");
        add("promised_to_starts_kib", "promised to starts");
    } else if (std::string_view(member) == "shared_kib") {
        add("saved_kib", "more without sharing");
    }
    return text;
}

std::string host(const json& account) {
    const json& host = account.at("host");
    const auto total = static_cast<double>(host.at("total_kib").get<std::uint64_t>());
    const auto line = [total](const json& kib, const std::string& meaning) {
        const double percent = total > 0 ? 100 * kib.get<double>() / total : 0;
        return fmt::format("  {:>10}  {:>6.2f}%  {}\n", size_of(kib), percent, meaning);
    };
    std::string lines = fmt::format("\nhost  {}\n", size_of(host.at("total_kib")));
    for (const Part& part : kParts) {
        if (host.at(part.member) > 0) {
            lines += line(host.at(part.member), part.meaning + remarks(host, part.member));
        }
    }
    lines += line(host.at("remainder_kib"),
                  host.at("at_rest").get<bool>()
                      ? "not explained: Xen itself"
                      : "not explained: Xen itself, and what moved while it was counted");
    return lines;
}

std::string density_lines(const json& density) {
    const auto zones = density.at("zones").get<std::uint64_t>();
    const auto sized = density.at("sized_kib").get<std::uint64_t>();
    const auto takes = density.at("takes_kib").get<std::uint64_t>();
    const auto overhead = density.at("overhead_kib").get<std::uint64_t>();
    if (zones == 0) {
        return takes == 0 ? "no zones\n"
                          : fmt::format("no zones; templates take {}\n", show_size(takes));
    }
    return fmt::format(
        "{} zones were made for {} and take {}: 1 to {:.2f}\n"
        "  ballooning saves {}, sharing {}; page tables and Xen's records cost {}, {} a zone\n",
        zones, show_size(sized), show_size(takes),
        takes > 0 ? static_cast<double>(sized) / static_cast<double>(takes) : 0,
        size_of(density.at("saved_by_ballooning_kib")), size_of(density.at("saved_by_sharing_kib")),
        show_size(overhead), show_size(overhead / zones));
}

}  // namespace

std::string render_account(const json& account, const Screen& screen) {
    return domains(account, screen) + families(account) + nodes(account, screen) + host(account);
}

std::string render_density(const json& account, const Screen& screen) {
    using enum Table::Align;
    const json& density = account.at("density");
    Table table({{"KIND", left},
                 {"ZONES", right},
                 {"EACH", right},
                 {"FIT NOW", right},
                 {"FIT MORE", right}});
    for (const json& kind : density.at("kinds")) {
        const json& base = kind.at("template");
        table.add_row({{base.is_null() ? fmt::format("made for {}", size_of(kind.at("sized_kib")))
                                       : "forks of " + text_of(base)},
                       {number_of(kind.at("count"))},
                       {size_of(kind.at("each_kib"))},
                       {number_of(kind.at("fit_now"))},
                       {number_of(kind.at("fit_more"))}});
    }
    return density_lines(density) +
           (density.at("kinds").empty() ? "" : "\n" + table.render(screen));
}

std::string render_cost(const json& cost) {
    return fmt::format("{}: {} of memory, {} beside it\n", size_of(cost.at("size_kib")),
                       size_of(cost.at("memory_kib")), size_of(cost.at("overhead_kib")));
}

}  // namespace xenpack
