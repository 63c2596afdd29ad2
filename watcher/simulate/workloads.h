// SPDX-License-Identifier: LGPL-2.1-or-later
// Workloads: generated traces by the names that `xenpack simulate` knows them by. Called by the
// command line. Pure; what is recorded is read elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/sim/trace.h"
#include "watcher/error.h"

namespace xenpack::simulate {

struct Kind {
    std::string_view name;
    std::string_view about;
};
// "bursts", "day", "idle", "ramp", "sawtooth", "training".
[[nodiscard]] const std::vector<Kind>& kinds();

// "KIND" or "KIND:SIZE", where SIZE (as in xenpack.conf) is the most that it wants at once, cache
// and all: the kind's usual figures are scaled to it. None where the word begins with no kind.
struct Generator {
    std::string_view kind;
    std::optional<std::uint64_t> peak_kib;
};
[[nodiscard]] std::optional<Expected<Generator>> parse_generator(std::string_view word);

// Its peak is exactly the generator's, where that has one.
[[nodiscard]] sim::Trace generate(const Generator& generator, std::uint64_t seed);

}  // namespace xenpack::simulate
