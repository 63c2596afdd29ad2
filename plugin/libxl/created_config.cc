// SPDX-License-Identifier: LGPL-2.1-or-later
// Reads libxl's record of a domain ("libxl-json") as it was stored, not as libxl would refresh it:
// later targets and limits are not in it. Called by the toolstack table.
#include "plugin/libxl/created_config.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>

#include "plugin/libxl/parsed_config.h"

namespace xenpack {
namespace {

struct FreeMemory {
    void operator()(std::uint8_t* data) const noexcept { std::free(data); }
};

}  // namespace

Expected<xenpack_domain_config> created_config(Hypervisor& xen, XlContext& xl, const DomainId& id) {
    if (const auto facts = xen.domain(id.domid, id.uuid); !facts) {
        return tl::unexpected(facts.error());
    }
    std::uint8_t* raw = nullptr;
    int length = 0;
    const int rc = libxl_userdata_retrieve(xl.get(), id.domid, "libxl-json", &raw, &length);
    const std::unique_ptr<std::uint8_t, FreeMemory> data(raw);
    // libxl looks for the record of whatever domain has the domid now.
    if (const auto facts = xen.domain(id.domid, id.uuid); !facts) {
        return tl::unexpected(facts.error());
    }
    if (rc != 0) {
        return fail_with(EIO, "libxl cannot read its record of domain {} (its code is {})",
                         id.domid, rc);
    }
    if (!data || length <= 0) {
        return fail_with(ENODATA, "libxl holds no record of domain {}: another toolstack built it",
                         id.domid);
    }
    // The record's closing NUL is part of the file; a record without one is still text.
    std::string json(reinterpret_cast<const char*>(data.get()), static_cast<std::size_t>(length));
    ParsedConfig config;
    if (!config.parse(xl.get(), json.c_str())) {
        return fail_with(EIO, "libxl cannot parse its record of domain {}", id.domid);
    }
    const libxl_domain_build_info& build = config.get().b_info;
    if (build.target_memkb == LIBXL_MEMKB_DEFAULT && build.max_memkb == LIBXL_MEMKB_DEFAULT) {
        return fail_with(ENODATA, "libxl's record of domain {} says nothing of its memory",
                         id.domid);
    }
    xenpack_domain_config result{build.target_memkb, build.max_memkb};
    if (result.memory_kib == LIBXL_MEMKB_DEFAULT) {
        result.memory_kib = result.max_memory_kib;
    }
    if (result.max_memory_kib == LIBXL_MEMKB_DEFAULT) {
        result.max_memory_kib = result.memory_kib;
    }
    return result;
}

}  // namespace xenpack
