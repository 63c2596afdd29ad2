// SPDX-License-Identifier: LGPL-2.1-or-later
// Xen's tables have the processor's form: four levels, of 512 entries each.
#include "plugin/libxl/paging_pool.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kPageKib = 4;
constexpr int kLevels = 4;
constexpr std::uint64_t kPagesOfATable = 512;
// A page of Xen's log of what was written has a bit for each page (paging.c).
constexpr std::uint64_t kPagesOfALog = 8 * 4096;
// Each processor has a table that Xen runs on while the guest does (hap_make_monitor_table).
constexpr std::uint64_t kPagesOfAVcpu = 2;

constexpr std::uint64_t up(std::uint64_t number, std::uint64_t unit) {
    return (number + unit - 1) / unit;
}

}  // namespace

std::uint64_t paging_pool_kib(std::uint64_t limit_kib, std::uint32_t vcpus) {
    const std::uint64_t pages = up(limit_kib, kPageKib);
    std::uint64_t needed = kPagingSparePages + kPagesOfAVcpu * vcpus + up(pages, kPagesOfALog);
    std::uint64_t tables = pages;
    for (int level = 0; level < kLevels; ++level) {
        tables = up(tables, kPagesOfATable);
        needed += tables;
    }
    return needed * kPageKib;
}

}  // namespace xenpack
