// SPDX-License-Identifier: LGPL-2.1-or-later
// say: a line for a person on standard error. The reporter has no other log. Thread-safe: a line is
// one write(2). A standard error that is gone is not an error.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

namespace xenpack::guest {

void say_line(std::string line);

template <class... Args>
void say(fmt::format_string<Args...> text, Args&&... args) {
    say_line(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace xenpack::guest
