// SPDX-License-Identifier: LGPL-2.1-or-later
// Whole files: read, written, and replaced at once. Called by all rooms that keep files: settings
// and promises of the daemon, recordings and drawings of the command line. It must not know what
// is in them.
#pragma once

#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack {

// All of a file, up to 256 MiB. Error.code is the errno, and names the file.
[[nodiscard]] Expected<std::string> read_file(const std::string& path);

// One write(2) to a file that exists: for the kernel's.
[[nodiscard]] Expected<void> write_file(const std::string& path, std::string_view text);

enum class Readers {
    as_usual,   // as open(2) would make it: by the umask
    owner_only  // 0600
};

// A file that appears under its name only when all of it is on the disk: until then, and where that
// fails, as on a full disk, what was under that name stays as it was, and nothing is left beside
// it, also where the process is killed. (Where the file system has no files without a name,
// O_TMPFILE of open(2), or in the very moment of the renaming, PATH.?????? may be.) A symbolic link
// is replaced, not followed.
class NewFile {
  public:
    // Begins beside `path`, to say early that this is not possible. What is there and is no
    // regular file is refused.
    [[nodiscard]] static Expected<NewFile> begin(const std::string& path,
                                                 Readers readers = Readers::as_usual);
    NewFile(NewFile&& other) noexcept;
    NewFile& operator=(NewFile&&) = delete;
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile();

    // Writes, syncs, renames. Called once. Error.code is the errno.
    [[nodiscard]] Expected<void> finish(std::string_view text);

  private:
    NewFile(std::string path, std::string aside, int fd, Readers readers)
        : path_(std::move(path)), aside_(std::move(aside)), fd_(fd), readers_(readers) {}
    [[nodiscard]] Expected<void> write_all(std::string_view text) const;
    [[nodiscard]] Expected<void> give_name();

    std::string path_;
    std::string aside_;  // empty: it has no name yet
    int fd_;             // -1: moved away, or finished
    Readers readers_;
};

// The two in one.
[[nodiscard]] Expected<void> replace_file(const std::string& path, std::string_view text,
                                          Readers readers);

}  // namespace xenpack
