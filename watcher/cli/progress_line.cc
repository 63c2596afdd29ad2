// SPDX-License-Identifier: LGPL-2.1-or-later
// Carriage return and "erase to the end of the line", which every terminal knows.
#include "watcher/cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace xenpack {
namespace {

constexpr auto kEvery = std::chrono::milliseconds(200);

void put(const std::string& text) {
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
    (void)std::fflush(stderr);
}

}  // namespace

ProgressLine::ProgressLine() : wanted_(isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
    if (shown_) {
        put("\r\033[K");
    }
}

void ProgressLine::say(std::string_view text) {
    const std::lock_guard locked(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!wanted_ || now < next_) {
        return;
    }
    next_ = now + kEvery;
    shown_ = true;
    put(fmt::format("\r{}\033[K", text));
}

}  // namespace xenpack
