// SPDX-License-Identifier: LGPL-2.1-or-later
// ProgramStarts: whether a program may have been started of late, learnt from the kernel telling
// when its file is opened. Asked by SaveHelpers, which reads /proc only then. It costs one system
// call when nothing was started, and never wakes anyone.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace xenpack {

class ProgramStarts {
  public:
    // The places where the program may be; those that do not exist are passed over.
    explicit ProgramStarts(const std::vector<std::string>& places);
    ~ProgramStarts();
    ProgramStarts(const ProgramStarts&) = delete;
    ProgramStarts& operator=(const ProgramStarts&) = delete;

    // True for kSettling after any place was opened, replaced or removed; always where none can be
    // watched. A process is its old program until a moment after the new one was opened, hence the
    // time.
    [[nodiscard]] bool possible();

    static constexpr std::chrono::seconds kSettling{2};

  private:
    // Whether the kernel has told anything since last asked.
    bool told();

    int fd_ = -1;
    bool certain_ = false;  // every place that exists is watched
    std::chrono::steady_clock::time_point until_;
};

}  // namespace xenpack
