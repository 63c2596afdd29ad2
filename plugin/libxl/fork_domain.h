// SPDX-License-Identifier: LGPL-2.1-or-later
// The hypercalls that make a fork: a domain like its template, Xen's fork, and what Xen's fork does
// not copy: ways to the store and the console, grants, placement. Called by Forking and by what
// reads a template. Each is short; none waits. It keeps nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/xen.h"
#include "watcher/error.h"

namespace xenpack {

// Guest frames with a meaning.
struct SpecialPages {
    std::uint64_t store_gfn = 0;
    std::uint64_t console_gfn = 0;
};

// The domains that serve a domain, and its event channels to them.
struct Servers {
    std::uint32_t store_domid = 0;
    std::uint32_t console_domid = 0;
};
struct Ports {
    std::uint32_t store = 0;
    std::uint32_t console = 0;
};

// On which processors and nodes a domain may be. What is empty is anywhere.
struct Placement {
    struct Vcpu {
        int vcpu;
        std::vector<std::uint8_t> hard, soft;  // Xen's bitmaps
    };
    std::vector<Vcpu> vcpus;
    std::vector<std::uint8_t> nodes;
};

class ForkDomains {
  public:
    // It must outlive this.
    explicit ForkDomains(Hypervisor& xen) : xc_{xen.handle()} {}

    // Paused, and with `uuid` for its handle from the first moment on. ENOMEM.
    Expected<std::uint32_t> create(const xen_domctl_createdomain& like,
                                   const std::uint8_t uuid[16]);
    // Its memory, its processors' state and its parameters. What fails leaves a domain that can
    // only be destroyed. ENOMEM.
    Expected<void> fork(std::uint32_t template_domid, std::uint32_t domid);
    // After fork(), which would overwrite it.
    Expected<Ports> connect(std::uint32_t domid, const SpecialPages& pages, const Servers& servers);
    // After fork(), which moves it to its template's pool.
    Expected<void> place(std::uint32_t domid, const Placement& placement);

    Expected<SpecialPages> special_pages(std::uint32_t domid);
    Expected<Placement> placement(std::uint32_t domid, std::uint32_t vcpus);

    // What is missing for forks in this Xen or this processor, a sentence each. Makes a domain and
    // takes it away again: there is no other way to ask.
    Expected<std::vector<std::string>> missing();

  private:
    Expected<std::uint32_t> port(std::uint32_t domid, std::uint32_t server);
    Expected<void> set_parameter(std::uint32_t domid, std::uint32_t parameter, std::uint64_t value);
    Expected<void> place_vcpu(std::uint32_t domid, const Placement::Vcpu& wanted);

    xc_interface* xc_;
};

}  // namespace xenpack
