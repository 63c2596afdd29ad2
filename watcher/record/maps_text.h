// SPDX-License-Identifier: LGPL-2.1-or-later
// MapsSum: /proc/PID/smaps of many processes, added up into what they have touched. Called by
// Sampler with one text after another. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "watcher/error.h"
#include "watcher/record/sample.h"

namespace xenpack::record {

class MapsSum {
  public:
    // Fails at a line that smaps does not have; what came before it is counted.
    [[nodiscard]] Expected<void> add(std::string_view smaps);
    // Anonymous and shmem pages that several processes map count by their proportional share, the
    // pages of a part of a file as often as the process that touched most of them.
    [[nodiscard]] Touched total() const;

  private:
    struct Area {
        bool file = false;
        std::string part;  // of a file: device, inode, offset
        std::uint64_t rss_kib = 0;
        std::uint64_t share_kib = 0;  // Pss
        std::uint64_t referenced_kib = 0;
        std::uint64_t anonymous_kib = 0;
    };

    void close(const Area& area);
    [[nodiscard]] static Expected<Area> head(std::string_view line);
    [[nodiscard]] static Expected<void> figure(std::string_view line, Area& area);

    double anon_kib_ = 0;
    double anon_touched_kib_ = 0;
    std::map<std::string, std::uint64_t> files_;  // touched, by part
};

}  // namespace xenpack::record
