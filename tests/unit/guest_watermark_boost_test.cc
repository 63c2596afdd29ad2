// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's boost of its watermarks, on a file that stands for the setting.
#include "watcher/guest/watermark_boost.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace xenpack::guest {
namespace {

namespace fs = std::filesystem;

class WatermarkBoost : public testing::Test {
  protected:
    WatermarkBoost() {
        std::string name = (fs::temp_directory_path() / "xenpack-boost-XXXXXX").string();
        directory_ = ::mkdtemp(name.data());
        file_ = directory_ / "watermark_boost_factor";
        std::ofstream(file_) << "15000\n";
    }
    ~WatermarkBoost() override { fs::remove_all(directory_); }

    [[nodiscard]] std::string setting() const {
        std::string line;
        std::getline(std::ifstream(file_), line);
        return line;
    }

    fs::path directory_;
    fs::path file_;
};

TEST_F(WatermarkBoost, IsOffForAsLongAsItIsHeld) {
    {
        auto off = NoWatermarkBoost::begin(file_);
        ASSERT_TRUE(off && *off);
        EXPECT_EQ(setting(), "0");
        const NoWatermarkBoost moved(std::move(**off));
        off->reset();
        EXPECT_EQ(setting(), "0");
    }
    EXPECT_EQ(setting(), "15000");
}

TEST_F(WatermarkBoost, AKernelThatKnowsNoneIsNoFailure) {
    const auto off = NoWatermarkBoost::begin(directory_ / "not-there");
    ASSERT_TRUE(off);
    EXPECT_FALSE(*off);
}

TEST_F(WatermarkBoost, ASettingThatCannotBeChangedIsAnError) {
    const auto off = NoWatermarkBoost::begin(directory_);
    ASSERT_FALSE(off);
    EXPECT_EQ(off.error().code, EISDIR);
    EXPECT_NE(off.error().what.find(directory_.string()), std::string::npos);
}

}  // namespace
}  // namespace xenpack::guest
