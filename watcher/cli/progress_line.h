// SPDX-License-Identifier: LGPL-2.1-or-later
// ProgressLine: one line on a terminal's standard error that says how far something long has come,
// and is gone when that is over. Used by commands that keep a person waiting. Where standard error
// is no terminal it writes nothing.
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

namespace xenpack {

class ProgressLine {
  public:
    ProgressLine();
    ~ProgressLine();  // takes the line away
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    [[nodiscard]] bool wanted() const { return wanted_; }
    // In place of what it says; not more often than a person can read. From any thread.
    void say(std::string_view text);

  private:
    bool wanted_;
    bool shown_ = false;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point next_{};
};

}  // namespace xenpack
