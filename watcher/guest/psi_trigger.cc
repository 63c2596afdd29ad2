// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's pressure trigger; Documentation/accounting/psi.rst of Linux has the interface.
// Reporter calls this once.
#include "watcher/guest/psi_trigger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace xenpack::guest {

Expected<Fd> open_psi_trigger(const std::string& pressure_file) {
    constexpr std::string_view kTriggers[] = {"some 25000 500000", "some 100000 2000000"};
    Fd fd(::open(pressure_file.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!fd) {
        const int code = errno;
        return fail_with(code, "cannot open {}: {}", pressure_file, std::strerror(code));
    }
    for (const std::string_view trigger : kTriggers) {
        // The interface wants the terminating NUL too.
        if (::write(fd.get(), trigger.data(), trigger.size() + 1) >= 0) {
            return fd;
        }
    }
    const int code = errno;
    return fail_with(code, "cannot set a trigger in {}: {}", pressure_file, std::strerror(code));
}

}  // namespace xenpack::guest
