// SPDX-License-Identifier: LGPL-2.1-or-later
// Workload: what a scenario says of a zone's demand (a trace's file, or a generator's figures) made
// into traces. Called by scenario.cc. It reads the files that are named; it must not know of zones.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "plugin/sim/keys.h"
#include "plugin/sim/trace.h"

namespace xenpack::sim {

using SharedTrace = std::shared_ptr<const Trace>;
// The trace of the n-th zone of a section, from 0: a generator's seed grows with it.
using Workload = std::function<SharedTrace(unsigned n)>;

class Workloads {
  public:
    // A trace's path is relative to `folder`.
    explicit Workloads(std::filesystem::path folder) : folder_(std::move(folder)) {}

    // Takes the keys of a zone's section that are about its demand. A problem stays in `keys`, and
    // the result is empty then.
    [[nodiscard]] Workload read(Keys& keys);

  private:
    [[nodiscard]] Workload from_file(Keys& keys, const std::string& name);

    std::filesystem::path folder_;
    std::map<std::string, SharedTrace> files_;  // each is read once
};

// What a file holds; an error where it cannot be read or holds more than `most_bytes`.
[[nodiscard]] Expected<std::string> read_file(const std::filesystem::path& path,
                                              std::size_t most_bytes);

}  // namespace xenpack::sim
