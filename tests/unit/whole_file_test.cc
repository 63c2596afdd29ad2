// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/files/whole_file.h promises: the old file or the new one, and nothing beside it.
#include "watcher/files/whole_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/unit/http_client_fixture.h"

namespace xenpack {
namespace {

namespace fs = std::filesystem;

// As a disk on which no file can get longer than that.
class FullDisk {
  public:
    explicit FullDisk(rlim_t most_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
        const rlimit less{most_bytes, before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &less), 0);
    }
    ~FullDisk() {
        (void)setrlimit(RLIMIT_FSIZE, &before_);
        (void)std::signal(SIGXFSZ, handler_);
    }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

  private:
    void (*handler_)(int);
    rlimit before_{};
};

class WholeFile : public ::testing::Test {
  protected:
    [[nodiscard]] std::ptrdiff_t files() const {
        return std::distance(fs::directory_iterator(folder_ / ""), fs::directory_iterator());
    }
    [[nodiscard]] mode_t mode() const {
        struct stat status {};
        EXPECT_EQ(::stat(path_.c_str(), &status), 0);
        return status.st_mode & 0777;
    }
    void put(const std::string& text) const { std::ofstream(path_) << text; }
    [[nodiscard]] std::string text() const { return read_file(path_).value_or("not there"); }

    testing::TemporaryDirectory folder_;
    std::string path_ = folder_ / "a.trace";
};

TEST_F(WholeFile, IsReplacedOnlyWhenAllIsWritten) {
    put("old");
    {
        const auto begun = NewFile::begin(path_);
        ASSERT_TRUE(begun) << begun.error().what;
        EXPECT_EQ(text(), "old");
    }
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(files(), 1);
    auto file = NewFile::begin(path_);
    ASSERT_TRUE(file);
    ASSERT_TRUE(file->finish("new"));
    EXPECT_EQ(text(), "new");
    EXPECT_EQ(files(), 1);
}

TEST_F(WholeFile, FullDiskLeavesTheOldOneAndNothingBesideIt) {
    put("old");
    std::optional<Expected<void>> replaced;
    {
        const FullDisk full(1000);
        replaced = replace_file(path_, std::string(5000, 'x'), Readers::owner_only);
    }
    ASSERT_FALSE(*replaced);
    EXPECT_EQ(replaced->error().code, EFBIG);
    EXPECT_NE(replaced->error().what.find(path_), std::string::npos);
    EXPECT_EQ(text(), "old");
    EXPECT_EQ(files(), 1);
}

TEST_F(WholeFile, FullDiskLeavesNothingWhereNothingWas) {
    {
        const FullDisk full(0);
        EXPECT_FALSE(replace_file(path_, "new", Readers::as_usual));
    }
    EXPECT_EQ(files(), 0);
}

TEST_F(WholeFile, NothingIsLeftOfAProcessThatIsKilled) {
    const int fd = ::open((folder_ / "").c_str(), O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0) {
        GTEST_SKIP() << "this file system has no files without a name";
    }
    ::close(fd);
    const pid_t pid = ::fork();
    if (pid == 0) {
        const auto begun = NewFile::begin(path_);
        ::kill(::getpid(), begun ? SIGKILL : SIGTERM);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    EXPECT_EQ(files(), 0);
}

TEST_F(WholeFile, IsForWhomItWasMade) {
    ASSERT_TRUE(replace_file(path_, "secret", Readers::owner_only));
    EXPECT_EQ(mode(), 0600U);
    const mode_t mask = ::umask(022);
    const auto replaced = replace_file(path_, "known", Readers::as_usual);
    ::umask(mask);
    ASSERT_TRUE(replaced);
    EXPECT_EQ(mode(), 0644U);
}

TEST_F(WholeFile, WhatIsNoFileIsNotReplaced) {
    EXPECT_EQ(replace_file(folder_ / "", "x", Readers::as_usual).error().code, EEXIST);
    EXPECT_EQ(NewFile::begin("/dev/null").error().code, EEXIST);
    EXPECT_EQ(NewFile::begin(folder_ / "nosuch/a.trace").error().code, ENOENT);
}

TEST_F(WholeFile, LinkIsReplacedAndNotFollowed) {
    const std::string elsewhere = folder_ / "elsewhere";
    std::ofstream(elsewhere) << "another's";
    fs::create_symlink(elsewhere, path_);
    ASSERT_TRUE(replace_file(path_, "new", Readers::owner_only));
    EXPECT_FALSE(fs::is_symlink(path_));
    EXPECT_EQ(read_file(elsewhere).value(), "another's");
}

}  // namespace
}  // namespace xenpack
