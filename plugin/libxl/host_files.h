// SPDX-License-Identifier: LGPL-2.1-or-later
// HostFiles: where this plugin finds the kernel's files. toolstack.cc passes the real places and
// the tests pass directories of their own; nothing else, no environment variable, changes them.
#pragma once

#include <string>
#include <vector>

namespace xenpack {

struct HostFiles {
    std::string sysfs = "/sys";
    std::string proc = "/proc";
    // libxl's save helper: where Debian's packages, upstream's default and its prefix put it.
    std::vector<std::string> save_helpers = {
        "/usr/lib/xen-" XENPACK_XEN_VERSION "/bin/libxl-save-helper",
        "/usr/lib/xen/bin/libxl-save-helper",
        "/usr/libexec/xen/bin/libxl-save-helper",
        "/usr/local/lib/xen/bin/libxl-save-helper",
    };
    // libxl's hotplug scripts (XEN_SCRIPT_DIR of Xen's configure).
    std::string scripts = "/etc/xen/scripts";
    // Whom the watcher's end has paused: gone with the host's run. Empty: it pauses nobody.
    std::string paused_forks = "/run/xenpack/paused-forks";
};

}  // namespace xenpack
