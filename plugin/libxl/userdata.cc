// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl's user data: one file for each domain and name, ending in a NUL as libxl's own do.
#include "plugin/libxl/userdata.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace xenpack {
namespace {

struct FreeMemory {
    void operator()(std::uint8_t* data) const noexcept { std::free(data); }
};

}  // namespace

Expected<std::optional<std::string>> read_userdata(XlContext& xl, std::uint32_t domid,
                                                   const char* name) {
    std::uint8_t* raw = nullptr;
    int length = 0;
    const int rc = libxl_userdata_retrieve(xl.get(), domid, name, &raw, &length);
    const std::unique_ptr<std::uint8_t, FreeMemory> data(raw);
    if (rc != 0) {
        return fail_with(EIO, "libxl cannot read its record {} of domain {} (its code is {})", name,
                         domid, rc);
    }
    if (!data || length <= 0) {
        return std::nullopt;
    }
    // One that ends without its NUL is still text.
    const auto* text = reinterpret_cast<const char*>(data.get());
    return std::string(text, ::strnlen(text, static_cast<std::size_t>(length)));
}

Expected<void> write_userdata(XlContext& xl, std::uint32_t domid, const char* name,
                              const std::string& text) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(text.c_str());
    const int rc =
        libxl_userdata_store(xl.get(), domid, name, data, static_cast<int>(text.size()) + 1);
    if (rc != 0) {
        return fail_with(EIO, "libxl cannot keep its record {} of domain {} (its code is {})", name,
                         domid, rc);
    }
    return {};
}

Expected<void> remove_userdata(XlContext& xl, std::uint32_t domid, const char* name) {
    if (const int rc = libxl_userdata_unlink(xl.get(), domid, name); rc != 0) {
        return fail_with(EIO, "libxl cannot remove its record {} of domain {} (its code is {})",
                         name, domid, rc);
    }
    return {};
}

}  // namespace xenpack
