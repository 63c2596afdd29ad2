// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl fills in what a configuration leaves open (the paging pool by the ceiling and the vcpus)
// and says what its parts are; what Xen itself takes for a domain is added here.
#include "plugin/libxl/start_cost.h"

#include <algorithm>
#include <cerrno>

namespace xenpack {
namespace {

// For libxl's log only (INVALID_DOMID, which C++ finds signed).
constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};

class ParsedConfig {
  public:
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): libxl has its own initialiser.
    ParsedConfig() { libxl_domain_config_init(&config_); }
    ~ParsedConfig() { libxl_domain_config_dispose(&config_); }
    ParsedConfig(const ParsedConfig&) = delete;
    ParsedConfig& operator=(const ParsedConfig&) = delete;

    libxl_domain_config* get() noexcept { return &config_; }

  private:
    libxl_domain_config config_;
};

// libxl asserts rather than refuses where the two types differ.
bool is_buildable(const libxl_domain_config& config) noexcept {
    const libxl_domain_type type = config.c_info.type;
    return (type == LIBXL_DOMAIN_TYPE_PV || type == LIBXL_DOMAIN_TYPE_HVM ||
            type == LIBXL_DOMAIN_TYPE_PVH) &&
           config.b_info.type == type && config.b_info.max_vcpus > 0 &&
           config.b_info.max_memkb != LIBXL_MEMKB_DEFAULT && config.b_info.max_memkb > 0;
}

}  // namespace

Expected<xenpack_start_cost> start_cost(XlContext& xl, const char* config_json) {
    ParsedConfig parsed;
    if (libxl_domain_config_from_json(xl.get(), parsed.get(), config_json) != 0) {
        return fail_with(EINVAL,
                         "libxl cannot read the configuration: it takes what xl create --dryrun "
                         "prints");
    }
    if (!is_buildable(*parsed.get())) {
        return fail_with(EINVAL,
                         "the configuration is of no domain that libxl could build: it names no "
                         "type, no vcpus or no memory");
    }
    std::uint64_t need_kib = 0;
    if (const int rc = libxl_domain_need_memory(xl.get(), parsed.get(), kNoDomain, &need_kib);
        rc != 0) {
        return fail_with(EIO, "libxl cannot say what the domain would need (its code is {})", rc);
    }
    const libxl_domain_build_info& build = parsed.get()->b_info;
    xenpack_start_cost cost{};
    cost.memory_kib = build.target_memkb;
    cost.overhead_kib = build.shadow_memkb + build.iommu_memkb;
    std::copy_n(parsed.get()->c_info.uuid.uuid, sizeof cost.uuid, cost.uuid);
    return cost;
}

}  // namespace xenpack
