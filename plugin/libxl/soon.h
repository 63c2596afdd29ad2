// SPDX-License-Identifier: LGPL-2.1-or-later
// Soon: one piece of work done in the next round of the loop, however often it is asked for until
// then. libxl's callbacks use it, which may run where neither libxl nor the watcher may be called.
#pragma once

#include <functional>
#include <utility>

#include "plugin/toolstack.h"

namespace xenpack {

class Soon {
  public:
    // `watcher` must outlive this. `work` runs on the loop and may destroy this Soon.
    Soon(const xenpack_watcher_ops& watcher, std::function<void()> work)
        : watcher_{&watcher}, work_{std::move(work)} {}
    ~Soon();
    Soon(const Soon&) = delete;
    Soon& operator=(const Soon&) = delete;

    // False where the loop has no memory for it: the work will then not be done.
    bool trigger() noexcept;

  private:
    static void fired(void* arg) noexcept;

    const xenpack_watcher_ops* watcher_;
    std::function<void()> work_;
    void* timeout_ = nullptr;
};

}  // namespace xenpack
