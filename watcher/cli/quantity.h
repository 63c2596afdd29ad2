// SPDX-License-Identifier: LGPL-2.1-or-later
// Amounts as the tables show them. JSON output has plain KiB instead. Called by the
// renderers. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace xenpack {

// "512M", "1536.5M", "2G", "31.4G", "40K": MiB below 10 GiB unless whole GiB, one decimal where
// there is one. A rounded figure, for the eye.
[[nodiscard]] std::string show_size(std::uint64_t kib);

// "0s", "59s", "5m", "3h", "2d": whole units passed.
[[nodiscard]] std::string show_age(std::uint64_t ms);

}  // namespace xenpack
