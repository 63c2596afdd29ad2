// SPDX-License-Identifier: LGPL-2.1-or-later
// Targets: how much memory a domain shall have, set in Xen and in the store, the short way or
// libxl's. Called by the toolstack table only. It must not decide how much, nor retry: that is the
// watcher's.
#pragma once

#include <cstdint>

#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/saving.h"
#include "plugin/libxl/xl_context.h"

namespace xenpack {

// What libxl adds to every limit on x86: LIBXL_MAXMEM_CONSTANT, through libxl__arch_extra_memory
// (tools/libs/light/libxl_x86.c).
inline constexpr std::uint64_t kLibxlExtraKib = 1024;

// A domain as the interface names it. `uuid` is only read while the call lasts.
struct DomainId {
    std::uint32_t domid;
    const std::uint8_t* uuid;
};

struct TargetRequest {
    DomainId id;
    std::uint64_t target_kib;
    std::uint64_t static_max_kib;
    bool keep_limit;
};

class Targets {
  public:
    // All must outlive this.
    Targets(const xenpack_watcher_ops& watcher, Hypervisor& xen, XlContext& xl,
            SaveHelpers& helpers)
        : watcher_{watcher}, xen_{xen}, xl_{xl}, helpers_{helpers} {}

    // Both leave the limit, the populate-on-demand target, memory/target and /vm/<uuid>/memory the
    // same, and fail as set_target of toolstack.h says.
    Expected<void> set_short(const TargetRequest& request);
    Expected<void> set_by_libxl(const TargetRequest& request);

    Expected<void> set_limit(const DomainId& id, std::uint64_t limit_kib);

  private:
    struct Plan {
        xenpack_domain before;
        std::uint64_t videoram_kib;
        std::uint64_t limit_kib;  // the limit to set
        bool sets_limit;
    };

    Expected<DomainFacts> settable(const DomainId& id, const char* what);
    Expected<Plan> plan(const TargetRequest& request);
    Expected<std::uint64_t> videoram_kib(const DomainFacts& facts);
    Expected<void> publish(const TargetRequest& request, const Plan& plan);
    Expected<void> confirm(const TargetRequest& request, const Plan& plan);
    void undo_limit(const Plan& plan) noexcept;
    void undo_pod_target(const Plan& plan) noexcept;
    void warn(const Error& error) noexcept;

    const xenpack_watcher_ops& watcher_;
    Hypervisor& xen_;
    XlContext& xl_;
    SaveHelpers& helpers_;
};

}  // namespace xenpack
