// SPDX-License-Identifier: LGPL-2.1-or-later
// The numbers of virtual disks, which Xen's frontends and backends know them by. Pure. Called by
// what checks a template's disks and by what names a fork's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace xenpack {

// Of a disk's name in its domain, as "xvda", "sdb1", "hdc", "d2p3". Nothing where it is no name.
std::optional<std::uint32_t> vbd_number(std::string_view vdev);

}  // namespace xenpack
