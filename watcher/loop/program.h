// SPDX-License-Identifier: LGPL-2.1-or-later
// Program: another program, run beside the loop and waited for by it. Whoever needs one keeps this
// until it has ended. It decides nothing of what is run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "watcher/error.h"
#include "watcher/loop/loop.h"

namespace xenpack {

class Program {
  public:
    // An error says how it ended and what it last said on standard error; its code is 0.
    using Ended = std::function<void(Expected<void>)>;

    // Runs `file`, an absolute path, with these arguments, the first of which is what it is called.
    // It has no standard input, and its output goes where this program's does. `ended` is called
    // once, in the loop, and may destroy this. Destroying it before that kills the program.
    [[nodiscard]] static Expected<std::unique_ptr<Program>> run(
        Loop& loop, const std::string& file, const std::vector<std::string>& arguments,
        Ended ended);
    virtual ~Program() = default;
};

}  // namespace xenpack
