// SPDX-License-Identifier: LGPL-2.1-or-later
// vif-xenpack: gives a domain's network its place on a bridge. A fork still has its template's
// address when it starts: its interface comes up, and joins the bridge only when the fork has said
// that it has an identity of its own; the daemon asks for that then. Called by hotplug.cc.
#pragma once

#include <string>

#include "hotplug/request.h"
#include "hotplug/store.h"
#include "watcher/error.h"

namespace xenpack::hotplug {

// `interface` is the one the kernel has made, vifDOMID.DEVID; `path` the backend's in xenstore.
Expected<void> vif_online(Store& store, const Backend& backend, const std::string& path,
                          const std::string& interface);
// The kernel takes the interface away itself, and then it is on no bridge.
Expected<void> vif_offline(Store& store, const std::string& path, const std::string& interface);
Expected<void> vif_join(const std::string& interface, const std::string& bridge);

}  // namespace xenpack::hotplug
