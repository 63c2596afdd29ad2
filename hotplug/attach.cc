// SPDX-License-Identifier: LGPL-2.1-or-later
// A disk's way to its backend, and a network's from the moment the kernel has made its interface.
#include "hotplug/attach.h"

#include <chrono>

#include "hotplug/block.h"
#include "hotplug/link.h"
#include "hotplug/vif.h"

namespace xenpack::hotplug {
namespace {

constexpr std::chrono::seconds kKernelLongest{10};

Expected<void> attach_network(Store& store, const Backend& backend, const std::string& path) {
    // Not for the backend's state: it says InitWait a moment before there is an interface
    // (netback_probe of drivers/net/xen-netback/xenbus.c).
    const std::string interface = fmt::format("vif{}.{}", backend.domid, backend.devid);
    if (const auto made = Links::wait_for(interface, kKernelLongest); !made) {
        return tl::unexpected(made.error().during(
            "the kernel has made no interface of it: is the module xen-netback loaded?"));
    }
    return vif_online(store, backend, path, interface);
}

}  // namespace

Expected<void> attach(Store& store, const Device& device) {
    const std::string& path = device.path;
    const auto backend = parse_backend(path);
    if (!backend) {
        return tl::unexpected(backend.error());
    }
    Expected<void> done = fail("{} is neither a disk nor a network", path);
    if (backend->type == "vbd") {
        done = block_add_to_fork(store, *backend, path, device.base);
    } else if (backend->type == "vif") {
        done = attach_network(store, *backend, path);
    }
    if (!done) {
        (void)store.write(path + "/hotplug-error", done.error().what);
        (void)store.write(path + "/hotplug-status", "error");
    }
    return done;
}

Expected<void> discard(const std::string& uuid, const std::string& path) {
    const auto backend = parse_backend(path);
    if (!backend) {
        return tl::unexpected(backend.error());
    }
    return backend->type == "vbd" ? block_discard(snapshot_name(uuid, backend->devid))
                                  : Expected<void>();
}

}  // namespace xenpack::hotplug
