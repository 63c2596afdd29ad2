// SPDX-License-Identifier: LGPL-2.1-or-later
// Scripts are those of hotplug/, named as libxl finds them among its own.
#include "plugin/libxl/fork_devices.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "hotplug/request.h"
#include "plugin/libxl/device_nodes.h"
#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/vbd_number.h"

namespace xenpack {
namespace {

// IEEE 802: of a MAC's first byte, whether it is for a group and whether it is no vendor's.
constexpr unsigned kGroupBit = 0x01;
constexpr unsigned kLocalBit = 0x02;

void replace(char*& text, const std::string& with) {
    char* copy = strdup(with.c_str());
    if (copy == nullptr) {
        throw std::bad_alloc();
    }
    std::free(text);
    text = copy;
}

}  // namespace

void set_fork_mac(libxl_mac& mac, const std::uint8_t fork_uuid[16], int devid) {
    std::copy_n(fork_uuid, sizeof(libxl_mac), mac);
    mac[0] = static_cast<std::uint8_t>((mac[0] & ~kGroupBit) | kLocalBit);
    const auto number = static_cast<unsigned>(devid);
    mac[4] = static_cast<std::uint8_t>(mac[4] ^ ((number >> 8) & 0xff));
    mac[5] = static_cast<std::uint8_t>(mac[5] ^ (number & 0xff));
}

// What may be written gets an overlay; what is only read is given to all as it is.
void make_fork_disk(libxl_device_disk& disk, const std::uint8_t fork_uuid[16]) {
    if (disk.readwrite != 0) {
        const std::uint32_t devid = vbd_number(disk.vdev).value_or(0);
        replace(disk.pdev_path, fmt::format("{};{}", disk.pdev_path,
                                            hotplug::snapshot_name(uuid_text(fork_uuid), devid)));
    }
    replace(disk.script, "block-xenpack");
    disk.backend = LIBXL_DISK_BACKEND_PHY;
    disk.format = LIBXL_DISK_FORMAT_RAW;
}

void make_fork_network(libxl_device_nic& nic, const std::uint8_t fork_uuid[16]) {
    set_fork_mac(nic.mac, fork_uuid, nic.devid);
    replace(nic.script, "vif-xenpack");
    // The interface's name on the host: its template's is its template's.
    std::free(nic.ifname);
    nic.ifname = nullptr;
    // An address in it is its template's too, and its network's rules with it.
    std::free(nic.ip);
    nic.ip = nullptr;
}

ForkDevices::ForkDevices(XlContext& xl, const libxl_domain_config& of_template,
                         const std::uint8_t fork_uuid[16]) {
    disks_.reserve(static_cast<std::size_t>(of_template.num_disks));
    for (int i = 0; i < of_template.num_disks; ++i) {
        libxl_device_disk& disk = disks_.emplace_back();
        libxl_device_disk_init(&disk);
        libxl_device_disk_copy(xl.get(), &disk, &of_template.disks[i]);
        make_fork_disk(disk, fork_uuid);
    }
    nics_.reserve(static_cast<std::size_t>(of_template.num_nics));
    for (int i = 0; i < of_template.num_nics; ++i) {
        libxl_device_nic& nic = nics_.emplace_back();
        libxl_device_nic_init(&nic);
        libxl_device_nic_copy(xl.get(), &nic, &of_template.nics[i]);
        make_fork_network(nic, fork_uuid);
    }
}

ForkDevices::~ForkDevices() {
    for (libxl_device_disk& disk : disks_) {
        libxl_device_disk_dispose(&disk);
    }
    for (libxl_device_nic& nic : nics_) {
        libxl_device_nic_dispose(&nic);
    }
}

void ForkDevices::put_into(libxl_domain_config& config) {
    config.disks = disks_.data();
    config.num_disks = static_cast<int>(disks_.size());
    config.nics = nics_.data();
    config.num_nics = static_cast<int>(nics_.size());
}

void ForkDevices::add_nodes(TreeParts& parts, std::uint32_t domid,
                            const std::string& scripts) const {
    for (const libxl_device_disk& disk : disks_) {
        add_disk(parts, domid, disk, scripts);
    }
    for (const libxl_device_nic& nic : nics_) {
        add_network(parts, domid, nic, scripts);
    }
}

std::vector<std::string> ForkDevices::backends(std::uint32_t domid) const {
    std::vector<std::string> paths;
    for (const libxl_device_disk& disk : disks_) {
        paths.push_back(backend_node("vbd", domid, vbd_number(disk.vdev).value_or(0)));
    }
    for (const libxl_device_nic& nic : nics_) {
        paths.push_back(backend_node("vif", domid, static_cast<std::uint32_t>(nic.devid)));
    }
    return paths;
}

std::vector<hotplug::Device> ForkDevices::to_attach(
    std::uint32_t domid, const std::map<std::uint32_t, std::string>& bases) const {
    std::vector<hotplug::Device> devices;
    for (std::string& path : backends(domid)) {
        devices.push_back({std::move(path)});
    }
    for (std::size_t i = 0; i < disks_.size(); ++i) {
        const auto base = bases.find(vbd_number(disks_[i].vdev).value_or(0));
        devices[i].base = base == bases.end() ? "" : base->second;
    }
    return devices;
}

}  // namespace xenpack
