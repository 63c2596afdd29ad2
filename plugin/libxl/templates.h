// SPDX-License-Identifier: LGPL-2.1-or-later
// Templates: what forks of a sealed template are made from: its recorded configuration, read once
// and kept, and what Xen says of it. Owned by the toolstack, asked by Forking. A template does not
// change, so what is kept stays true as long as it is there.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "plugin/libxl/fork_domain.h"
#include "plugin/libxl/fork_nodes.h"
#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/parsed_config.h"
#include "plugin/libxl/xl_context.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

struct Template {
    std::array<std::uint8_t, 16> uuid{};
    std::uint32_t domid = 0;
    std::optional<std::uint64_t> sealed_cpu_ns;  // nothing: it was not written down
    ParsedConfig config;                         // its own, with the devices that it had
    xen_domctl_createdomain creation{};
    SpecialPages pages;
    Servers servers;
    Placement placement;
    std::map<std::uint32_t, std::string> bases;  // what its disks were (hotplug/base.h), by number
    std::optional<libxl_domain_sched_params> scheduling;  // where not Xen's default
    ForkTree tree;  // of a fork, but for what differs from one to the next
};

class Templates {
  public:
    // All must outlive this.
    Templates(const xenpack_watcher_ops& watcher, Hypervisor& xen, XlContext& xl)
        : watcher_{watcher}, xen_{xen}, domains_{xen}, xl_{xl} {}

    // ESRCH: that domain is not there; EINVAL: it is no sealed template; ESTALE: it has run since.
    // A fork that is under way holds it.
    Expected<std::shared_ptr<Template>> find(std::uint32_t domid, const std::uint8_t uuid[16]);

  private:
    Expected<std::shared_ptr<Template>> read(const xenpack_domain& domain);
    Expected<void> read_bases(Template& found);
    Expected<void> ask_xen(Template& found, std::uint32_t vcpus);
    void forget_the_dead();

    const xenpack_watcher_ops& watcher_;
    Hypervisor& xen_;
    ForkDomains domains_;
    XlContext& xl_;
    std::map<std::uint32_t, std::shared_ptr<Template>> known_;  // by domid
};

}  // namespace xenpack
