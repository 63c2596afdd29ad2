// SPDX-License-Identifier: LGPL-2.1-or-later
// A fork's disks and networks: its template's, by the same numbers, each with an overlay and an
// address of its own. Given to it by libxl, all at once; what they are is computed here. Called by
// Forking. What it has begun and what fails is taken away with the domain.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "plugin/libxl/later.h"
#include "plugin/libxl/operation.h"
#include "plugin/libxl/xl_context.h"
#include "watcher/error.h"

namespace xenpack {

// Of a template's network for the fork with that uuid: locally administered, and another for every
// fork and every network of it.
void set_fork_mac(libxl_mac& mac, const std::uint8_t fork_uuid[16], int devid);
// A template's disk and network made a fork's.
void make_fork_disk(libxl_device_disk& disk);
void make_fork_network(libxl_device_nic& nic, const std::uint8_t fork_uuid[16]);

class ForkDevices {
  public:
    // All must outlive this.
    ForkDevices(XlContext& xl, Later& later) : xl_{xl}, later_{later} {}
    ~ForkDevices();
    ForkDevices(const ForkDevices&) = delete;
    ForkDevices& operator=(const ForkDevices&) = delete;

    // `ended` with the first failure, when none is under way any more: later, once.
    void add(std::uint32_t domid, const std::uint8_t fork_uuid[16],
             const libxl_domain_config& of_template, std::function<void(Expected<void>)> ended);
    void abort() noexcept;

  private:
    void begin_all(const std::uint8_t fork_uuid[16], const libxl_domain_config& of_template);
    void begin(const std::string& what, const Operation::Start& start);
    void one_ended(const std::string& what, int rc);

    XlContext& xl_;
    Later& later_;
    std::uint32_t domid_ = 0;
    // libxl reads them until each has ended: they must stay where they are.
    std::deque<libxl_device_disk> disks_;
    std::deque<libxl_device_nic> nics_;
    std::vector<std::unique_ptr<Operation>> operations_;
    std::size_t under_way_ = 0;
    Expected<void> result_;
    std::function<void(Expected<void>)> ended_;
};

}  // namespace xenpack
