// SPDX-License-Identifier: LGPL-2.1-or-later
// Hypervisor: the handful of hypercalls this plugin makes itself, through libxc. Each is one short
// call that waits for no process. Used by everything in the plugin but XlContext.
// It keeps no state and reports no events.
#pragma once

#include <array>
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
    std::uint32_t vcpus;     // its processors have the numbers below this
};

using DomainUuid = std::array<std::uint8_t, 16>;
DomainUuid copy_uuid(const std::uint8_t uuid[16]);

// The text of a uuid as libxl writes it in the store: 8-4-4-4-12 lower-case hexadecimal digits.
std::string uuid_text(const std::uint8_t uuid[16]);

// A failed hypercall as a sentence. `code` is the errno it left.
tl::unexpected<Error> hypercall_failure(const std::string& what, int code);

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
    // How many of its pages are still to be made when they are first touched.
    Expected<std::uint64_t> pod_pages(std::uint32_t domid);
    // Whether its kernel has set up its interrupt from Xen, so that it hears what it is asked:
    // libxl asks for a suspend where it has (libxl__domain_pvcontrol_available of libxl_domain.c).
    Expected<bool> has_drivers(std::uint32_t domid);

    // Pauses are counted in Xen: each pause needs an unpause of its own.
    Expected<void> pause(std::uint32_t domid);
    Expected<void> unpause(std::uint32_t domid);
    // Takes a suspended, paused domain's event channels and its registered pages from it. What
    // fails ends it.
    Expected<void> soft_reset(std::uint32_t domid);
    // What Xen has set aside for the domain's page tables is made no larger than that. EBUSY where
    // more is in use.
    Expected<void> shrink_paging_pool(std::uint32_t domid, std::uint64_t kib);
    // Of a domain that nothing but Xen knows of: libxl destroys the others.
    Expected<void> destroy(std::uint32_t domid);

    // For files with hypercalls of their own.
    xc_interface* handle() const noexcept { return xc_.get(); }

  private:
    struct Close {
        void operator()(xc_interface* xc) const noexcept { xc_interface_close(xc); }
    };

    explicit Hypervisor(xc_interface* xc) : xc_{xc} {}

    std::unique_ptr<xc_interface, Close> xc_;
};

}  // namespace xenpack
