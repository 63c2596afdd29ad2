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

// `path` is the backend's in xenstore. Not of a fork: its overlay lives as long as the fork, and
// one that names it is what was saved of one, which would find another disk than it left.
Expected<void> block_add(Store& store, const Backend& backend, const std::string& path);
// Of a new fork. `base`: what its template's disk was when that was sealed (base.h), or empty.
// ESTALE: it is not that any more. ENOSPC: there is no room for what the fork will write.
Expected<void> block_add_to_fork(Store& store, const Backend& backend, const std::string& path,
                                 const std::string& base);
// Also where `add` was broken off: it looks for all that there could be.
Expected<void> block_remove(Store& store, const std::string& path);
// A snapshot and its overlay, where the store knows nothing of them any more.
Expected<void> block_discard(const std::string& snapshot);

}  // namespace xenpack::hotplug
