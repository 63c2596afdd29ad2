// SPDX-License-Identifier: LGPL-2.1-or-later
// NoWatermarkBoost: keeps the kernel from raising its watermarks against fragmentation, for as long
// as the object lives. Reporter has one while it has a brake. It must not touch another setting.
//
// Why. Linux 5.0 and later raises the watermark below which it gives no more memory by 2 MiB each
// time a large page has to be made out of another kind's, by up to 1.5 times the high watermark,
// and leaves it there until kswapd has run (mm/page_alloc.c: boost_watermark;
// vm.watermark_boost_factor). Without swap and cache there is nothing for kswapd to reclaim, and in
// a zone that has to wait for the processor it does not run in time: the kernel has been seen to
// kill a workload with 108 MiB free, 74 of them boost, which MemAvailable knows nothing of.
#pragma once

#include <optional>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/text_file.h"

namespace xenpack::guest {

class NoWatermarkBoost {
  public:
    // `file`: /proc/sys/vm/watermark_boost_factor. None: this kernel knows no boost.
    [[nodiscard]] static Expected<std::optional<NoWatermarkBoost>> begin(const std::string& file);
    NoWatermarkBoost(NoWatermarkBoost&& other) noexcept;
    NoWatermarkBoost& operator=(NoWatermarkBoost&&) = delete;
    // Puts back what was there.
    ~NoWatermarkBoost();

  private:
    NoWatermarkBoost(TextFile factor, std::string before)
        : factor_(std::move(factor)), before_(std::move(before)) {}

    std::optional<TextFile> factor_;  // none: moved from
    std::string before_;
};

}  // namespace xenpack::guest
