// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl fills in what a configuration leaves open (the paging pool by the ceiling and the vcpus)
// and says what its parts are; what Xen itself takes for a domain is added here.
#include "plugin/libxl/start_cost.h"

#include <algorithm>
#include <cerrno>

#include "plugin/libxl/parsed_config.h"

namespace xenpack {
namespace {

// What Xen 4.17 takes on x86 for a PVH domain that no setting shows, measured in the lab over
// memory of 128 to 512 MiB, ceilings up to 2 GiB and 1 to 4 vcpus: 150 KiB (its record, the special
// pages that libxl adds to its memory, the first grant frames, event channels) and 37 KiB for each
// vcpu. The rest is for what a guest makes Xen add while it starts: up to 64 grant frames of 4 KiB.
constexpr std::uint64_t kBaseKib = 512;
constexpr std::uint64_t kVcpuKib = 48;

// For libxl's log only (INVALID_DOMID, which C++ finds signed).
constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};

// libxl asserts rather than refuses where the two types differ.
bool is_buildable(const libxl_domain_config& config) noexcept {
    const libxl_domain_type type = config.c_info.type;
    return (type == LIBXL_DOMAIN_TYPE_PV || type == LIBXL_DOMAIN_TYPE_HVM ||
            type == LIBXL_DOMAIN_TYPE_PVH) &&
           config.b_info.type == type && config.b_info.max_vcpus >= 0 &&
           config.b_info.max_memkb != LIBXL_MEMKB_DEFAULT && config.b_info.max_memkb > 0;
}

}  // namespace

Expected<xenpack_start_cost> start_cost(XlContext& xl, const char* config_json) {
    ParsedConfig parsed;
    if (!parsed.parse(xl.get(), config_json)) {
        return fail_with(EINVAL,
                         "libxl cannot read the configuration: it takes what xl create --dryrun "
                         "prints");
    }
    if (!is_buildable(parsed.get())) {
        return fail_with(EINVAL,
                         "the configuration is of no domain that libxl could build: it names no "
                         "type or no memory");
    }
    // Called for what it fills in; its sum is of the build alone, and without what Xen adds.
    std::uint64_t build_kib = 0;
    if (const int rc = libxl_domain_need_memory(xl.get(), &parsed.get(), kNoDomain, &build_kib);
        rc != 0) {
        return fail_with(EIO, "libxl cannot say what the domain would need (its code is {})", rc);
    }
    const libxl_domain_build_info& build = parsed.get().b_info;
    xenpack_start_cost cost{};
    cost.memory_kib = build.target_memkb;
    cost.overhead_kib =
        build.iommu_memkb + kBaseKib + kVcpuKib * static_cast<std::uint64_t>(build.max_vcpus);
    if (build.type != LIBXL_DOMAIN_TYPE_PV) {  // libxl gives a PV domain no paging pool
        cost.overhead_kib += build.shadow_memkb;
        if (libxl_defbool_val(build.device_model_stubdomain)) {
            cost.overhead_kib += build.stubdomain_memkb + build.video_memkb;
        }
    }
    std::copy_n(parsed.get().c_info.uuid.uuid, sizeof cost.uuid, cost.uuid);
    return cost;
}

}  // namespace xenpack
