// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's accounts as `xenpack record` reads them: memory of cgroups and machines, smaps.
#include <gtest/gtest.h>

#include "watcher/record/maps_text.h"
#include "watcher/record/memory_text.h"

namespace xenpack::record {
namespace {

constexpr std::string_view kStat2 =
    "anon 104857600\n"
    "file 73400320\n"
    "kernel 20971520\n"
    "sock 1048576\n"
    "shmem 10485760\n"
    "active_file 31457280\n"
    "slab_reclaimable 8388608\n"
    "workingset_refault_anon 7\n"
    "workingset_refault_file 25\n";

TEST(RecordText, ReadsACgroup2) {
    const auto memory = memory_of_cgroup2(kStat2, "5242880\n");
    ASSERT_TRUE(memory) << memory.error().what;
    EXPECT_EQ(memory->anon_kib, (100 + 10 + 5) * 1024U);
    EXPECT_EQ(memory->kernel_kib, (20 - 8 + 1) * 1024U);
    EXPECT_EQ(memory->file_kib, 60 * 1024U);
    EXPECT_EQ(memory->active_file_kib, 30 * 1024U);
    EXPECT_EQ(memory->refaulted_kib, 100U);
}

TEST(RecordText, AddsUpTheKernelsPartsWhereLinuxGivesNoSum) {
    const auto memory = memory_of_cgroup2(
        "anon 0\nfile 0\nkernel_stack 2048\npagetables 4096\nshmem 0\nactive_file 0\n"
        "slab_unreclaimable 8192\nworkingset_refault 3\n",
        "");
    ASSERT_TRUE(memory) << memory.error().what;
    EXPECT_EQ(memory->kernel_kib, 14U);
    EXPECT_EQ(memory->refaulted_kib, 12U);
}

TEST(RecordText, NamesTheFigureThatIsMissing) {
    const auto memory = memory_of_cgroup2("anon 1\nfile 2\nkernel 3\n", "");
    ASSERT_FALSE(memory);
    EXPECT_EQ(memory.error().what, "memory.stat has no number \"shmem\"");
    const auto garbled = memory_of_cgroup2(kStat2, "much");
    ASSERT_FALSE(garbled);
    EXPECT_EQ(garbled.error().what, "memory.swap.current is not a number");
}

TEST(RecordText, RefusesANumberThatIsNone) {
    std::string text(kStat2);
    text.replace(text.find("file 73400320"), 13, "file -7340032");
    EXPECT_FALSE(memory_of_cgroup2(text, ""));
}

TEST(RecordText, ReadsACgroup1WithAllBelowIt) {
    const auto memory = memory_of_cgroup1(
        "cache 1\nrss 1\ntotal_cache 73400320\ntotal_rss 104857600\ntotal_shmem 10485760\n"
        "total_swap 1048576\ntotal_active_file 31457280\ntotal_workingset_refault_file 2\n",
        "20971520\n");
    ASSERT_TRUE(memory) << memory.error().what;
    EXPECT_EQ(memory->anon_kib, 111 * 1024U);
    EXPECT_EQ(memory->kernel_kib, 20 * 1024U);
    EXPECT_EQ(memory->file_kib, 60 * 1024U);
    EXPECT_EQ(memory->active_file_kib, 30 * 1024U);
    EXPECT_EQ(memory->refaulted_kib, 8U);
}

TEST(RecordText, CountsWhatNothingElseAccountsForAsAMachinesKernel) {
    const auto memory = memory_of_machine(
        "MemTotal: 1000 kB\nMemFree: 300 kB\nSwapCached: 5 kB\nActive(file): 100 kB\n"
        "Inactive(file): 150 kB\nSwapTotal: 50 kB\nSwapFree: 25 kB\nAnonPages: 200 kB\n"
        "Shmem: 40 kB\nSReclaimable: 60 kB\n",
        "workingset_refault_file 10\n");
    ASSERT_TRUE(memory) << memory.error().what;
    EXPECT_EQ(memory->anon_kib, 260U);
    EXPECT_EQ(memory->file_kib, 250U);
    EXPECT_EQ(memory->kernel_kib, 150U);
    EXPECT_EQ(memory->refaulted_kib, 40U);
}

TEST(RecordText, ReadsIoAndRefusesHalfOfIt) {
    const auto io = parse_io(
        "rchar: 10240\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: 4096\nwrite_bytes: 8192\n"
        "cancelled_write_bytes: 0\n");
    ASSERT_TRUE(io) << io.error().what;
    EXPECT_EQ(io->asked_kib, 10U);
    EXPECT_EQ(io->fetched_kib, 4U);
    EXPECT_EQ(io->dirtied_kib, 8U);
    EXPECT_FALSE(parse_io("rchar: 10240\n"));
}

std::string area(std::string_view head, int rss, int pss, int referenced, int anonymous) {
    return fmt::format(
        "{}\nSize:  900 kB\nRss: {} kB\nPss:    {} kB\nReferenced:   {} kB\nAnonymous:   {} kB\n"
        "THPeligible:           0\nVmFlags: rd mr mw me \n",
        head, rss, pss, referenced, anonymous);
}

constexpr std::string_view kHeap =
    "55797c715000-55797c718000 rw-p 00000000 00:00 0                          [heap]";
constexpr std::string_view kText =
    "55797c718000-55797c72c000 r-xp 00003000 fe:00 248030                     /usr/bin/sed";
constexpr std::string_view kShared =
    "7f0000000000-7f0000800000 rw-s 00000000 00:01 1025                       /dev/zero (deleted)";

TEST(RecordMaps, CountsWhatWasTouchedOfAnonymousMemory) {
    MapsSum sum;
    ASSERT_TRUE(sum.add(area(kHeap, 100, 100, 30, 100)));
    EXPECT_EQ(sum.total().anon_kib, 100U);
    EXPECT_EQ(sum.total().anon_touched_kib, 30U);
    EXPECT_EQ(sum.total().file_touched_kib, 0U);
}

TEST(RecordMaps, SharesSharedMemoryAmongItsProcesses) {
    MapsSum sum;
    for (int process = 0; process < 4; ++process) {
        ASSERT_TRUE(sum.add(area(kShared, 800, 200, 400, 0)));
    }
    EXPECT_EQ(sum.total().anon_kib, 800U);
    EXPECT_EQ(sum.total().anon_touched_kib, 400U);
    EXPECT_EQ(sum.total().file_touched_kib, 0U);
}

TEST(RecordMaps, CountsAFilesPagesOnce) {
    MapsSum sum;
    ASSERT_TRUE(sum.add(area(kText, 80, 40, 50, 0)));
    ASSERT_TRUE(sum.add(area(kText, 80, 40, 70, 0)));
    EXPECT_EQ(sum.total().file_touched_kib, 70U);
    EXPECT_EQ(sum.total().anon_kib, 0U);
}

TEST(RecordMaps, TellsWrittenPagesOfAPrivateMappingFromTheFiles) {
    MapsSum sum;
    ASSERT_TRUE(sum.add(area(kText, 80, 80, 50, 20)));
    EXPECT_EQ(sum.total().anon_kib, 20U);
    EXPECT_EQ(sum.total().anon_touched_kib, 20U);
    EXPECT_EQ(sum.total().file_touched_kib, 30U);
}

TEST(RecordMaps, RefusesWhatIsNoSmapsAndKeepsWhatCameBefore) {
    MapsSum sum;
    EXPECT_FALSE(sum.add(area(kHeap, 100, 100, 30, 100) + "nonsense\n"));
    EXPECT_EQ(sum.total().anon_touched_kib, 30U);
    MapsSum other;
    EXPECT_FALSE(other.add(std::string(kHeap) + "\nRss: many kB\n"));
    EXPECT_FALSE(other.add(std::string(kHeap) + "\nRss: 12\n"));
    EXPECT_TRUE(other.add(""));
}

}  // namespace
}  // namespace xenpack::record
