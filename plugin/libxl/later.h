// SPDX-License-Identifier: LGPL-2.1-or-later
// Later: pieces of work done one after the other, each in a round of the loop of its own, so that
// the loop has room for all else between two. What libxl calls back may come from within the call
// that began it, so its consequences are put here. Owned by the toolstack, outlives all that gives
// it work.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "plugin/libxl/soon.h"
#include "plugin/toolstack.h"

namespace xenpack {

class Later {
  public:
    // `watcher` must outlive this.
    explicit Later(const xenpack_watcher_ops& watcher)
        : watcher_{watcher}, soon_{watcher, [this] { run_first(); }} {}

    void add(std::function<void()> work);

    // Does what there is, and what that adds: for when there is no loop any more.
    void run_all() noexcept;

  private:
    void run_first() noexcept;
    void do_first() noexcept;
    void wake() noexcept;

    const xenpack_watcher_ops& watcher_;
    std::deque<std::function<void()>> work_;
    Soon soon_;
};

}  // namespace xenpack
