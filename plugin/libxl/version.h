// SPDX-License-Identifier: LGPL-2.1-or-later
// Is this the control domain of a hypervisor of the version this plugin was built for? Asked once,
// by open(), before any Xen library is used: libxl's and libxc's interfaces change with each
// release and a hypervisor of another one refuses their calls.
#pragma once

#include <string>

#include "plugin/libxl/host_files.h"
#include "watcher/error.h"

namespace xenpack {

// "4.17" from the build (XENPACK_XEN_VERSION): major and minor, which is what the interfaces
// follow.
const char* built_for_version() noexcept;

// Fails with ENODEV (not Xen, or not its control domain) or ENOEXEC (another version).
Expected<void> check_hypervisor(const HostFiles& files, const std::string& built_for);

}  // namespace xenpack
