// SPDX-License-Identifier: LGPL-2.1-or-later
// A queue and one zero-delay timeout. Exceptions end here, each with its own piece of work: the
// rest is done all the same.
#include "plugin/libxl/later.h"

#include <exception>

namespace xenpack {

void Later::add(std::function<void()> work) {
    work_.push_back(std::move(work));
    wake();
}

// Where the loop has no memory for a timeout the work waits for the next that is added.
void Later::wake() noexcept {
    if (!soon_.trigger()) {
        watcher_.log(watcher_.user, XENPACK_LOG_ERROR,
                     "no memory to go on with an operation: it waits for the next");
    }
}

void Later::do_first() noexcept {
    const auto work = std::move(work_.front());
    work_.pop_front();
    try {
        work();
    } catch (const std::exception& e) {
        watcher_.log(watcher_.user, XENPACK_LOG_ERROR, e.what());
    }
}

// The next is asked for first: the work may close the toolstack, and this with it.
void Later::run_first() noexcept {
    if (work_.size() > 1) {
        wake();
    }
    if (!work_.empty()) {
        do_first();
    }
}

void Later::run_all() noexcept {
    while (!work_.empty()) {
        do_first();
    }
}

}  // namespace xenpack
