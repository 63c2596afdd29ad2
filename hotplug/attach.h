// SPDX-License-Identifier: LGPL-2.1-or-later
// A domain's disk or network given what its backend waits for, by whoever has written its nodes: as
// block-xenpack and vif-xenpack give it when libxl has, without a program being started. Called by
// the plugin, for forks. What is taken away again is libxl's to ask of the scripts.
#pragma once

#include <string>

#include "hotplug/store.h"
#include "watcher/error.h"

namespace xenpack::hotplug {

struct Device {
    std::string path;  // of its backend in xenstore
    // Of a disk: what its base was when its template was sealed (base.h); empty: that is not known.
    std::string base{};
};

// ESTALE: the base is not what it was. Of a network it waits for the kernel to make the interface,
// for ten seconds at the most, as libxl does (LIBXL_INIT_TIMEOUT of libxl_internal.h). What fails
// stands in hotplug-error too.
Expected<void> attach(Store& store, const Device& device);

// What attach() has made for the domain of that uuid, whose nodes are gone. The kernel takes a
// network's interface away itself.
Expected<void> discard(const std::string& uuid, const std::string& path);

}  // namespace xenpack::hotplug
