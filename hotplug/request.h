// SPDX-License-Identifier: LGPL-2.1-or-later
// What a hotplug script is asked to do, read from its arguments, its environment and the backend's
// nodes. Pure: it computes and touches nothing, so that all of it can be tested without a host.
// Called by the rest of hotplug/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack::hotplug {

// Where overlays are: each a sparse file that takes room only for what its fork has written.
inline constexpr std::string_view kOverlayDirectory = "/var/lib/xenpack/overlays";

// What is copied when a fork first writes. Device-mapper keeps a table with 8 bytes for each of
// these on the disk, in dom0's memory, for each fork (Linux: drivers/md/dm-snap.c, at most 2 MiB):
// at 16 KiB half a MiB for a disk of 1 GiB, and small writes do not copy much more than they are.
inline constexpr std::uint64_t kChunkSectors = 32;
inline constexpr std::uint64_t kSectorBytes = 512;

// A device's backend, as XENBUS_PATH names it: ".../backend/TYPE/DOMID/DEVID".
struct Backend {
    std::string type;  // "vbd", "vif"
    std::uint32_t domid = 0;
    std::uint32_t devid = 0;
};
Expected<Backend> parse_backend(std::string_view xenbus_path);

// A disk's target= in xl.cfg, "params" in the store: BASE or BASE;OVERLAY.
struct DiskParams {
    std::string base;  // an absolute path: a block device, or a file
    // With a ';': what is written goes there and not to the base. The name of a file in
    // kOverlayDirectory, "" for the one that is named after the domain and its disk.
    std::optional<std::string> overlay;
};
Expected<DiskParams> parse_disk_params(std::string_view params);

// The uuid in a domain's node "vm": "/vm/UUID".
Expected<std::string> parse_vm_path(std::string_view vm);

// The name of a fork's snapshot in device-mapper, and by itself of its overlay.
std::string snapshot_name(std::string_view uuid, std::uint32_t devid);
// Whether it is such a name.
bool is_snapshot_name(std::string_view name);
std::string overlay_path(std::string_view name);

// How large an overlay must be so that a fork may write its whole disk: a whole number of chunks,
// and one in reserve. Of this nothing is taken before it is written.
std::uint64_t overlay_bytes(std::uint64_t base_sectors);

// As backends and xenstore have device numbers: "fd:1f", hexadecimal.
std::string device_number(unsigned major, unsigned minor);

// Whether a fork's network may be joined to its bridge: it is no fork ("state" is not there), or
// its reporter has said of this very generation that it is ready.
struct ForkNodes {
    std::optional<std::string> state;       // xenpack/fork/state
    std::optional<std::string> generation;  // xenpack/fork/generation
    std::optional<std::string> said;        // data/xenpack/fork, which the fork itself writes
};
bool may_join(const ForkNodes& nodes);

// A network interface's name as Linux takes it (IFNAMSIZ, and no '/' nor blank).
bool is_interface_name(std::string_view name);

}  // namespace xenpack::hotplug
