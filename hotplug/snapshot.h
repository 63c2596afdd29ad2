// SPDX-License-Identifier: LGPL-2.1-or-later
// A disk's own view of another that it may write to: device-mapper's target "snapshot", and the
// door to libdevmapper here. Called by block.cc; it must not know of files or of Xen.
#pragma once

#include <cstdint>
#include <string>

#include "watcher/error.h"

namespace xenpack::hotplug {

struct SnapshotRequest {
    std::string name;
    std::uint64_t sectors = 0;
    std::string base;     // a block device that nobody writes to
    std::string overlay;  // a block device that takes what is written; its content is lost
};

struct DeviceNumber {
    unsigned major = 0;
    unsigned minor = 0;
};

// Makes it. What it lists of its overlay it keeps in memory alone, so it does not outlive the
// host's run, and no domain does either. All or nothing.
Expected<DeviceNumber> create_snapshot(const SnapshotRequest& request);

// Takes it away, as soon as its last user has closed it. One that is not there is no failure.
Expected<void> remove_snapshot(const std::string& name);

}  // namespace xenpack::hotplug
