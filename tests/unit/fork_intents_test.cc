// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/fork/intents.h keeps on disk, and what it makes of files that it did not write.
#include "watcher/fork/intents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/unit/http_client_fixture.h"

namespace xenpack {
namespace {

constexpr const char* kText = "01234567-89ab-cdef-0123-456789abcdef";
constexpr Uuid kUuid{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                     0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

class IntentsTest : public ::testing::Test {
  protected:
    [[nodiscard]] std::size_t files() const {
        const std::filesystem::directory_iterator all(folder_);
        return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    }

    testing::TemporaryDirectory directory_;
    std::string folder_ = directory_ / "lib/forks";
    Intents intents_{folder_};
};

TEST_F(IntentsTest, AreThereUntilTheyAreRemoved) {
    EXPECT_TRUE(intents_.load()->empty()) << "also where there is no folder yet";
    ASSERT_TRUE(intents_.write({kUuid, "template-uuid", "job-1"}));
    const auto loaded = Intents(folder_).load().value();
    ASSERT_EQ(loaded.size(), 1U);
    EXPECT_EQ(loaded[0].uuid, kUuid);
    EXPECT_EQ(loaded[0].template_uuid, "template-uuid");
    EXPECT_EQ(loaded[0].name, "job-1");
    EXPECT_EQ(loaded[0].pool, "");
    EXPECT_TRUE(std::filesystem::exists(folder_ + "/" + kText));
    ASSERT_TRUE(intents_.write({kUuid, "template-uuid", "job-1", "jobs"}));
    EXPECT_EQ(intents_.load().value().at(0).pool, "jobs");
    EXPECT_TRUE(intents_.remove(kUuid));
    EXPECT_TRUE(intents_.remove(kUuid));
    EXPECT_EQ(files(), 0U);
}

TEST_F(IntentsTest, ADamagedFileStillNamesItsDomain) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/" + kText) << "\xff";
    const auto loaded = intents_.load().value();
    ASSERT_EQ(loaded.size(), 1U);
    EXPECT_EQ(loaded[0].uuid, kUuid);
}

TEST_F(IntentsTest, WhatAnInterruptedWriteLeavesIsRemovedAndOthersFilesAreNot) {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ + "/" + kText + ".a1b2c3") << "x";
    std::ofstream(folder_ + "/notes") << "x";
    std::ofstream(folder_ + "/01234567-89AB-cdef-0123-456789abcdef") << "x";
    EXPECT_TRUE(intents_.load()->empty());
    EXPECT_EQ(files(), 2U);
}

TEST_F(IntentsTest, WhatCannotBeWrittenIsSaidWithItsPlace) {
    std::filesystem::create_directories(directory_ / "lib");
    std::ofstream(folder_) << "no folder";
    const auto refused = intents_.write({kUuid, "", ""});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find(folder_), std::string::npos);
    EXPECT_FALSE(intents_.load());
}

}  // namespace
}  // namespace xenpack
