// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl_device_disk_add and libxl_device_nic_add, one operation each, side by side. Scripts are
// those of hotplug/, named as libxl finds them among its own.
#include "plugin/libxl/fork_devices.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

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
void make_fork_disk(libxl_device_disk& disk) {
    const std::string target = disk.pdev_path;
    replace(disk.pdev_path, disk.readwrite ? target + ";" : target);
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

ForkDevices::~ForkDevices() {
    for (libxl_device_disk& disk : disks_) {
        libxl_device_disk_dispose(&disk);
    }
    for (libxl_device_nic& nic : nics_) {
        libxl_device_nic_dispose(&nic);
    }
}

void ForkDevices::add(std::uint32_t domid, const std::uint8_t fork_uuid[16],
                      const libxl_domain_config& of_template,
                      std::function<void(Expected<void>)> ended) {
    domid_ = domid;
    ended_ = std::move(ended);
    ++under_way_;  // until all have begun
    try {
        begin_all(fork_uuid, of_template);
    } catch (const std::bad_alloc&) {
        result_ = fail_with(ENOMEM, "no memory for the devices of domain {}", domid);
    }
    later_.add([this] { one_ended("", 0); });
}

void ForkDevices::begin_all(const std::uint8_t fork_uuid[16],
                            const libxl_domain_config& of_template) {
    const std::uint32_t domid = domid_;
    for (int i = 0; i < of_template.num_disks; ++i) {
        libxl_device_disk& disk = disks_.emplace_back();
        libxl_device_disk_init(&disk);
        libxl_device_disk_copy(xl_.get(), &disk, &of_template.disks[i]);
        make_fork_disk(disk);
        begin(fmt::format("disk {}", disk.vdev), [&disk, domid](auto* ctx, auto* how) {
            return libxl_device_disk_add(ctx, domid, &disk, how);
        });
    }
    for (int i = 0; i < of_template.num_nics; ++i) {
        libxl_device_nic& nic = nics_.emplace_back();
        libxl_device_nic_init(&nic);
        libxl_device_nic_copy(xl_.get(), &nic, &of_template.nics[i]);
        make_fork_network(nic, fork_uuid);
        begin(fmt::format("network {}", nic.devid), [&nic, domid](auto* ctx, auto* how) {
            return libxl_device_nic_add(ctx, domid, &nic, how);
        });
    }
}

void ForkDevices::begin(const std::string& what, const Operation::Start& start) {
    operations_.push_back(std::make_unique<Operation>(xl_, later_));
    ++under_way_;
    operations_.back()->begin(start, [this, what](int rc) { one_ended(what, rc); });
}

void ForkDevices::one_ended(const std::string& what, int rc) {
    if (rc != 0 && result_) {
        result_ = fail_with(rc == ERROR_NOMEM ? ENOMEM : EIO,
                            "libxl cannot give domain {} its {} (its code is {}; the line before "
                            "says why)",
                            domid_, what, rc);
    }
    if (--under_way_ == 0) {
        auto call = std::move(ended_);
        call(std::move(result_));  // may destroy this
    }
}

void ForkDevices::abort() noexcept {
    for (const auto& operation : operations_) {
        operation->abort();
    }
}

}  // namespace xenpack
