// SPDX-License-Identifier: LGPL-2.1-or-later
// HostFiles: where this plugin finds the kernel's files. toolstack.cc passes the real places and
// the tests pass directories of their own; nothing else, no environment variable, changes them.
#pragma once

#include <string>

namespace xenpack {

struct HostFiles {
    std::string sysfs = "/sys";
    std::string proc = "/proc";
};

}  // namespace xenpack
