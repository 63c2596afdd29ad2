// SPDX-License-Identifier: LGPL-2.1-or-later
// A disk's base is known again, what has become of it is told apart, and what is no disk is never
// waited for.
#include "hotplug/base.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>

namespace xenpack::hotplug {
namespace {

class HotplugBase : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "base-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
        path_ = name + "/disk.img";
        write("sixteen bytes...");
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    void write(const std::string& text) const { std::ofstream(path_) << text; }
    // Seconds before now, so that a write shows however coarse the file system's clock is.
    void written_before(int seconds) const {
        const std::array<timespec, 2> times{{{0, UTIME_OMIT}, {time(nullptr) - seconds, 5}}};
        ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times.data(), 0), 0);
    }
    [[nodiscard]] Base look() const {
        const auto base = look_at_base(path_);
        EXPECT_TRUE(base) << base.error().what;
        return base.value_or(Base{});
    }
    // What has changed since, or "".
    [[nodiscard]] std::string since(const Base& was) const {
        return what_changed(was, look()).value_or("");
    }

    std::string directory_;
    std::string path_;
};

TEST_F(HotplugBase, OneThatNobodyTouchesIsAsItWas) {
    const Base was = look();
    EXPECT_EQ(was.bytes, 16U);
    EXPECT_FALSE(was.medium.is_device);
    std::string text;
    std::ifstream(path_) >> text;
    EXPECT_EQ(since(was), "");
}

TEST_F(HotplugBase, OwnersAndLinksAreNothingOnTheDisk) {
    const Base was = look();
    ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
    ASSERT_EQ(link(path_.c_str(), (directory_ + "/other").c_str()), 0);
    ASSERT_EQ(rename(path_.c_str(), (directory_ + "/away").c_str()), 0);
    ASSERT_EQ(rename((directory_ + "/away").c_str(), path_.c_str()), 0);
    EXPECT_EQ(since(was), "");
}

TEST_F(HotplugBase, AWriteIsSeen) {
    written_before(10);
    const Base was = look();
    write("SIXTEEN BYTES...");
    EXPECT_NE(since(was).find("written to"), std::string::npos) << since(was);
}

TEST_F(HotplugBase, ANewSizeIsSeen) {
    const Base was = look();
    ASSERT_EQ(truncate(path_.c_str(), 4), 0);
    EXPECT_EQ(since(was), "it had 16 bytes, and has 4 now");
}

TEST_F(HotplugBase, AnotherFileInItsPlaceIsSeen) {
    written_before(10);
    const Base was = look();
    ASSERT_EQ(rename(path_.c_str(), (directory_ + "/away").c_str()), 0);
    write("sixteen bytes...");
    written_before(10);
    EXPECT_EQ(since(was), "another file is in its place");
}

TEST_F(HotplugBase, AnotherDeviceIsSeenAndNoTime) {
    const Base was{{true, 0xfd01, 0}, 1 << 20, 0};
    Base is = was;
    EXPECT_FALSE(what_changed(was, is));
    is.medium.device = 0xfd02;
    EXPECT_EQ(what_changed(was, is),
              "it was a block device, 253:1, and is a block device, 253:2 now");
    EXPECT_EQ(what_changed(was, look()), "it was a block device, 253:1, and is a file now");
}

TEST_F(HotplugBase, OneThatIsGoneIsNamed) {
    ASSERT_EQ(unlink(path_.c_str()), 0);
    const auto base = look_at_base(path_);
    ASSERT_FALSE(base);
    EXPECT_EQ(base.error().code, ENOENT);
    EXPECT_NE(base.error().what.find(path_), std::string::npos);
    EXPECT_FALSE(medium_of(path_));
}

// Nobody is at the other end of the pipe: an open that waits would not come back.
TEST_F(HotplugBase, WhatIsNoDiskIsRefusedAndNotWaitedFor) {
    ASSERT_EQ(unlink(path_.c_str()), 0);
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    for (const std::string& path : {path_, directory_, std::string("/dev/null")}) {
        for (const int flags : {O_RDONLY, O_RDWR}) {
            const auto opened = open_base(path, flags);
            ASSERT_FALSE(opened) << path;
            EXPECT_NE(opened.error().what.find("neither a block device nor a file"),
                      std::string::npos);
        }
        EXPECT_FALSE(look_at_base(path)) << path;
    }
}

TEST_F(HotplugBase, TwoNamesOfOneFileAreOneMedium) {
    const std::string other = directory_ + "/other";
    ASSERT_EQ(symlink(path_.c_str(), other.c_str()), 0);
    EXPECT_EQ(medium_of(other), medium_of(path_));
    EXPECT_NE(medium_of(directory_), medium_of(path_));
}

TEST_F(HotplugBase, ItsTextIsReadAsItWasWritten) {
    const Base device{{true, 0xfd01, 0}, 1 << 20, 0};
    for (const Base& base : {look(), device}) {
        const auto read = parse_base(to_text(base));
        ASSERT_TRUE(read) << to_text(base);
        EXPECT_FALSE(what_changed(base, *read));
        EXPECT_EQ(to_text(*read), to_text(base));
    }
}

TEST_F(HotplugBase, OtherTextIsRefused) {
    for (const char* text :
         {"", "file", "file 1 2 3", "file 1 2 3 4 5", "file 1 2 3 4 ", "file  1 2 3 4",
          "file -1 2 3 4", "file 1 2 3 x", "filer 1 2 3 4", "device 1", "device 1 2 3",
          "device 1 99999999999999999999", " device 1 2", "disk 1 2"}) {
        EXPECT_FALSE(parse_base(text)) << text;
    }
}

}  // namespace
}  // namespace xenpack::hotplug
