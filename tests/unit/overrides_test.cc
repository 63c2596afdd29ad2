// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/zones/overrides.h promises: nothing is lost, nothing is half written.
#include "watcher/zones/overrides.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace xenpack {
namespace {

class OverridesTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "overrides-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        directory = pattern;
        path = directory + "/settings.json";
    }
    void TearDown() override { std::filesystem::remove_all(directory); }

    std::string directory;
    std::string path;
    Uuid web{1, 2, 3};
};

TEST_F(OverridesTest, AMissingFileIsEmpty) {
    const auto file = OverridesFile::load(path);
    ASSERT_TRUE(file);
    EXPECT_FALSE(file->get(web).pin_kib);
}

TEST_F(OverridesTest, SurviveARestart) {
    auto file = OverridesFile::load(path);
    ASSERT_TRUE(file->set(web, {1024, std::nullopt, 7, std::nullopt}));
    const auto again = OverridesFile::load(path);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->get(web).floor_kib, 1024U);
    EXPECT_EQ(again->get(web).weight, 7U);
    EXPECT_FALSE(again->get(web).ceiling_kib);
}

TEST_F(OverridesTest, EmptyOnesAreForgotten) {
    auto file = OverridesFile::load(path);
    ASSERT_TRUE(file->set(web, {1024, std::nullopt, std::nullopt, std::nullopt}));
    ASSERT_TRUE(file->set(web, {}));
    EXPECT_FALSE(OverridesFile::load(path)->get(web).floor_kib);
}

TEST_F(OverridesTest, ADamagedFileIsNamedAndKept) {
    std::ofstream(path) << "{ half";
    const auto file = OverridesFile::load(path);
    ASSERT_FALSE(file);
    EXPECT_NE(file.error().what.find(path), std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(OverridesTest, AFailedWriteChangesNothing) {
    auto file = OverridesFile::load(path);
    ASSERT_TRUE(file->set(web, {1024, std::nullopt, std::nullopt, std::nullopt}));
    std::filesystem::rename(path, path + ".kept");
    std::filesystem::create_directory(path);
    EXPECT_FALSE(file->set(web, {4096, std::nullopt, std::nullopt, std::nullopt}));
    EXPECT_EQ(file->get(web).floor_kib, 1024U);
}

}  // namespace
}  // namespace xenpack
