// SPDX-License-Identifier: LGPL-2.1-or-later
// Delay: one piece of work after a while, unless it is stopped. Used by what waits for a guest. It
// must not know what it is for.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "plugin/toolstack.h"

namespace xenpack {

class Delay {
  public:
    // `watcher` must outlive this. `work` runs on the loop and may destroy this.
    Delay(const xenpack_watcher_ops& watcher, std::function<void()> work)
        : watcher_{watcher}, work_{std::move(work)} {}
    ~Delay() { stop(); }
    Delay(const Delay&) = delete;
    Delay& operator=(const Delay&) = delete;

    // False where the loop has no memory for it. Starts anew where it runs already.
    bool start(std::uint64_t delay_us) noexcept;
    void stop() noexcept;
    bool is_running() const noexcept { return timeout_ != nullptr; }

  private:
    static void fired(void* arg) noexcept;

    const xenpack_watcher_ops& watcher_;
    std::function<void()> work_;
    void* timeout_ = nullptr;
};

}  // namespace xenpack
