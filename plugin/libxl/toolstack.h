// SPDX-License-Identifier: LGPL-2.1-or-later
// Opening the libxl toolstack on given files: what the table's open() calls with the real ones and
// the tests with their own.
#pragma once

#include <cstddef>

#include "plugin/libxl/host_files.h"
#include "plugin/toolstack.h"

namespace xenpack {

// As xenpack_toolstack_ops::open, which says what is returned and when.
int open_toolstack(const xenpack_watcher_ops* watcher, const HostFiles& files,
                   xenpack_toolstack** ts_r, char* error, std::size_t size) noexcept;

}  // namespace xenpack
