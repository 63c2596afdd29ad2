// SPDX-License-Identifier: LGPL-2.1-or-later
// Error: a failure as a sentence for a person (what failed, on what, why, what to do).
// Every room returns it by value through Expected<T>. It must not log, and it knows no Xen.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace xenpack {

struct Error {
    std::string what;
    int code = 0;  // an errno value where one is known, else 0

    // Puts the outer action before the inner reason: "loading F: line 3: ...".
    [[nodiscard]] Error during(std::string_view action) const {
        return {fmt::format("{}: {}", action, what), code};
    }
};

template <class T>
using Expected = tl::expected<T, Error>;

// Formats a failure: `return fail("cannot open {}: {}", path, reason);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(fmt::format_string<Args...> text, Args&&... args) {
    return tl::unexpected<Error>(Error{fmt::format(text, std::forward<Args>(args)...), 0});
}

template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail_with(int code, fmt::format_string<Args...> text,
                                              Args&&... args) {
    return tl::unexpected<Error>(Error{fmt::format(text, std::forward<Args>(args)...), code});
}

}  // namespace xenpack
