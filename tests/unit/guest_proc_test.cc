// SPDX-License-Identifier: LGPL-2.1-or-later
// Reading the kernel's files: texts as Linux prints them, texts with parts missing, and the reader
// on a directory that stands for /proc.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "watcher/guest/proc_reader.h"
#include "watcher/guest/proc_text.h"
#include "watcher/guest/psi_trigger.h"
#include "watcher/guest/reporter.h"
#include "watcher/pressure/report.h"

namespace xenpack::guest {
namespace {

namespace fs = std::filesystem;

const std::string kMeminfo =
    "MemTotal:         498112 kB\n"
    "MemFree:           60000 kB\n"
    "MemAvailable:      81234 kB\n"
    "Buffers:               0 kB\n"
    "SwapCached:            7 kB\n"
    "SwapTotal:          2048 kB\n"
    "SwapFree:           1024 kB\n"
    "HugePages_Total:       0\n";
const std::string kVmstat =
    "nr_free_pages 3\nworkingset_refault_anon 5\nworkingset_refault_file 7\npswpin 11\n"
    "pswpout 13\n";
const std::string kPressure =
    "some avg10=0.00 avg60=1.50 avg300=0.20 total=120034\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=900\n";

class FakeProc : public testing::Test {
  protected:
    FakeProc() {
        std::string name = (fs::temp_directory_path() / "xenpack-proc-XXXXXX").string();
        root_ = ::mkdtemp(name.data());
        fs::create_directory(root_ / "pressure");
        write("meminfo", kMeminfo);
        write("vmstat", kVmstat);
        write("pressure/memory", kPressure);
    }
    ~FakeProc() override { fs::remove_all(root_); }

    void write(const std::string& name, const std::string& text) {
        std::ofstream(root_ / name, std::ios::trunc) << text;
    }

    fs::path root_;
};

TEST(ProcText, ReadsMeminfo) {
    const auto sample = parse_meminfo(kMeminfo);
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->total_kib, 498112U);
    EXPECT_EQ(sample->free_kib, 60000U);
    EXPECT_EQ(sample->available_kib, 81234U);
    EXPECT_EQ(sample->swap_total_kib, 2048U);
    EXPECT_EQ(sample->swap_free_kib, 1024U);
    EXPECT_EQ(sample->used_kib(), 498112U - 81234U);
}

TEST(ProcText, MeminfoNeedsTotalFreeAndAvailable) {
    EXPECT_FALSE(parse_meminfo(""));
    EXPECT_FALSE(parse_meminfo("MemFree: 1 kB\nMemAvailable: 1 kB\n"));
    EXPECT_FALSE(parse_meminfo("MemTotal: 9 kB\nMemAvailable: 1 kB\n"));
    EXPECT_FALSE(parse_meminfo("MemTotal: 9 kB\nMemFree: 1 kB\n"));
    EXPECT_FALSE(parse_meminfo("MemTotal: 0 kB\nMemFree: 0 kB\nMemAvailable: 0 kB\n"));
    EXPECT_TRUE(parse_meminfo("MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 1 kB\n"));
}

TEST(ProcText, PartsAreNeverLargerThanTheWhole) {
    const auto sample = parse_meminfo(
        "MemTotal: 9 kB\nMemFree: 12 kB\nMemAvailable: 10 kB\nSwapTotal: 3 kB\nSwapFree: 4 kB\n");
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->available_kib, 9U);
    EXPECT_EQ(sample->free_kib, 9U);
    EXPECT_EQ(sample->swap_free_kib, 3U);
}

TEST(ProcText, NamesAreTakenWhole) {
    EXPECT_EQ(number_of("highmem 3\nhigh 12\n", "high"), 12U);
    EXPECT_EQ(number_of("xhigh 3\n", "high"), std::nullopt);
    EXPECT_EQ(number_of("high\n", "high"), std::nullopt);
    EXPECT_EQ(number_of("high 12x\n", "high"), std::nullopt);
    EXPECT_EQ(number_of("high -1\n", "high"), std::nullopt);
    EXPECT_EQ(number_of("high 12", "high"), 12U);
}

TEST(ProcText, ReadsVmstat) {
    const PagingCounts counts = parse_vmstat(kVmstat);
    EXPECT_EQ(counts.swap_ins, 11U);
    EXPECT_EQ(counts.refaults, 12U);
}

TEST(ProcText, ReadsRefaultsOfOlderKernels) {
    EXPECT_EQ(parse_vmstat("workingset_refault 9\n").refaults, 9U);
    EXPECT_EQ(parse_vmstat("").refaults, 0U);
}

TEST(ProcText, ReadsPressure) {
    const auto stalls = parse_pressure(kPressure);
    ASSERT_TRUE(stalls);
    EXPECT_EQ(stalls->some_us, 120034U);
    EXPECT_EQ(stalls->full_us, 900U);
    EXPECT_FALSE(parse_pressure(""));
    EXPECT_FALSE(parse_pressure("some avg10=0.00\n"));
}

TEST(ProcText, SingleNumberIsTheWholeFile) {
    EXPECT_EQ(parse_single("4096\n"), 4096U);
    EXPECT_EQ(parse_single("4096"), 4096U);
    EXPECT_EQ(parse_single("max\n"), std::nullopt);
    EXPECT_EQ(parse_single(""), std::nullopt);
    EXPECT_EQ(parse_single("-1"), std::nullopt);
    EXPECT_EQ(parse_single("4096 1024"), std::nullopt);
    EXPECT_EQ(parse_single("18446744073709551616"), std::nullopt);
}

TEST_F(FakeProc, SeesChangesThroughFilesOpenedOnce) {
    auto reader = ProcReader::open(root_);
    ASSERT_TRUE(reader);
    EXPECT_EQ(reader->memory()->available_kib, 81234U);
    write("meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 2 kB\n");
    EXPECT_EQ(reader->memory()->available_kib, 2U);
    EXPECT_EQ(reader->paging().refaults, 12U);
    EXPECT_EQ(reader->stalls()->some_us, 120034U);
}

TEST_F(FakeProc, WorksWithoutPsiAndVmstat) {
    fs::remove_all(root_ / "pressure");
    fs::remove(root_ / "vmstat");
    auto reader = ProcReader::open(root_);
    ASSERT_TRUE(reader);
    EXPECT_TRUE(reader->memory());
    EXPECT_FALSE(reader->stalls());
    EXPECT_EQ(reader->paging().swap_ins, 0U);
}

TEST_F(FakeProc, MissingMeminfoIsNamed) {
    fs::remove(root_ / "meminfo");
    const auto reader = ProcReader::open(root_);
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.error().what,
              "cannot open " + (root_ / "meminfo").string() + ": No such file or directory");
    EXPECT_EQ(reader.error().code, ENOENT);
}

TEST_F(FakeProc, AMeminfoTooOldIsNamed) {
    write("meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\n");
    auto reader = ProcReader::open(root_);
    ASSERT_TRUE(reader);
    EXPECT_NE(reader->memory().error().what.find("Linux 3.14"), std::string::npos);
}

TEST_F(FakeProc, OverlongFilesAreRefused) {
    write("meminfo", std::string(20000, 'x'));
    auto reader = ProcReader::open(root_);
    ASSERT_TRUE(reader);
    EXPECT_NE(reader->memory().error().what.find("longer than"), std::string::npos);
}

TEST_F(FakeProc, OnceSaysWhatTheFilesSay) {
    const auto line = report_once(root_, 30);
    ASSERT_TRUE(line) << line.error().what;
    const auto report = parse_report(*line);
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_EQ(report->why, ReportWhy::start);
    EXPECT_EQ(report->total_kib, 498112U);
    EXPECT_EQ(report->available_kib, 81234U);
    EXPECT_EQ(report->swap_ins, 11U);
    EXPECT_EQ(report->refaults, 12U);
    EXPECT_EQ(report->some_us, 120034U);
    EXPECT_EQ(report->full_us, 900U);
}

TEST_F(FakeProc, OnceLeavesPressureOutWithoutPsi) {
    fs::remove_all(root_ / "pressure");
    const auto line = report_once(root_, 30);
    ASSERT_TRUE(line);
    EXPECT_EQ(line->find("some="), std::string::npos);
    EXPECT_EQ(line->find("full="), std::string::npos);
}

TEST_F(FakeProc, MissingPressureFileGivesNoTrigger) {
    fs::remove_all(root_ / "pressure");
    const auto trigger = open_psi_trigger(root_ / "pressure/memory");
    ASSERT_FALSE(trigger);
    EXPECT_EQ(trigger.error().code, ENOENT);
}

}  // namespace
}  // namespace xenpack::guest
