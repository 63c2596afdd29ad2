// SPDX-License-Identifier: LGPL-2.1-or-later
// Hypervisor: the handful of hypercalls this plugin makes itself, through libxc. Each is one short
// call that takes no lock and waits for no process. Used by everything in the plugin but XlContext.
// It keeps no state and reports no events.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugin/libxl/xen.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

inline constexpr std::uint64_t kPageKib = 4;

// What Xen says about one domain, and what of it the interface does not carry.
struct DomainFacts {
    xenpack_domain domain;
    bool may_have_videoram;  // an emulated VGA: its memory/videoram may be other than 0
};

// The text of a uuid as libxl writes it in the store: 8-4-4-4-12 lower-case hexadecimal digits.
std::string uuid_text(const std::uint8_t uuid[16]);

class Hypervisor {
  public:
    // `logger` must outlive the result. Fails with EPERM or ENODEV.
    static Expected<Hypervisor> open(xentoollog_logger* logger);

    Expected<xenpack_host> host();

    // All domains, the control domain included, in ascending domid.
    Expected<std::vector<xenpack_domain>> list();

    // Fails with ESRCH where no domain has that domid with that uuid.
    Expected<DomainFacts> domain(std::uint32_t domid, const std::uint8_t uuid[16]);

    // The most the domain may hold, in Xen. May be less than it holds: then it gets nothing more.
    Expected<void> set_limit(std::uint32_t domid, std::uint64_t limit_kib);

    // How many pages populate-on-demand is to keep ready; of no effect on a domain without it.
    // Only ever adds: Xen takes nothing back on a smaller number.
    Expected<void> set_pod_target(std::uint32_t domid, std::uint64_t pages);

  private:
    struct Close {
        void operator()(xc_interface* xc) const noexcept { xc_interface_close(xc); }
    };

    explicit Hypervisor(xc_interface* xc) : xc_{xc} {}

    std::unique_ptr<xc_interface, Close> xc_;
};

}  // namespace xenpack
