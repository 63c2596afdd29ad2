// SPDX-License-Identifier: LGPL-2.1-or-later
// The nodes of device_disk_add (tools/libs/light/libxl_disk.c), libxl__set_xenstore_nic
// (libxl_nic.c) and libxl__device_generic_add (libxl_device.c), of Xen 4.17. No state, no clock.
#include "plugin/libxl/device_nodes.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "plugin/libxl/vbd_number.h"

namespace xenpack {
namespace {

// XenbusStateInitialising of xen/io/xenbus.h.
constexpr char kInitialising[] = "1";
// LIBXL_DEVICE_NIC_MTU_DEFAULT of libxl_nic.c, and the bridge that libxl takes where none is named.
constexpr int kDefaultMtu = 1500;
constexpr char kDefaultBridge[] = "xenbr0";

using Pairs = std::vector<std::pair<const char*, std::string>>;

const char* yes_or_no(bool yes) {
    return yes ? "1" : "0";
}

bool value_or(const libxl_defbool& given, bool otherwise) {
    return libxl_defbool_is_default(given) ? otherwise : libxl_defbool_val(given);
}

std::string path_of_script(const char* script, const std::string& scripts) {
    const std::string_view name = script;
    return name.starts_with('/') ? std::string(name) : fmt::format("{}/{}", scripts, name);
}

// A device of that kind and number: its frontend, which is the guest's, its backend, and libxl's
// record, which has all that the backend is told.
struct DeviceNodes {
    const char* kind;
    std::uint32_t domid;
    std::uint32_t devid;
    Pairs front;
    Pairs guest_reads;
    Pairs back;
};

void add_device(TreeParts& parts, const DeviceNodes& device) {
    const auto [kind, domid, devid, front, guest_reads, back] = device;
    const std::string frontend =
        domain_node(domid, fmt::format("device/{}/{}", kind, devid).c_str());
    const std::string backend = backend_node(kind, domid, devid);
    const std::string record = fmt::format("{}/device/{}/{}", libxl_node(domid), kind, devid);
    const auto add = [](std::vector<StoreNode>& to, const std::string& below, const Pairs& pairs,
                        xenpack_store_access access) {
        for (const auto& [name, value] : pairs) {
            to.push_back({fmt::format("{}/{}", below, name), value, access});
        }
    };
    parts.first.push_back({frontend, "", XENPACK_STORE_GUEST_OWNS});
    parts.first.push_back({frontend + "/backend", backend, XENPACK_STORE_AS_PARENT});
    add(parts.first, frontend, front, XENPACK_STORE_AS_PARENT);
    add(parts.first, frontend, guest_reads, XENPACK_STORE_GUEST_READS);
    // A frontend fails if its backend is not there, and waits for it to have a state.
    parts.first.push_back({backend, "", XENPACK_STORE_GUEST_READS});
    parts.rest.push_back({backend + "/frontend", frontend, XENPACK_STORE_AS_PARENT});
    add(parts.rest, backend, back, XENPACK_STORE_AS_PARENT);
    parts.rest.push_back({record + "/frontend", frontend, XENPACK_STORE_AS_PARENT});
    parts.rest.push_back({record + "/backend", backend, XENPACK_STORE_AS_PARENT});
    add(parts.rest, record, back, XENPACK_STORE_AS_PARENT);
}

// What every backend and every frontend is told.
void add_common(std::uint32_t domid, Pairs& back, Pairs& front) {
    back.emplace_back("frontend-id", fmt::format("{}", domid));
    back.emplace_back("online", "1");
    back.emplace_back("state", kInitialising);
    front.emplace_back("backend-id", "0");
    front.emplace_back("state", kInitialising);
}

}  // namespace

void add_disk(TreeParts& parts, std::uint32_t domid, const libxl_device_disk& disk,
              const std::string& scripts) {
    const std::uint32_t devid = vbd_number(disk.vdev).value_or(0);
    const char* const type = disk.is_cdrom != 0 ? "cdrom" : "disk";
    Pairs back{{"params", disk.pdev_path}, {"script", path_of_script(disk.script, scripts)}};
    Pairs front;
    add_common(domid, back, front);
    back.insert(back.end(), {{"removable", yes_or_no(disk.removable != 0)},
                             {"bootable", "1"},
                             {"dev", disk.vdev},
                             {"type", "phy"},
                             {"mode", disk.readwrite != 0 ? "w" : "r"},
                             {"device-type", type}});
    if (disk.direct_io_safe) {
        back.emplace_back("direct-io-safe", "1");
    }
    back.emplace_back("discard-enable",
                      yes_or_no(value_or(disk.discard_enable, disk.readwrite != 0)));
    back.emplace_back("specification", "xen");
    front.insert(front.end(), {{"virtual-device", fmt::format("{}", devid)},
                               {"device-type", type},
                               {"trusted", yes_or_no(value_or(disk.trusted, true))}});
    add_device(parts, {"vbd", domid, devid, front, {}, back});
}

void add_network(TreeParts& parts, std::uint32_t domid, const libxl_device_nic& nic,
                 const std::string& scripts) {
    const std::string mac = fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", nic.mac[0],
                                        nic.mac[1], nic.mac[2], nic.mac[3], nic.mac[4], nic.mac[5]);
    const std::string handle = fmt::format("{}", nic.devid);
    const int mtu = nic.mtu != 0 ? nic.mtu : kDefaultMtu;
    Pairs back;
    Pairs front;
    add_common(domid, back, front);
    back.emplace_back("script", path_of_script(nic.script, scripts));
    back.emplace_back("mac", mac);
    if (nic.gatewaydev != nullptr) {
        back.emplace_back("gatewaydev", nic.gatewaydev);
    }
    if (nic.rate_interval_usecs > 0) {
        back.emplace_back(
            "rate", fmt::format("{},{}", nic.rate_bytes_per_interval, nic.rate_interval_usecs));
    }
    if (mtu != kDefaultMtu) {
        back.emplace_back("mtu", fmt::format("{}", mtu));
    }
    back.insert(back.end(), {{"bridge", nic.bridge != nullptr ? nic.bridge : kDefaultBridge},
                             {"handle", handle},
                             {"type", "vif"},
                             {"hotplug-status", ""}});
    front.insert(
        front.end(),
        {{"handle", handle}, {"mac", mac}, {"trusted", yes_or_no(value_or(nic.trusted, true))}});
    add_device(parts, {"vif",
                       domid,
                       static_cast<std::uint32_t>(nic.devid),
                       front,
                       {{"mtu", fmt::format("{}", mtu)}},
                       back});
}

std::string backend_node(const char* kind, std::uint32_t domid, std::uint32_t devid) {
    return fmt::format("/local/domain/0/backend/{}/{}/{}", kind, domid, devid);
}

}  // namespace xenpack
