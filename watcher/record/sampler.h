// SPDX-License-Identifier: LGPL-2.1-or-later
// Sampler: looks at a Place: its memory, its pressure, what its processes read, write and touch.
// Called by a Recording at each tick. It reads files below the Place and clears accessed bits;
// it keeps no time and decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "watcher/error.h"
#include "watcher/record/place.h"
#include "watcher/record/sample.h"

namespace xenpack::record {

class Sampler {
  public:
    // Which pages are touched is looked at soon after the bits were cleared, for what is touched
    // within a second, and again for what is touched within ten. The ten become more where looking
    // takes long, so that it takes at most a hundredth of the time.
    static constexpr std::int64_t kShortMs = 1'000;
    static constexpr std::int64_t kSpanMs = 10'000;

    explicit Sampler(Place place) : place_(std::move(place)) {}

    // at_ms ascends from call to call. Processes that end meanwhile are left out.
    [[nodiscard]] Expected<Sample> sample(std::int64_t at_ms);

    // A child that has ended and is about to be waited for: what it read is not forgotten.
    void child_ended(int pid);

    // Whether touched pages could be seen at all; false also before the first sample.
    [[nodiscard]] bool sees_touched() const { return sees_touched_; }

  private:
    [[nodiscard]] Expected<Memory> memory() const;
    [[nodiscard]] std::optional<std::uint64_t> stalled_us() const;
    [[nodiscard]] std::vector<int> processes() const;
    [[nodiscard]] Io io(const std::vector<int>& pids) const;
    [[nodiscard]] Touched touched(const std::vector<int>& pids) const;
    [[nodiscard]] std::optional<Look> look(const std::vector<int>& pids, std::int64_t at_ms);
    void clear(const std::vector<int>& pids, std::int64_t at_ms);

    Place place_;
    Io ended_;
    std::int64_t cleared_ms_ = -1;
    bool looked_short_ = false;
    bool sees_touched_ = false;
    std::int64_t span_ms_ = kSpanMs;
};

}  // namespace xenpack::record
