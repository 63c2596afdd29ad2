// SPDX-License-Identifier: LGPL-2.1-or-later
// Looked at before it is opened, so that opening has no effect on what is no disk, and again then,
// since the name may have become another's.
#include "hotplug/base.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>

namespace xenpack::hotplug {
namespace {

constexpr std::string_view kFile = "file";
constexpr std::string_view kDevice = "device";
constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr unsigned kLoopMajor = 7;  // Linux: LOOP_MAJOR of linux/major.h

tl::unexpected<Error> cannot_use(const std::string& path, int error) {
    return fail_with(error, "the disk {} cannot be used: {}", path, std::strerror(error));
}

Expected<void> check_kind(const std::string& path, const struct stat& status) {
    if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
        return fail_with(EINVAL, "the disk {} is neither a block device nor a file", path);
    }
    return {};
}

struct Opened {
    guest::Fd fd;
    struct stat status {};
};

Expected<Opened> open_and_look(const std::string& path, int flags) {
    Opened opened;
    if (stat(path.c_str(), &opened.status) != 0) {
        return cannot_use(path, errno);
    }
    if (auto ok = check_kind(path, opened.status); !ok) {
        return tl::unexpected(ok.error());
    }
    opened.fd = guest::Fd(::open(path.c_str(), flags | O_NONBLOCK | O_CLOEXEC));
    if (!opened.fd || fstat(opened.fd.get(), &opened.status) != 0) {
        return cannot_use(path, errno);
    }
    if (auto ok = check_kind(path, opened.status); !ok) {
        return tl::unexpected(ok.error());
    }
    return opened;
}

// The file under a loop device, where all of it is meant; two may have parts of one file.
std::optional<Medium> file_under(int fd, dev_t device) {
    loop_info64 info{};
    if (major(device) != kLoopMajor || ioctl(fd, LOOP_GET_STATUS64, &info) != 0 ||
        info.lo_rdevice != 0 || info.lo_offset != 0 || info.lo_sizelimit != 0) {
        return std::nullopt;
    }
    return Medium{false, info.lo_device, info.lo_inode};
}

Medium medium_in(const Opened& opened) {
    const struct stat& status = opened.status;
    if (!S_ISBLK(status.st_mode)) {
        return {false, status.st_dev, status.st_ino};
    }
    const auto file = file_under(opened.fd.get(), status.st_rdev);
    return file.value_or(Medium{true, status.st_rdev, 0});
}

std::string name_of(const Medium& medium) {
    return medium.is_device
               ? fmt::format("a block device, {}:{}", major(medium.device), minor(medium.device))
               : std::string("a file");
}

std::string moment(std::int64_t ns) {
    const auto seconds = static_cast<std::time_t>(ns / kNsPerSecond);
    std::tm parts{};
    std::array<char, 64> text{};
    if (gmtime_r(&seconds, &parts) == nullptr) {
        return fmt::format("{} s since 1970", seconds);
    }
    return {text.data(), std::strftime(text.data(), text.size(), "%F %T UTC", &parts)};
}

// The next word of the line, as a number.
template <class Number>
bool take(std::string_view& text, Number& number) {
    if (!text.starts_with(' ')) {
        return false;
    }
    text.remove_prefix(1);
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    return read.ec == std::errc();
}

}  // namespace

Expected<guest::Fd> open_base(const std::string& path, int flags) {
    auto opened = open_and_look(path, flags);
    if (!opened) {
        return tl::unexpected(opened.error());
    }
    return std::move(opened->fd);
}

Expected<Base> look_at_base(const std::string& path) {
    const auto opened = open_and_look(path, O_RDONLY);
    if (!opened) {
        return tl::unexpected(opened.error());
    }
    Base base;
    base.medium = medium_in(*opened);
    if (S_ISBLK(opened->status.st_mode)) {
        if (ioctl(opened->fd.get(), BLKGETSIZE64, &base.bytes) != 0) {
            return cannot_use(path, errno);
        }
        return base;
    }
    base.bytes = static_cast<std::uint64_t>(opened->status.st_size);
    base.written_ns = opened->status.st_mtim.tv_sec * kNsPerSecond + opened->status.st_mtim.tv_nsec;
    return base;
}

std::optional<Medium> medium_of(const std::string& path) {
    Opened opened;
    if (stat(path.c_str(), &opened.status) != 0) {
        return std::nullopt;
    }
    if (S_ISBLK(opened.status.st_mode) && major(opened.status.st_rdev) == kLoopMajor) {
        opened.fd = guest::Fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    }
    return medium_in(opened);
}

std::string to_text(const Base& base) {
    const Medium& medium = base.medium;
    return medium.is_device ? fmt::format("{} {} {}", kDevice, medium.device, base.bytes)
                            : fmt::format("{} {} {} {} {}", kFile, medium.device, medium.file,
                                          base.bytes, base.written_ns);
}

Expected<Base> parse_base(std::string_view text) {
    Base base;
    std::string_view rest = text;
    bool good = false;
    if (rest.starts_with(kDevice)) {
        rest.remove_prefix(kDevice.size());
        base.medium.is_device = true;
        good = take(rest, base.medium.device) && take(rest, base.bytes);
    } else if (rest.starts_with(kFile)) {
        rest.remove_prefix(kFile.size());
        good = take(rest, base.medium.device) && take(rest, base.medium.file) &&
               take(rest, base.bytes) && take(rest, base.written_ns);
    }
    if (!good || !rest.empty()) {
        return fail_with(EINVAL,
                         "\"{}\" does not say what a disk is: it must be as \"device 64768 "
                         "1073741824\" or \"file 2049 12 1073741824 1700000000000000000\"",
                         text);
    }
    return base;
}

std::optional<std::string> what_changed(const Base& was, const Base& is) {
    if (was.medium.is_device != is.medium.is_device ||
        (is.medium.is_device && was.medium != is.medium)) {
        return fmt::format("it was {}, and is {} now", name_of(was.medium), name_of(is.medium));
    }
    if (was.medium != is.medium) {
        return "another file is in its place";
    }
    if (was.bytes != is.bytes) {
        return fmt::format("it had {} bytes, and has {} now", was.bytes, is.bytes);
    }
    if (was.written_ns != is.written_ns) {
        return fmt::format("it has been written to, at {}", moment(is.written_ns));
    }
    return std::nullopt;
}

}  // namespace xenpack::hotplug
