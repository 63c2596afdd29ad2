// SPDX-License-Identifier: LGPL-2.1-or-later
// Groups of bars in rows, so that it stays legible whatever the number of sets.
#include "tests/bench/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "watcher/simulate/xml_text.h"

namespace xenpack::bench {
namespace {

constexpr unsigned kGroupsInRow = 4;
constexpr unsigned kBar = 15;
constexpr unsigned kGap = 34;
constexpr unsigned kPlot = 170;  // height of the tallest bar
constexpr unsigned kRow = 236;   // of a row of groups, names included
constexpr unsigned kLeft = 20;
constexpr unsigned kHead = 84;     // title and legend
constexpr unsigned kLegend = 140;  // width of one entry

// Ours in strong blue, the oracle black, peers in quiet colours that differ in lightness too.
constexpr std::array<std::string_view, 10> kPeerColours = {
    "#9e9e9e", "#e6ab02", "#d95f02", "#7fbf7b", "#1b7837",
    "#c51b7d", "#f4a582", "#8073ac", "#a6761d", "#80cdc1"};

std::string_view colour(const std::vector<Contender>& contenders, std::size_t who) {
    switch (contenders[who].role) {
        case Role::ours:
            return "#1f5fbf";
        case Role::variant:
            return "#6baed6";
        case Role::oracle:
            return "#222222";
        case Role::peer:
            break;
    }
    std::size_t peers = 0;
    for (std::size_t before = 0; before < who; ++before) {
        peers += contenders[before].role == Role::peer ? 1U : 0U;
    }
    return kPeerColours[peers % kPeerColours.size()];
}

void put_legend(std::string& text, const std::vector<Contender>& contenders, unsigned width) {
    const unsigned columns = std::max(1U, (width - kLeft) / kLegend);
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        const auto x = kLeft + static_cast<unsigned>(who) % columns * kLegend;
        const auto y = 44 + static_cast<unsigned>(who) / columns * 18;
        fmt::format_to(std::back_inserter(text),
                       "<rect x=\"{}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{}\"/>"
                       "<text x=\"{}\" y=\"{}\">{}</text>\n",
                       x, y, colour(contenders, who), x + 16, y + 10,
                       simulate::escaped_xml(contenders[who].name));
    }
}

void put_group(std::string& text, const SetScores& set, const std::vector<Contender>& contenders,
               unsigned left, unsigned base, unsigned most) {
    const auto width = static_cast<unsigned>(contenders.size()) * kBar;
    fmt::format_to(std::back_inserter(text),
                   "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"#888\"/>"
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" class=\"set\">{}</text>\n",
                   left, base, left + width, base, left + width / 2, base + 20,
                   simulate::escaped_xml(set.set));
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        const unsigned zones = set.scores[who].zones;
        const unsigned height = most == 0 ? 0 : zones * kPlot / most;
        const unsigned x = left + static_cast<unsigned>(who) * kBar;
        fmt::format_to(std::back_inserter(text),
                       "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\">"
                       "<title>{}: {} zones</title></rect>"
                       "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" class=\"n\">{}</text>\n",
                       x + 1, base - height, kBar - 2, height, colour(contenders, who),
                       simulate::escaped_xml(contenders[who].name), zones, x + kBar / 2,
                       base - height - 3, zones);
    }
}

}  // namespace

std::string chart_of(const std::vector<SetScores>& sets, const std::vector<Contender>& contenders) {
    unsigned most = 0;
    for (const SetScores& set : sets) {
        for (const Score& score : set.scores) {
            most = std::max(most, score.zones);
        }
    }
    const unsigned group = static_cast<unsigned>(contenders.size()) * kBar + kGap;
    const auto groups = static_cast<unsigned>(sets.size());
    const unsigned width = 2 * kLeft + std::min(std::max(groups, 1U), kGroupsInRow) * group;
    const unsigned rows = (groups + kGroupsInRow - 1) / kGroupsInRow;
    const unsigned height = kHead + rows * kRow + 10;
    std::string text = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
        "viewBox=\"0 0 {0} {1}\" role=\"img\">\n"
        "<style>text{{font:12px sans-serif;fill:#222}} .set{{font-weight:bold}} "
        ".n{{font-size:10px}} "
        ".h{{font-size:15px;font-weight:bold}}</style>\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"26\" class=\"h\">Zones per host at equal stalls, by what they "
        "do</text>\n",
        width, height, kLeft);
    put_legend(text, contenders, width);
    for (unsigned each = 0; each < groups; ++each) {
        const unsigned left = kLeft + each % kGroupsInRow * group;
        const unsigned base = kHead + each / kGroupsInRow * kRow + kPlot + 24;
        put_group(text, sets[each], contenders, left, base, most);
    }
    return text + "</svg>\n";
}

}  // namespace xenpack::bench
