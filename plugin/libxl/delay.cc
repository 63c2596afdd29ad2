// SPDX-License-Identifier: LGPL-2.1-or-later
// A timeout of the watcher's loop. Exceptions end here: the caller of fired() is a C loop.
#include "plugin/libxl/delay.h"

#include <exception>

namespace xenpack {

bool Delay::start(std::uint64_t delay_us) noexcept {
    stop();
    return watcher_.loop_ops->timeout_register(watcher_.loop, delay_us, &Delay::fired, this,
                                               &timeout_) == 0;
}

void Delay::stop() noexcept {
    if (timeout_ != nullptr) {
        watcher_.loop_ops->timeout_deregister(watcher_.loop, timeout_);
        timeout_ = nullptr;
    }
}

void Delay::fired(void* arg) noexcept {
    auto* self = static_cast<Delay*>(arg);
    self->timeout_ = nullptr;
    const xenpack_watcher_ops& watcher = self->watcher_;
    try {
        const auto work = self->work_;  // a copy: the work may destroy *self
        work();
    } catch (const std::exception& e) {
        watcher.log(watcher.user, XENPACK_LOG_ERROR, e.what());
    }
}

}  // namespace xenpack
