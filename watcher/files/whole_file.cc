// SPDX-License-Identifier: LGPL-2.1-or-later
// Whole files: the system calls. It does not interpret what it reads.
#include "watcher/files/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

namespace xenpack {
namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr int kMostNames = 100;

tl::unexpected<Error> failed(std::string_view what, const std::string& path) {
    const int code = errno;
    return fail_with(code, "cannot {} {}: {}", what, path, std::strerror(code));
}

}  // namespace

Expected<std::string> read_file(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return failed("open", path);
    }
    std::string text;
    std::array<char, 32768> buffer{};
    Expected<void> good;
    while (good) {
        const ssize_t r = ::read(fd, buffer.data(), buffer.size());
        if (r == 0) {
            break;
        }
        if (r > 0) {
            text.append(buffer.data(), static_cast<std::size_t>(r));
            if (text.size() > kMostBytes) {
                good = fail("cannot read {}: it is longer than {} MiB", path, kMostBytes >> 20);
            }
        } else if (errno != EINTR) {
            good = failed("read", path);
        }
    }
    ::close(fd);
    if (!good) {
        return tl::unexpected<Error>(good.error());
    }
    return text;
}

Expected<void> write_file(const std::string& path, std::string_view text) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return failed("open", path);
    }
    const ssize_t r = ::write(fd, text.data(), text.size());
    Expected<void> written;
    if (r != static_cast<ssize_t>(text.size())) {
        errno = r < 0 ? errno : EIO;
        written = failed("write to", path);
    }
    ::close(fd);
    return written;
}

Expected<NewFile> NewFile::begin(const std::string& path, Readers readers) {
    struct stat there {};
    if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
        return fail_with(EEXIST, "cannot write {}: it is there, and not a regular file", path);
    }
    const std::string folder = std::filesystem::path(path).parent_path().string();
    const int nameless =
        ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (nameless >= 0) {
        return NewFile(path, "", nameless, readers);
    }
    std::string aside = path + ".XXXXXX";
    const int fd = ::mkostemp(aside.data(), O_CLOEXEC);
    if (fd < 0) {
        return failed("write", path);
    }
    return NewFile(path, std::move(aside), fd, readers);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      aside_(std::move(other.aside_)),
      fd_(std::exchange(other.fd_, -1)),
      readers_(other.readers_) {}

NewFile::~NewFile() {
    if (fd_ >= 0) {
        ::close(fd_);
        if (!aside_.empty()) {
            ::unlink(aside_.c_str());
        }
    }
}

Expected<void> NewFile::write_all(std::string_view text) const {
    while (!text.empty()) {
        const ssize_t r = ::write(fd_, text.data(), text.size());
        if (r < 0 && errno != EINTR) {
            return failed("write", path_);
        }
        text.remove_prefix(r > 0 ? static_cast<std::size_t>(r) : 0);
    }
    // mkostemp(3) leaves others nothing.
    if (readers_ == Readers::as_usual) {
        const mode_t mask = ::umask(0);
        ::umask(mask);
        if (::fchmod(fd_, 0666 & ~mask) != 0) {
            return failed("write", path_);
        }
    }
    if (::fsync(fd_) != 0) {
        return failed("write", path_);
    }
    return {};
}

// A link cannot replace what is there: first another name.
Expected<void> NewFile::give_name() {
    const std::string nameless = fmt::format("/proc/self/fd/{}", fd_);
    std::random_device random;
    for (int tries = 0; tries < kMostNames; ++tries) {
        const std::string name = fmt::format("{}.{:06x}", path_, random() & 0xffffff);
        if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
            aside_ = name;
            return {};
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return failed("write", path_);
}

Expected<void> NewFile::finish(std::string_view text) {
    if (auto written = write_all(text); !written) {
        return written;
    }
    if (aside_.empty()) {
        if (auto named = give_name(); !named) {
            return named;
        }
    }
    if (::rename(aside_.c_str(), path_.c_str()) != 0) {
        return failed("write", path_);
    }
    ::close(std::exchange(fd_, -1));
    return {};
}

Expected<void> replace_file(const std::string& path, std::string_view text, Readers readers) {
    auto file = NewFile::begin(path, readers);
    return file ? file->finish(text) : tl::unexpected<Error>(file.error());
}

}  // namespace xenpack
