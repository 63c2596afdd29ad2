// SPDX-License-Identifier: LGPL-2.1-or-later
// What libxl keeps for a domain beside its own records, in files that go with the domain. Called by
// what reads and writes configurations. It does not look into them.
#pragma once

#include <optional>
#include <string>

#include "plugin/libxl/xl_context.h"
#include "watcher/error.h"

namespace xenpack {

inline constexpr char kLibxlRecord[] = "libxl-json";
// Of a template: its configuration as it was when it was sealed, devices included.
inline constexpr char kTemplateRecord[] = "xenpack-template";

// Nothing where there is none.
Expected<std::optional<std::string>> read_userdata(XlContext& xl, std::uint32_t domid,
                                                   const char* name);
Expected<void> write_userdata(XlContext& xl, std::uint32_t domid, const char* name,
                              const std::string& text);
Expected<void> remove_userdata(XlContext& xl, std::uint32_t domid, const char* name);

}  // namespace xenpack
