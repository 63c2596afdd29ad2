// SPDX-License-Identifier: LGPL-2.1-or-later
// ProcReader: reads the kernel's memory figures. Opens its files once; reading allocates nothing.
// Used by Reporter, and by tests on a directory of their own. Not thread-safe.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/sample.h"
#include "watcher/guest/text_file.h"

namespace xenpack::guest {

class ProcReader {
  public:
    // root: where proc is mounted. meminfo must be there; a missing vmstat or pressure/memory only
    // makes paging() zeros and stalls() none.
    [[nodiscard]] static Expected<ProcReader> open(const std::string& root);

    [[nodiscard]] Expected<MemorySample> memory();
    [[nodiscard]] PagingCounts paging();
    // None where the kernel has no PSI, or it is switched off.
    [[nodiscard]] std::optional<StallTotals> stalls();

  private:
    explicit ProcReader(TextFile meminfo) : meminfo_(std::move(meminfo)) {}

    TextFile meminfo_;
    std::optional<TextFile> vmstat_;
    std::optional<TextFile> pressure_;
    // vmstat, the longest, is about 5 KiB in Linux 6.
    std::array<char, 16384> buffer_{};
};

}  // namespace xenpack::guest
