// SPDX-License-Identifier: LGPL-2.1-or-later
// What is refused: other types than PVH; devices that are no disk and no network of dom0's; disks
// and networks that Xenpack's hotplug program cannot give a fork its own of.
#include "plugin/libxl/template_check.h"

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "plugin/libxl/vbd_number.h"

namespace xenpack {
namespace {

struct Device {
    int count;
    const char* what;
};

Expected<void> check_kinds(const libxl_domain_config& config) {
    const std::array<Device, 13> others{{
        {config.num_pcidevs, "a PCI device passed through"},
        {config.num_rdms, "reserved device memory"},
        {config.num_dtdevs, "a device tree device"},
        {config.num_vfbs, "a framebuffer"},
        {config.num_vkbs, "a virtual keyboard"},
        {config.num_vtpms, "a virtual TPM"},
        {config.num_p9s, "a 9pfs share"},
        {config.num_pvcallsifs, "a pvcalls interface"},
        {config.num_vdispls, "a virtual display"},
        {config.num_vsnds, "a virtual sound card"},
        {config.num_channels, "a channel"},
        {config.num_usbctrls + config.num_usbdevs, "a USB device"},
        {config.b_info.num_ioports + config.b_info.num_irqs + config.b_info.num_iomem,
         "access to the host's hardware"},
    }};
    for (const Device& device : others) {
        if (device.count > 0) {
            return fail_with(ENOTSUP,
                             "it has {}: a fork can have disks and networks, and nothing else. "
                             "Create it without",
                             device.what);
        }
    }
    return {};
}

std::string_view name_of_script(const char* script) {
    const std::string_view path = script != nullptr ? script : "";
    return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

Expected<void> check_disk(const libxl_device_disk& disk) {
    const std::string_view script = name_of_script(disk.script);
    const std::string_view target = disk.pdev_path != nullptr ? disk.pdev_path : "";
    if (disk.backend_domid != 0 || disk.backend_domname != nullptr) {
        return fail_with(ENOTSUP, "its disk {} is served by another domain than dom0", disk.vdev);
    }
    if (disk.specification == LIBXL_DISK_SPECIFICATION_VIRTIO || !vbd_number(disk.vdev)) {
        return fail_with(ENOTSUP, "its disk {} is not one of Xen's own kind, as xvda is",
                         disk.vdev);
    }
    if (disk.format != LIBXL_DISK_FORMAT_RAW) {
        return fail_with(ENOTSUP, "its disk {} is not raw: a fork's disk is laid over a raw one",
                         disk.vdev);
    }
    if (!script.empty() && script != "block" && script != "block-xenpack") {
        return fail_with(ENOTSUP,
                         "its disk {} is made by the script {}, which Xenpack knows nothing of",
                         disk.vdev, script);
    }
    // Sealing takes the overlay away with the disk, and what the domain has written with it.
    if (target.find(';') != std::string_view::npos) {
        return fail_with(ENOTSUP,
                         "its disk {} is laid over another one: what it has written there would "
                         "not outlive its sealing",
                         disk.vdev);
    }
    if (!target.starts_with('/')) {
        return fail_with(ENOTSUP,
                         "its disk {} is \"{}\", which is not the whole path of a file or device",
                         disk.vdev, target);
    }
    return {};
}

Expected<void> check_network(const libxl_device_nic& nic) {
    const std::string_view script = name_of_script(nic.script);
    if (nic.backend_domid != 0 || nic.backend_domname != nullptr) {
        return fail_with(ENOTSUP, "its network {} is served by another domain than dom0",
                         nic.devid);
    }
    if (!script.empty() && script != "vif-bridge" && script != "vif-xenpack") {
        return fail_with(ENOTSUP,
                         "its network {} is made by the script {}: a fork's network joins a bridge",
                         nic.devid, script);
    }
    return {};
}

}  // namespace

Expected<void> check_forkable(const libxl_domain_config& config) {
    if (config.c_info.type != LIBXL_DOMAIN_TYPE_PVH) {
        return fail_with(ENOTSUP,
                         "it is not PVH: forks are made of PVH domains only. Create it with "
                         "type=\"pvh\"");
    }
    if (!libxl_defbool_is_default(config.c_info.hap) && !libxl_defbool_val(config.c_info.hap)) {
        return fail_with(
            ENOTSUP,
            "it was created with hap=0, and memory sharing needs it. Create it with hap=1");
    }
    if (config.c_info.passthrough != LIBXL_PASSTHROUGH_DEFAULT &&
        config.c_info.passthrough != LIBXL_PASSTHROUGH_DISABLED) {
        return fail_with(ENOTSUP,
                         "it was created for PCI passthrough, so an IOMMU maps its memory, and "
                         "that cannot be shared. Create it without passthrough= and pci=");
    }
    if (auto ok = check_kinds(config); !ok) {
        return ok;
    }
    for (int i = 0; i < config.num_disks; ++i) {
        if (auto ok = check_disk(config.disks[i]); !ok) {
            return ok;
        }
    }
    for (int i = 0; i < config.num_nics; ++i) {
        if (auto ok = check_network(config.nics[i]); !ok) {
            return ok;
        }
    }
    return {};
}

}  // namespace xenpack
