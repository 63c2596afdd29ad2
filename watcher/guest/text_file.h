// SPDX-License-Identifier: LGPL-2.1-or-later
// TextFile: a small kernel file (proc, cgroup) that is opened once and read or written many times,
// without allocating. Used by ProcReader and BrakeFiles; not thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "watcher/error.h"
#include "watcher/guest/fd.h"

namespace xenpack::guest {

class TextFile {
  public:
    // flags: open(2)'s; O_CLOEXEC is added. Error.code is the errno.
    [[nodiscard]] static Expected<TextFile> open(std::string path, int flags);

    // The file from its beginning, as it is now; a view into `buffer`. Fails if it does not fit.
    [[nodiscard]] Expected<std::string_view> read(std::span<char> buffer) const;

    // One write(2) of all of it, at the beginning.
    [[nodiscard]] Expected<void> write(std::string_view text) const;

    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    TextFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

    Fd fd_;
    std::string path_;
};

}  // namespace xenpack::guest
