// SPDX-License-Identifier: LGPL-2.1-or-later
// Which nodes a disk and a network of a domain have in the store: those that libxl writes when it
// adds one. Pure: facts in, nodes out. Called by ForkDevices. It knows what a template may have
// (template_check.h), and no other kinds of disks and networks.
#pragma once

#include <cstdint>
#include <string>

#include "plugin/libxl/fork_nodes.h"
#include "plugin/libxl/xl_context.h"

namespace xenpack {

// Of a disk and a network of dom0's, for a domain that is being made. `scripts` is the directory of
// hotplug scripts. The disk's name has a number.
void add_disk(TreeParts& parts, std::uint32_t domid, const libxl_device_disk& disk,
              const std::string& scripts);
void add_network(TreeParts& parts, std::uint32_t domid, const libxl_device_nic& nic,
                 const std::string& scripts);

// Where the backend's nodes are; `kind` is "vbd" or "vif".
std::string backend_node(const char* kind, std::uint32_t domid, std::uint32_t devid);

}  // namespace xenpack
