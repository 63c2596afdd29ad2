// SPDX-License-Identifier: LGPL-2.1-or-later
// The drawing of a simulation: well-formed whatever the names are, complete, and of bounded size.
#include <gtest/gtest.h>

// A known false alarm of gcc 12 inside <regex> under the sanitizers (its bug 105562).
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <regex>
#include <string>
#include <vector>

#include "watcher/simulate/drawing.h"

namespace xenpack::simulate {
namespace {

// What is wrong with an XML text of the kind that is drawn; "" for nothing.
std::string fault_of(const std::string& xml) {
    std::vector<std::string> open;
    const std::regex tag(R"(^<(/?)([a-z]+)((?: [a-zA-Z-]+="[^"<>]*")*)(/?)>)");
    const std::regex entity("&(?!(amp|lt|gt|quot|apos);)");
    std::size_t at = 0;
    while (at < xml.size()) {
        if (xml[at] != '<') {
            const std::size_t end = std::min(xml.find('<', at), xml.size());
            const std::string words = xml.substr(at, end - at);
            if (words.find('>') != std::string::npos || std::regex_search(words, entity)) {
                return "bad text: " + words;
            }
            at = end;
            continue;
        }
        const std::size_t end = xml.find('>', at);
        std::smatch match;
        const std::string one =
            end == std::string::npos ? xml.substr(at) : xml.substr(at, end - at + 1);
        if (!std::regex_match(one, match,
                              std::regex(R"(<(/?)([a-z]+)((\s+[a-zA-Z:-]+="[^"<>]*")*)(/?)>)"))) {
            return "bad tag: " + one.substr(0, 80);
        }
        if (match[1] == "/") {
            if (open.empty() || open.back() != match[2]) {
                return "closes what is not open: " + one;
            }
            open.pop_back();
        } else if (match[5] != "/") {
            open.push_back(match[2]);
        }
        at = end + 1;
    }
    return open.empty() ? "" : "left open: " + open.back();
}

Outcome outcome_of(std::size_t zones, std::size_t seconds) {
    Outcome outcome;
    for (std::size_t second = 1; second <= seconds; ++second) {
        Sample sample;
        sample.at_ms = static_cast<std::int64_t>(second) * 1000;
        sample.free_kib = 1000;
        sample.current_kib.assign(zones, 5000 + second);
        sample.stalled_us.assign(zones, second == 5 ? 250'000 : 0);
        sample.oom_kills.assign(zones, second > 7 ? 1 : 0);
        outcome.samples.push_back(sample);
    }
    return outcome;
}

Drawing drawing_of(const Outcome& outcome, std::vector<std::string> workloads) {
    return {"A host", "for a test", 4 * 1024 * 1024, {{"xenpack", &outcome, std::move(workloads)}}};
}

std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
        ++found;
    }
    return found;
}

TEST(Drawing, TheTestsOwnCheckFindsFaults) {
    EXPECT_EQ(fault_of("<a x=\"1\"><b/>t &amp; t</a>"), "");
    EXPECT_NE(fault_of("<a><b></a>"), "");
    EXPECT_NE(fault_of("<a>R&D</a>"), "");
    EXPECT_NE(fault_of("<a x=\"<\"/>"), "");
    EXPECT_NE(fault_of("<a>"), "");
}

TEST(Drawing, IsWellFormedAndHasTitleAxesAndLegend) {
    const Outcome outcome = outcome_of(3, 10);
    const std::string svg = draw(drawing_of(outcome, {"web", "db", "web"}));
    EXPECT_EQ(fault_of(svg), "");
    for (const char* words : {"A host", "for a test", "memory, GiB", "time, seconds", "stalled",
                              ">web<", ">db<", ">free<", "the host", "Xen, dom0"}) {
        EXPECT_NE(svg.find(words), std::string::npos) << words;
    }
    EXPECT_EQ(svg.find("http", svg.find("svg\"") + 1),
              std::string::npos);  // nothing from elsewhere
}

TEST(Drawing, IsWellFormedWhateverNamesAre) {
    const Outcome outcome = outcome_of(2, 10);
    Drawing drawing = drawing_of(outcome, {"</text><script>&\"'", "\x01\xff\xed\xa0\x80 \xc3\xa9"});
    drawing.title = "<&>";
    const std::string svg = draw(drawing);
    EXPECT_EQ(fault_of(svg), "");
    EXPECT_EQ(svg.find("<script"), std::string::npos);
    EXPECT_EQ(svg.find('\x01'), std::string::npos);
    EXPECT_NE(svg.find("\xc3\xa9"), std::string::npos);
}

TEST(Drawing, MarksStallsAndKills) {
    const Outcome outcome = outcome_of(2, 10);
    const std::string svg = draw(drawing_of(outcome, {"web", "db"}));
    EXPECT_NE(svg.find("25 %"), std::string::npos);
    EXPECT_NE(svg.find("<title>2 killed</title>"), std::string::npos);
    EXPECT_EQ(count(svg, "<title>"), 2U);
}

TEST(Drawing, StacksZonesUpToTheHost) {
    Outcome outcome;
    Sample sample;
    sample.at_ms = 1000;
    sample.free_kib = 1024 * 1024;
    sample.current_kib = {1024 * 1024, 1024 * 1024};
    sample.stalled_us = {0, 0};
    sample.oom_kills = {0, 0};
    outcome.samples = {sample};
    const std::string svg = draw(drawing_of(outcome, {"a", "a"}));
    // 250 pixels are 1.08 times 4 GiB: 1 GiB of Xen and the like, then two zones of 1 GiB. The
    // lower edge of each is the upper edge of what is under it.
    const std::regex area(R"(<path d="M\d+\.\d (\d+\.\d) \d+\.\d (\d+\.\d) Z" fill)");
    std::vector<std::pair<double, double>> edges;
    for (auto match = std::sregex_iterator(svg.begin(), svg.end(), area);
         match != std::sregex_iterator(); ++match) {
        edges.emplace_back(std::stod((*match)[1]), std::stod((*match)[2]));
    }
    ASSERT_EQ(edges.size(), 4U);
    for (std::size_t i = 1; i < edges.size(); ++i) {
        EXPECT_NEAR(edges[i].second - edges[i].first, 250 / 4.32, 0.2);
        if (i > 1) {
            EXPECT_DOUBLE_EQ(edges[i].second, edges[i - 1].first);
        }
    }
}

TEST(Drawing, KeepsALegibleLegendAndABoundedSizeWithManyZones) {
    const Outcome outcome = outcome_of(500, 2'000);
    std::vector<std::string> names;
    for (int i = 0; i < 500; ++i) {
        names.push_back("workload " + std::to_string(i % 40));
    }
    const std::string svg = draw(drawing_of(outcome, names));
    EXPECT_EQ(fault_of(svg), "");
    EXPECT_NE(svg.find("32 others"), std::string::npos);
    EXPECT_EQ(count(svg, ">workload "), 8U);
    EXPECT_LT(svg.size(), 300'000U);
}

TEST(Drawing, SaysThatNothingWasSampled) {
    const Outcome outcome;
    const std::string svg = draw(drawing_of(outcome, {}));
    EXPECT_EQ(fault_of(svg), "");
    EXPECT_NE(svg.find("nothing was sampled"), std::string::npos);
}

}  // namespace
}  // namespace xenpack::simulate
