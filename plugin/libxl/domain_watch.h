// SPDX-License-Identifier: LGPL-2.1-or-later
// DomainWatch: the domains as last seen, what has happened to them since, and libxl's notices of
// their ends. Owned by the toolstack. The only caller of on_event for domains: libxl's events and
// refresh() meet in look(), so that each change is reported once, whichever brought it to light.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/xl_context.h"

namespace xenpack {

class DomainWatch {
  public:
    // All must outlive this.
    DomainWatch(const xenpack_watcher_ops& watcher, Hypervisor& xen, XlContext& xl)
        : watcher_{watcher}, xen_{xen}, xl_{xl} {}
    ~DomainWatch();
    DomainWatch(const DomainWatch&) = delete;
    DomainWatch& operator=(const DomainWatch&) = delete;

    // Lists the domains and queues what has changed. Reports nothing yet.
    Expected<void> look();

    const std::vector<xenpack_domain>& domains() const noexcept { return domains_; }

    // Reports what is queued, in order. What on_event itself brings to light by calling refresh()
    // is reported after what was queued before. The last thing a caller may do.
    void report();

  private:
    void watch_ends(const std::vector<xenpack_domain>& now);
    void watch_end(const xenpack_domain& domain);

    const xenpack_watcher_ops& watcher_;
    Hypervisor& xen_;
    XlContext& xl_;
    std::vector<xenpack_domain> domains_;
    std::unordered_map<std::uint32_t, libxl_evgen_domain_death*> watched_;  // by domid
    std::deque<xenpack_event> queue_;
    bool reporting_ = false;
};

}  // namespace xenpack
