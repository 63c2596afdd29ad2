// SPDX-License-Identifier: LGPL-2.1-or-later
// block-xenpack: gives a domain's disk its block device. A fork's is a snapshot over its template's
// disk, which nobody writes to; what the fork writes is in an overlay of its own, and goes with it.
// Without an overlay a block device is handed over as it is, and a file by a loop device. All or
// nothing: what fails leaves no device and no file. Called by hotplug.cc.
#pragma once

#include <string>

#include "hotplug/request.h"
#include "hotplug/store.h"
#include "watcher/error.h"

namespace xenpack::hotplug {

// The overlay of a fork lives as long as the fork: one that names it and is no new fork is what was
// saved of one, and without what it had written it would find another disk than it left.
enum class AddedFor { kFork, kDomain };
// `path` is the backend's in xenstore.
Expected<void> block_add(Store& store, const Backend& backend, const std::string& path,
                         AddedFor whom);
// Also where `add` was broken off: it looks for all that there could be.
Expected<void> block_remove(Store& store, const std::string& path);
// A snapshot and its overlay, where the store knows nothing of them any more.
Expected<void> block_discard(const std::string& snapshot);

}  // namespace xenpack::hotplug
