// SPDX-License-Identifier: LGPL-2.1-or-later
// What is set aside for the page tables of templates and their forks.
#include "plugin/libxl/paging_pool.h"

#include <gtest/gtest.h>

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kGib = 1024 * kMib;

TEST(PagingPool, HasATableForEachTwoMib) {
    for (const std::uint64_t limit_kib : {64 * kMib, 256 * kMib, kGib, 64 * kGib}) {
        EXPECT_GE(paging_pool_kib(limit_kib, 1), (limit_kib / 2048 + kPagingSparePages) * 4);
    }
}

TEST(PagingPool, CountsTablesOfAllLevels) {
    // Tables of each level, the spare ones, 2 for each processor, and of the log.
    EXPECT_EQ(paging_pool_kib(256 * kMib, 1), 4 * (128 + 3 + 32 + 2 + 2));
    EXPECT_EQ(paging_pool_kib(256 * kMib, 2), 4 * (128 + 3 + 32 + 4 + 2));
    EXPECT_EQ(paging_pool_kib(64 * kGib, 1), 4 * (32768 + 64 + 2 + 32 + 2 + 512));
}

// 256 pages for each processor and one for each MiB of memory.
TEST(PagingPool, IsNeverMoreThanWhatLibxlGives) {
    for (const std::uint64_t limit_kib : {64 * kMib, 256 * kMib, kGib, 64 * kGib}) {
        for (const std::uint32_t vcpus : {1U, 2U, 64U}) {
            EXPECT_LE(paging_pool_kib(limit_kib, vcpus), (256 * vcpus + 2 * limit_kib / kMib) * 4);
        }
    }
}

}  // namespace
}  // namespace xenpack
