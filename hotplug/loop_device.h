// SPDX-License-Identifier: LGPL-2.1-or-later
// A file as a block device (Linux: loop(4)). Called by block.cc; it must not know what the file is
// for.
#pragma once

#include <string>

#include "watcher/error.h"
#include "watcher/guest/fd.h"

namespace xenpack::hotplug {

// A loop device that goes by itself when its last user closes it, be that this program, which dies,
// or device-mapper or a backend that has been given it.
struct LoopDevice {
    guest::Fd fd;
    std::string path;  // "/dev/loop7"
};

enum class Access { kReadOnly, kReadWrite };

Expected<LoopDevice> attach(const std::string& file, Access access);

// It stays when closed, until detach().
Expected<void> keep(const LoopDevice& device);

// What is still using it keeps it until it closes it.
Expected<void> detach(const std::string& path);

}  // namespace xenpack::hotplug
