// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl's callback, which may come from within the call that begins an operation, and in its own
// time after its owner has gone. Exceptions end here.
#include "plugin/libxl/operation.h"

#include <exception>
#include <memory>
#include <utility>

namespace xenpack {

// Freed by the callback, which libxl promises once for what it has begun.
struct Operation::Run {
    Operation* owner;  // null when that has gone
    Later& later;
    XlContext& xl;
    std::function<void(int)> ended;
};

Operation::~Operation() {
    if (run_ != nullptr) {
        run_->owner = nullptr;
    }
}

libxl_asyncop_how Operation::how(Run* run) noexcept {
    libxl_asyncop_how how{};
    how.callback = &Operation::called_back;
    how.u.for_callback = run;
    return how;
}

void Operation::begin(const Start& start, std::function<void(int rc)> ended) {
    auto run = std::make_unique<Run>(Run{this, later_, xl_, std::move(ended)});
    run_ = run.get();
    const libxl_asyncop_how asked = how(run_);
    xl_.operation_begun();
    const int rc = start(xl_.get(), &asked);
    Run* const begun = run.release();
    if (rc != 0) {
        called_back(xl_.get(), rc, begun);
    }
}

void Operation::called_back(libxl_ctx*, int rc, void* arg) noexcept {
    auto* run = static_cast<Run*>(arg);
    run->xl.operation_ended();
    try {
        run->later.add([owned = std::shared_ptr<Run>(run), rc] {
            if (owned->owner != nullptr) {
                owned->owner->run_ = nullptr;
                owned->ended(rc);
            }
        });
    } catch (const std::exception&) {
        run->xl.lose("no memory to hear of the end of an operation");
    }
}

void Operation::abort() noexcept {
    if (run_ != nullptr) {
        const libxl_asyncop_how asked = how(run_);
        libxl_ao_abort(xl_.get(), &asked);
    }
}

}  // namespace xenpack
