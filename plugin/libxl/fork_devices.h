// SPDX-License-Identifier: LGPL-2.1-or-later
// A fork's disks and networks: its template's, by the same numbers, each with an overlay and an
// address of its own: what libxl is to know of them, and their nodes in the store. Called by
// Forking. It computes, and touches nothing; what is made of it is taken away with the domain.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hotplug/attach.h"
#include "plugin/libxl/fork_nodes.h"
#include "plugin/libxl/xl_context.h"

namespace xenpack {

// Of a template's network for the fork with that uuid: locally administered, and another for every
// fork and every network of it.
void set_fork_mac(libxl_mac& mac, const std::uint8_t fork_uuid[16], int devid);
// A template's disk and network made a fork's.
void make_fork_disk(libxl_device_disk& disk, const std::uint8_t fork_uuid[16]);
void make_fork_network(libxl_device_nic& nic, const std::uint8_t fork_uuid[16]);

class ForkDevices {
  public:
    ForkDevices() = default;
    // Throws std::bad_alloc.
    ForkDevices(XlContext& xl, const libxl_domain_config& of_template,
                const std::uint8_t fork_uuid[16]);
    ~ForkDevices();
    ForkDevices(ForkDevices&& other) noexcept { swap(other); }
    ForkDevices& operator=(ForkDevices&& other) noexcept {
        swap(other);
        return *this;
    }

    // What they are to libxl. It shares what they point to: not to be disposed of.
    void put_into(libxl_domain_config& config);
    // `scripts`: the directory of hotplug scripts.
    void add_nodes(TreeParts& parts, std::uint32_t domid, const std::string& scripts) const;
    // The backends, by their paths in the store, disks first: they wait for nothing.
    [[nodiscard]] std::vector<std::string> backends(std::uint32_t domid) const;
    // The same, with what is known of the disks' bases, by the disks' numbers.
    [[nodiscard]] std::vector<hotplug::Device> to_attach(
        std::uint32_t domid, const std::map<std::uint32_t, std::string>& bases) const;

  private:
    void swap(ForkDevices& other) noexcept {
        disks_.swap(other.disks_);
        nics_.swap(other.nics_);
    }

    std::vector<libxl_device_disk> disks_;
    std::vector<libxl_device_nic> nics_;
};

}  // namespace xenpack
