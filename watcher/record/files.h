// SPDX-License-Identifier: LGPL-2.1-or-later
// Whole files: read, written, and replaced at once. Called by recordings and by whoever reads
// traces.
#pragma once

#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack::record {

// All of a file, up to 256 MiB. Error.code is the errno, and names the file.
[[nodiscard]] Expected<std::string> read_file(const std::string& path);

// One write(2) to a file that exists: for the kernel's.
[[nodiscard]] Expected<void> write_file(const std::string& path, std::string_view text);

// A file that appears under its name only when all of it has been written: until then, and where
// that fails, what was under that name stays as it was.
class NewFile {
  public:
    // Begins beside `path`, to say early that this is not possible.
    [[nodiscard]] static Expected<NewFile> begin(const std::string& path);
    NewFile(NewFile&& other) noexcept;
    NewFile& operator=(NewFile&&) = delete;
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;
    ~NewFile();

    // Writes, syncs, renames. Called once.
    [[nodiscard]] Expected<void> finish(std::string_view text);

  private:
    NewFile(std::string path, std::string aside, int fd)
        : path_(std::move(path)), aside_(std::move(aside)), fd_(fd) {}
    [[nodiscard]] Expected<void> write_all(std::string_view text) const;

    std::string path_;
    std::string aside_;
    int fd_;
};

}  // namespace xenpack::record
