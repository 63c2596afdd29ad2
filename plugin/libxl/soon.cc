// SPDX-License-Identifier: LGPL-2.1-or-later
// A zero-delay timeout on the watcher's loop, at most one at a time. Used by XlContext and
// DomainWatch. Exceptions end here: the caller of fired() is a C loop.
#include "plugin/libxl/soon.h"

#include <exception>

namespace xenpack {

Soon::~Soon() {
    if (timeout_ != nullptr) {
        watcher_->loop_ops->timeout_deregister(watcher_->loop, timeout_);
    }
}

bool Soon::trigger() noexcept {
    if (timeout_ != nullptr) {
        return true;
    }
    return watcher_->loop_ops->timeout_register(watcher_->loop, 0, &Soon::fired, this, &timeout_) ==
           0;
}

void Soon::fired(void* arg) noexcept {
    auto* self = static_cast<Soon*>(arg);
    self->timeout_ = nullptr;
    const xenpack_watcher_ops* watcher = self->watcher_;
    try {
        auto work = self->work_;  // a copy: the work may destroy *self
        work();
    } catch (const std::exception& e) {
        watcher->log(watcher->user, XENPACK_LOG_ERROR, e.what());
    }
}

}  // namespace xenpack
