// SPDX-License-Identifier: LGPL-2.1-or-later
// Operation: one asynchronous call of libxl: begun, told of its end in the loop, and cut short
// where it must be. Used by sealing, forking and destroying. It decides nothing.
#pragma once

#include <functional>

#include "plugin/libxl/later.h"
#include "plugin/libxl/xl_context.h"

namespace xenpack {

class Operation {
  public:
    // Both must outlive this.
    Operation(XlContext& xl, Later& later) : xl_{xl}, later_{later} {}
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    // Calls `start` with what libxl calls ao_how, and `ended` with libxl's code: later, once, also
    // where `start` fails at once. `ended` may destroy this. Not while one is under way.
    using Start = std::function<int(libxl_ctx*, const libxl_asyncop_how*)>;
    void begin(const Start& start, std::function<void(int rc)> ended);

    bool is_under_way() const noexcept { return run_ != nullptr; }
    // Asks libxl to cut it short: it still ends, soon, with ERROR_ABORTED or as it would have.
    void abort() noexcept;

  private:
    struct Run;
    static void called_back(libxl_ctx* ctx, int rc, void* run) noexcept;
    static libxl_asyncop_how how(Run* run) noexcept;

    XlContext& xl_;
    Later& later_;
    Run* run_ = nullptr;
};

}  // namespace xenpack
