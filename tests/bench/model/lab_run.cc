// SPDX-License-Identifier: LGPL-2.1-or-later
// Line by line into a LabRun, then whether it is whole. Called by model_check.
#include "tests/bench/model/lab_run.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace xenpack::bench {
namespace {

using Words = std::vector<std::string_view>;

Words words_of(std::string_view line) {
    Words words;
    while (true) {
        const std::size_t first = line.find_first_not_of(' ');
        if (first == std::string_view::npos) {
            return words;
        }
        line.remove_prefix(first);
        const std::size_t end = std::min(line.find(' '), line.size());
        words.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

std::optional<std::int64_t> number(std::string_view text) {
    std::int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool good = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
    return good && value >= 0 ? std::optional(value) : std::nullopt;
}

// NAME=NUMBER words of a line. Asking for what is not there, or is no number, is remembered.
class Fields {
  public:
    explicit Fields(const Words& words) {
        for (const std::string_view word : words) {
            if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
                values_[word.substr(0, equals)] = word.substr(equals + 1);
            }
        }
    }
    [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
    std::uint64_t take(std::string_view name) {
        const auto found = values_.find(name);
        const auto value = found == values_.end() ? std::nullopt : number(found->second);
        if (!value && missing_.empty()) {
            missing_ = name;
        }
        return static_cast<std::uint64_t>(value.value_or(0));
    }
    [[nodiscard]] const std::string& missing() const { return missing_; }

  private:
    std::map<std::string_view, std::string_view> values_;
    std::string missing_;
};

class Reader {
  public:
    Expected<LabRun> read(std::string_view text) {
        for (std::size_t line_number = 1; !text.empty(); ++line_number) {
            const std::size_t end = std::min(text.find('\n'), text.size());
            std::string_view line = text.substr(0, end);
            text.remove_prefix(std::min(end + 1, text.size()));
            if (line.ends_with('\r')) {
                line.remove_suffix(1);
            }
            constexpr std::string_view kData = "data ";
            if (line.starts_with(kData) && !take(line.substr(kData.size()))) {
                return fail("line {}: this cannot be read: {}", line_number, line);
            }
        }
        return whole();
    }

  private:
    bool take(std::string_view line) {
        const Words words = words_of(line);
        if (words.size() < 2 || words[0] == "log") {
            return !words.empty();
        }
        Fields fields(words);
        if (words[0] == "trace") {
            const std::string_view name = words[1];
            traces_[zone(name)] += std::string(line.substr(line.find(name) + name.size())) + "\n";
        } else if (words[0] == "followed") {
            run_.zones[zone(words[1])].disk_kib_per_s = fields.take("disk_kib_per_s");
        } else if (const auto at_ms = number(words[1]); !at_ms || !timed(words, *at_ms, fields)) {
            return false;
        }
        return fields.missing().empty();
    }

    bool timed(const Words& words, std::int64_t at_ms, Fields& fields) {
        if (words[0] == "daemon") {
            run_.memory_kib = fields.take("memory_kib");
            run_.max_memory_kib = fields.take("max_memory_kib");
            run_.start_reserve_kib = fields.take("start_reserve_kib");
        } else if (words[0] == "host") {
            run_.host.push_back({at_ms, fields.take("total"), fields.take("free")});
        } else if (words[0] == "zone" && words.size() > 2) {
            LabZone& sampled = run_.zones[zone(words[2])];
            sampled.samples.push_back({at_ms, fields.take("current"), fields.take("target")});
            if (fields.has("ms")) {
                take_workload(sampled, at_ms, fields);
            }
        } else {
            return false;
        }
        return true;
    }

    // The same is read again until the workload says something new.
    static void take_workload(LabZone& zone, std::int64_t at_ms, Fields& fields) {
        const WorkloadSample sample{.at_ms = at_ms,
                                    .place_ms = static_cast<std::int64_t>(fields.take("ms")),
                                    .anon_kib = fields.take("anon"),
                                    .file_kib = fields.take("file"),
                                    .stall_us = fields.take("stall_us"),
                                    .total_kib = fields.take("total"),
                                    .free_kib = fields.take("free"),
                                    .available_kib = fields.take("available"),
                                    .refaults = fields.take("refaults"),
                                    .kills = fields.take("kills")};
        if (zone.workload.empty() || zone.workload.back().place_ms != sample.place_ms) {
            zone.workload.push_back(sample);
        }
    }

    std::size_t zone(std::string_view name) {
        for (std::size_t i = 0; i < run_.zones.size(); ++i) {
            if (run_.zones[i].name == name) {
                return i;
            }
        }
        run_.zones.emplace_back().name = name;
        return run_.zones.size() - 1;
    }

    Expected<LabRun> whole() {
        if (run_.zones.empty() || run_.host.empty() || run_.max_memory_kib == 0) {
            return fail(
                "these are not the results of the lab's case \"model\": no zone, no host, "
                "or no line of the daemon's start");
        }
        for (std::size_t i = 0; i < run_.zones.size(); ++i) {
            LabZone& zone = run_.zones[i];
            auto trace = sim::parse_trace(traces_[i], zone.name);
            if (!trace) {
                return tl::unexpected<Error>(trace.error().during(zone.name));
            }
            zone.trace = std::move(*trace);
            if (zone.samples.empty() || zone.workload.empty()) {
                return fail("{}: there is no sample of it, or it followed no trace", zone.name);
            }
        }
        return std::move(run_);
    }

    LabRun run_;
    std::map<std::size_t, std::string> traces_;
};

template <class Samples>
const auto& last_before(const Samples& samples, std::int64_t ms) {
    const auto after =
        std::upper_bound(samples.begin(), samples.end(), ms,
                         [](std::int64_t value, const auto& each) { return value < each.at_ms; });
    return after == samples.begin() ? *after : *(after - 1);
}

}  // namespace

const LabSample& LabZone::at(std::int64_t ms) const {
    return last_before(samples, ms);
}

const WorkloadSample& LabZone::workload_at(std::int64_t ms) const {
    return last_before(workload, ms);
}

std::int64_t LabZone::began_ms() const {
    std::int64_t began = workload.front().at_ms;
    for (const WorkloadSample& each : workload) {
        if (each.stall_us == 0) {
            began = std::min(began, each.at_ms - each.place_ms);
        }
    }
    return began;
}

const HostSample& LabRun::host_at(std::int64_t ms) const {
    return last_before(host, ms);
}

Expected<LabRun> parse_lab_run(std::string_view text) {
    return Reader().read(text);
}

}  // namespace xenpack::bench
