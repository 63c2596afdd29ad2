// SPDX-License-Identifier: LGPL-2.1-or-later
// TextFile: the system calls under ProcReader and BrakeFiles. It does not interpret what it reads.
#include "watcher/guest/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace xenpack::guest {

Expected<TextFile> TextFile::open(std::string path, int flags) {
    Fd fd(::open(path.c_str(), flags | O_CLOEXEC));
    if (!fd) {
        const int code = errno;
        return fail_with(code, "cannot open {}: {}", path, std::strerror(code));
    }
    return TextFile(std::move(fd), std::move(path));
}

Expected<std::string_view> TextFile::read(std::span<char> buffer) const {
    std::size_t size = 0;
    while (size < buffer.size()) {
        const ssize_t r = ::pread(fd_.get(), buffer.data() + size, buffer.size() - size,
                                  static_cast<off_t>(size));
        if (r == 0) {
            return std::string_view(buffer.data(), size);
        }
        if (r < 0 && errno != EINTR) {
            const int code = errno;
            return fail_with(code, "cannot read {}: {}", path_, std::strerror(code));
        }
        size += r > 0 ? static_cast<std::size_t>(r) : 0;
    }
    return fail("cannot read {}: it is longer than {} bytes", path_, buffer.size() - 1);
}

Expected<void> TextFile::write(std::string_view text) const {
    const ssize_t r = ::pwrite(fd_.get(), text.data(), text.size(), 0);
    if (r == static_cast<ssize_t>(text.size())) {
        return {};
    }
    const int code = r < 0 ? errno : EIO;
    return fail_with(code, "cannot write to {}: {}", path_, std::strerror(code));
}

}  // namespace xenpack::guest
