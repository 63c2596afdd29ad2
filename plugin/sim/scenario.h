// SPDX-License-Identifier: LGPL-2.1-or-later
// Scenario: which host and which zones are simulated, read whole and checked from a file that
// xenpack-sim(7) describes. The plugin loads one when it is opened. It reads files; it simulates
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/sim/host.h"
#include "plugin/sim/trace.h"
#include "watcher/error.h"

namespace xenpack::sim {

// What a zone's reporter does.
enum class ReporterHabit {
    truthful,  // as xenpack-guest
    silent,    // none runs
    garbled,   // writes what is no report
    flooding,  // writes without pause
    lying,     // writes what is not so, another thing each time
    dying      // as xenpack-guest, for its first report
};

// What its reporter makes of a request by dom0.
enum class Compliance {
    works,
    fails,  // and says so
    hangs   // and never answers
};

// Times are in ms since the beginning, which is when the plugin was opened.
struct ZonePlan {
    std::string name;
    DomainConfig config;
    std::shared_ptr<const Trace> trace;
    ReporterHabit reporter = ReporterHabit::truthful;
    std::uint64_t heartbeat_s = 30;
    std::int64_t start_ms = 0;
    std::optional<std::int64_t> end_ms;  // it shuts down; after start_ms
    std::int64_t save_ms = 0;            // it is saved, and goes on when that is over
    std::int64_t save_for_ms = 0;        // 0: it is not
    Compliance quiesce = Compliance::works;
    Compliance identity = Compliance::works;  // in a fork
    bool suspends = true;
    std::optional<std::int64_t>
        forks_end_ms;  // each of its forks shuts down when it has run for so long
};

struct Scenario {
    HostConfig host;
    unsigned cpus = 4;
    bool sharing = true;          // of memory, which forks need
    std::vector<ZonePlan> zones;  // names differ; in the file's order
};

inline constexpr std::size_t kMostZones = 10'000;

// Errors are one line, "FILE:LINE: what, why, what to do", and their code is EINVAL; where the file
// itself cannot be read it is "FILE: why".
[[nodiscard]] Expected<Scenario> load_scenario(const std::string& path);
// `file` names the text in errors; traces that it names are relative to that file's folder.
[[nodiscard]] Expected<Scenario> parse_scenario(std::string_view text, const std::string& file);

// What is simulated where nobody said what: a host of 4 GiB, on which three zones take turns. The
// text of it, as a file would hold it.
[[nodiscard]] std::string_view built_in_scenario();

}  // namespace xenpack::sim
