// SPDX-License-Identifier: LGPL-2.1-or-later
// How a command of the command line ends, and why. Every command uses it; xenpack.1 documents the
// numbers, which scripts rely on.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace xenpack {

// 69, 75, 77 and 78 are those of sysexits.h.
enum class ExitStatus {
    ok = 0,
    failed = 1,
    usage = 2,
    daemon_not_running = 69,
    not_now = 75,  // no memory for a start or a fork, no fork in a pool
    not_permitted = 77,
    bad_configuration = 78,
};

struct Failure {
    ExitStatus status;
    std::string what;  // a sentence for standard error; may have several lines
};

template <class T>
using Result = tl::expected<T, Failure>;

[[nodiscard]] inline tl::unexpected<Failure> fail_as(ExitStatus status, std::string what) {
    return tl::unexpected<Failure>(Failure{status, std::move(what)});
}

}  // namespace xenpack
