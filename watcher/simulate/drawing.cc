// SPDX-License-Identifier: LGPL-2.1-or-later
// Drawing: samples are put into as many columns as can be told apart, then areas are stacked.
// Numbers are written with one decimal, whatever the locale. Pure.
#include "watcher/simulate/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "watcher/simulate/xml_text.h"

namespace xenpack::simulate {
namespace {

constexpr double kWidth = 960;
constexpr double kLeft = 80;    // of the plot: room for the numbers at the axis
constexpr double kRight = 940;  // its right end
constexpr double kHead = 62;    // title and subtitle
constexpr double kPanel = 400;  // height of a panel with its axes
constexpr double kPanelTitle = 22;
constexpr double kPlot = 250;
constexpr double kStrip = 46;  // of stalls, below the plot
constexpr double kGap = 14;
constexpr double kLegendRow = 20;
constexpr std::size_t kColumns = 300;
constexpr std::size_t kLegendMost = 8;       // workloads with a colour of their own
constexpr std::size_t kZonesToldApart = 64;  // of more, only the workloads' borders are drawn

// Eight hues that differ in lightness too, by Okabe and Ito's rule for readers who see fewer
// colours; "others" is a grey.
constexpr std::array<std::string_view, kLegendMost> kColours = {
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#5d4a8a"};
constexpr std::string_view kOthers = "#8c8c8c";
constexpr std::string_view kSystem = "#4a4a4a";
constexpr std::string_view kFree = "#f4f4f4";
constexpr std::string_view kStall = "#c62828";

template <class... Args>
void put(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

// A step of 1, 2 or 5 times a power of `base` that gives at most `most` steps.
double nice_step(double range, double most) {
    const double rough = range / most;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= rough) {
            return factor * power;
        }
    }
    return 10 * power;
}

// One column of the drawing: several samples.
struct Column {
    std::int64_t at_ms = 0;
    std::uint64_t free_kib = 0;
    std::vector<std::uint64_t> zones_kib;
    double stalled_share = 0;  // of the zones' time
    std::uint64_t kills = 0;
};

std::vector<Column> columns_of(const std::vector<Sample>& samples) {
    const std::size_t group = (samples.size() + kColumns - 1) / kColumns;
    std::vector<Column> columns;
    std::vector<std::uint64_t> kills_before;
    std::int64_t before_ms = 0;
    for (std::size_t from = 0; from < samples.size(); from += group) {
        const std::size_t to = std::min(from + group, samples.size());
        const Sample& last = samples[to - 1];
        Column column{last.at_ms, last.free_kib, last.current_kib, 0, 0};
        std::uint64_t stalled_us = 0;
        for (std::size_t i = from; i < to; ++i) {
            for (const std::uint64_t us : samples[i].stalled_us) {
                stalled_us += us;
            }
        }
        const auto zones = static_cast<double>(last.current_kib.size());
        const double us = zones * static_cast<double>(last.at_ms - before_ms) * 1000;
        column.stalled_share = us > 0 ? std::min(1.0, static_cast<double>(stalled_us) / us) : 0;
        kills_before.resize(last.oom_kills.size());
        for (std::size_t zone = 0; zone < last.oom_kills.size(); ++zone) {
            column.kills += last.oom_kills[zone] - kills_before[zone];
            kills_before[zone] = last.oom_kills[zone];
        }
        before_ms = last.at_ms;
        columns.push_back(std::move(column));
    }
    return columns;
}

// Which colour a workload has, in all panels. By its share of all memory that was held.
class Palette {
  public:
    explicit Palette(const std::vector<Panel>& panels) {
        std::map<std::string, double> held;
        for (const Panel& panel : panels) {
            for (const Sample& sample : panel.outcome->samples) {
                for (std::size_t zone = 0; zone < sample.current_kib.size(); ++zone) {
                    held[name_of(panel, zone)] += static_cast<double>(sample.current_kib[zone]);
                }
            }
        }
        std::vector<std::pair<double, std::string>> sorted;
        sorted.reserve(held.size());
        for (const auto& [name, kib] : held) {
            sorted.emplace_back(-kib, name);
        }
        std::sort(sorted.begin(), sorted.end());
        for (const auto& each : sorted) {
            (names_.size() < kLegendMost ? names_ : others_).push_back(each.second);
        }
    }

    // Its place in the stack: the named ones first, then all others together.
    [[nodiscard]] std::size_t place(const Panel& panel, std::size_t zone) const {
        const auto found = std::find(names_.begin(), names_.end(), name_of(panel, zone));
        return static_cast<std::size_t>(found - names_.begin());
    }
    [[nodiscard]] static std::string_view colour(std::size_t place) {
        return place < kColours.size() ? kColours[place] : kOthers;
    }
    [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
    [[nodiscard]] std::size_t others() const { return others_.size(); }

  private:
    [[nodiscard]] static std::string name_of(const Panel& panel, std::size_t zone) {
        return zone < panel.workloads.size() ? panel.workloads[zone] : std::string("?");
    }

    std::vector<std::string> names_;
    std::vector<std::string> others_;
};

// From data to places on the page.
struct Axes {
    double top = 0;  // of the plot
    double ms = 1;   // along its width
    double kib = 1;  // up its height

    [[nodiscard]] double x(std::int64_t at_ms) const {
        return kLeft + (kRight - kLeft) * static_cast<double>(at_ms) / ms;
    }
    [[nodiscard]] double y(std::uint64_t at_kib) const {
        return top + kPlot * (1 - std::min(1.0, static_cast<double>(at_kib) / kib));
    }
    [[nodiscard]] double bottom() const { return top + kPlot; }
};

void put_area(std::string& text, const Axes& axes, const std::vector<Column>& columns,
              const std::vector<std::uint64_t>& low, const std::vector<std::uint64_t>& high,
              std::string_view style) {
    put(text, "<path d=\"M");
    for (std::size_t i = 0; i < columns.size(); ++i) {
        put(text, "{:.1f} {:.1f} ", axes.x(columns[i].at_ms), axes.y(high[i]));
    }
    for (std::size_t i = columns.size(); i-- > 0;) {
        put(text, "{:.1f} {:.1f} ", axes.x(columns[i].at_ms), axes.y(low[i]));
    }
    put(text, "Z\" {}/>\n", style);
}

// All zones in the order of the stack: workload by workload, in each in the order of starts.
std::vector<std::size_t> stacked(const Panel& panel, const Palette& palette, std::size_t zones) {
    std::vector<std::size_t> order(zones);
    for (std::size_t zone = 0; zone < zones; ++zone) {
        order[zone] = zone;
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return palette.place(panel, a) < palette.place(panel, b);
    });
    return order;
}

void put_zones(std::string& text, const Axes& axes, const Panel& panel, const Palette& palette,
               const std::vector<Column>& columns, std::vector<std::uint64_t> low) {
    const std::size_t zones = columns.back().zones_kib.size();
    const bool apart = zones <= kZonesToldApart;
    const std::vector<std::size_t> order = stacked(panel, palette, zones);
    std::vector<std::uint64_t> high = low;
    for (std::size_t n = 0; n < order.size(); ++n) {
        const std::size_t zone = order[n];
        for (std::size_t i = 0; i < columns.size(); ++i) {
            high[i] += zone < columns[i].zones_kib.size() ? columns[i].zones_kib[zone] : 0;
        }
        const std::size_t place = palette.place(panel, zone);
        const bool ends = n + 1 == order.size() || palette.place(panel, order[n + 1]) != place;
        if (!apart && !ends) {
            continue;
        }
        put_area(text, axes, columns, low, high,
                 fmt::format("fill=\"{}\" fill-opacity=\"{}\" stroke=\"#fff\" stroke-width=\"0.4\"",
                             Palette::colour(place), n % 2 == 0 || !apart ? "0.95" : "0.75"));
        low = high;
    }
}

// Xen, dom0, and what zones cost beside their memory: all that is neither free nor a zone's.
std::vector<std::uint64_t> system_kib(const std::vector<Column>& columns, std::uint64_t host_kib) {
    std::vector<std::uint64_t> result;
    for (const Column& column : columns) {
        std::uint64_t known = column.free_kib;
        for (const std::uint64_t kib : column.zones_kib) {
            known += kib;
        }
        result.push_back(host_kib - std::min(host_kib, known));
    }
    return result;
}

void put_text(std::string& text, double x, double y, std::string_view anchor,
              std::string_view words, std::string_view more = "") {
    put(text, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
        more, escaped_xml(words));
}

void put_memory_axis(std::string& text, const Axes& axes, std::uint64_t host_kib) {
    constexpr double kGib = 1024.0 * 1024;
    const bool gib = static_cast<double>(host_kib) >= 2 * kGib;
    const double unit = gib ? kGib : 1024;
    const double most = axes.kib / unit;
    const double step = nice_step(most, 6);
    for (double at = 0; at <= most; at += step) {
        const double y = axes.y(static_cast<std::uint64_t>(at * unit));
        put(text, "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#000\" stroke-opacity=\"0.12\"/>\n",
            kLeft, y, kRight);
        put_text(text, kLeft - 6, y + 4, "end", fmt::format("{:g}", at));
    }
    const double middle = (axes.top + axes.bottom()) / 2;
    put_text(text, 24, middle, "middle", gib ? "memory, GiB" : "memory, MiB",
             fmt::format(" transform=\"rotate(-90 24 {:.1f})\"", middle));
    put(text,
        "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#000\" stroke-width=\"1.5\" "
        "stroke-dasharray=\"6 3\"/>\n",
        kLeft, axes.y(host_kib), kRight);
    put_text(text, kRight, axes.y(host_kib) - 4, "end", "the host");
}

void put_time_axis(std::string& text, const Axes& axes, double below) {
    const bool minutes = axes.ms >= 120'000;
    const double unit = minutes ? 60'000 : 1'000;
    const double step = nice_step(axes.ms / unit, 12);
    for (double at = 0; at <= axes.ms / unit; at += step) {
        const double x = axes.x(static_cast<std::int64_t>(at * unit));
        put(text, "<path d=\"M{:.1f} {:.1f}v4\" stroke=\"#000\"/>\n", x, below);
        put_text(text, x, below + 17, "middle", fmt::format("{:g}", at));
    }
    put_text(text, (kLeft + kRight) / 2, below + 34, "middle",
             minutes ? "time, minutes" : "time, seconds");
}

// How much of the zones' time was lost, as bars on a scale of their own.
void put_stalls(std::string& text, const Axes& axes, const std::vector<Column>& columns) {
    const double top = axes.bottom() + kGap;
    const double bottom = top + kStrip;
    double most = 0.01;
    for (const Column& column : columns) {
        most = std::max(most, column.stalled_share);
    }
    put(text, "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#000\"/>\n", kLeft, bottom, kRight);
    put_text(text, kLeft - 6, top + 9, "end", fmt::format("{:.0f} %", std::ceil(most * 100)));
    put_text(text, kLeft - 6, bottom, "end", "0");
    put_text(text, 24, (top + bottom) / 2, "middle", "stalled",
             fmt::format(" transform=\"rotate(-90 24 {:.1f})\"", (top + bottom) / 2));
    const double width = std::max(0.8, (kRight - kLeft) / static_cast<double>(columns.size()));
    const double scale = kStrip / (std::ceil(most * 100) / 100);
    for (const Column& column : columns) {
        if (column.stalled_share > 0) {
            // Something that happened is seen, however little it was.
            const double height = std::max(0.6, column.stalled_share * scale);
            put(text,
                "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                "fill=\"{}\"/>\n",
                std::max(kLeft, axes.x(column.at_ms) - width), bottom - height, width, height,
                kStall);
        }
        if (column.kills > 0) {
            const double x = axes.x(column.at_ms);
            put(text,
                "<path d=\"M{:.1f} {:.1f}l8 8m0 -8l-8 8\" stroke=\"{}\" "
                "stroke-width=\"2\"><title>{} killed</title></path>\n",
                x - 4, axes.bottom() - 12, kStall, column.kills);
        }
    }
}

void put_panel(std::string& text, const Panel& panel, const Palette& palette,
               std::uint64_t host_kib, double top, double ms) {
    put_text(text, kLeft, top + 14, "start", panel.title, " font-weight=\"bold\"");
    const std::vector<Column> columns = columns_of(panel.outcome->samples);
    // A little above the host's size, for the line that shows it.
    const Axes axes{top + kPanelTitle, ms, static_cast<double>(host_kib) * 1.08};
    if (columns.empty()) {
        put_text(text, (kLeft + kRight) / 2, axes.top + kPlot / 2, "middle", "nothing was sampled");
        return;
    }
    const std::vector<std::uint64_t> none(columns.size(), 0);
    const std::vector<std::uint64_t> all(columns.size(), host_kib);
    const std::vector<std::uint64_t> system = system_kib(columns, host_kib);
    put_area(text, axes, columns, none, all, fmt::format("fill=\"{}\"", kFree));
    put_area(text, axes, columns, none, system, fmt::format("fill=\"{}\"", kSystem));
    if (!columns.back().zones_kib.empty()) {
        put_zones(text, axes, panel, palette, columns, system);
    }
    put_memory_axis(text, axes, host_kib);
    put_stalls(text, axes, columns);
    put_time_axis(text, axes, axes.bottom() + kGap + kStrip);
}

struct Entry {
    std::string name;
    std::string_view colour;
};

std::vector<Entry> legend_of(const Palette& palette) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < palette.names().size(); ++i) {
        entries.push_back({palette.names()[i], Palette::colour(i)});
    }
    if (palette.others() > 0) {
        entries.push_back({fmt::format("{} others", palette.others()), kOthers});
    }
    entries.push_back({"free", kFree});
    entries.push_back({"Xen, dom0, overhead", kSystem});
    entries.push_back({"time zones stalled; \u00d7 killed", kStall});
    return entries;
}

constexpr double kEntryWidth = 215;
constexpr std::size_t kEntriesInRow = 4;
constexpr std::size_t kNameMost = 30;  // bytes of a name in the legend

void put_legend(std::string& text, const std::vector<Entry>& entries, double top) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::size_t row = i / kEntriesInRow;
        const double x = kLeft + static_cast<double>(i % kEntriesInRow) * kEntryWidth;
        const double y = top + static_cast<double>(row) * kLegendRow;
        put(text,
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\" "
            "stroke=\"#999\" stroke-width=\"0.5\"/>\n",
            x, y, entries[i].colour);
        const std::string& name = entries[i].name;
        put_text(text, x + 18, y + 10.5, "start",
                 name.size() > kNameMost ? name.substr(0, kNameMost - 3) + "..." : name);
    }
}

}  // namespace

std::string draw(const Drawing& drawing) {
    const Palette palette(drawing.panels);
    const std::vector<Entry> legend = legend_of(palette);
    const double rows = std::ceil(static_cast<double>(legend.size()) / kEntriesInRow);
    const double legend_height = rows * kLegendRow + kGap;
    const double height =
        kHead + legend_height + kPanel * static_cast<double>(drawing.panels.size());
    std::int64_t ms = 1;
    for (const Panel& panel : drawing.panels) {
        for (const Sample& sample : panel.outcome->samples) {
            ms = std::max(ms, sample.at_ms);
        }
    }
    std::string text;
    put(text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<title>{2}</title>\n<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
        kWidth, height, escaped_xml(drawing.title));
    put_text(text, kLeft, 26, "start", drawing.title, " font-size=\"17\" font-weight=\"bold\"");
    put_text(text, kLeft, 46, "start", drawing.subtitle, " fill=\"#444\"");
    put_legend(text, legend, kHead);
    double top = kHead + legend_height;
    for (const Panel& panel : drawing.panels) {
        put_panel(text, panel, palette, drawing.host_kib, top, static_cast<double>(ms));
        top += kPanel;
    }
    return text + "</svg>\n";
}

}  // namespace xenpack::simulate
