// SPDX-License-Identifier: LGPL-2.1-or-later
// SaveHelpers: which domains are being saved, restored or migrated, by the helper processes libxl
// runs for that. Asked before a target is set: the helper copies a memory that must not change
// size. It reads /proc only while a helper runs or may have been started: reading it costs more
// than all the rest of setting a target. It must not keep any process's files open, and it changes
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/libxl/program_starts.h"
#include "watcher/error.h"

namespace xenpack {

class SaveHelpers {
  public:
    // `proc` is /proc; `places` are the files that the helper may be.
    SaveHelpers(std::string proc, const std::vector<std::string>& places)
        : proc_{std::move(proc)}, starts_{places} {}

    // Whether a helper works on this domain now, or did when last looked, at most kFresh ago.
    Expected<bool> works_on(std::uint32_t domid);

    // A helper can start the moment after any look, so a look this old is as good as a new one.
    // It lets a round of targets for many domains look once.
    static constexpr std::chrono::milliseconds kFresh{20};

  private:
    Expected<void> look();

    std::string proc_;
    ProgramStarts starts_;
    std::vector<std::uint32_t> domids_;
    bool looked_ = false;
    std::chrono::steady_clock::time_point looked_at_;
};

}  // namespace xenpack
