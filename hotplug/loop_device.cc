// SPDX-License-Identifier: LGPL-2.1-or-later
// LOOP_CONFIGURE, which takes the file and the flags at once (Linux 5.8).
#include "hotplug/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

#include "hotplug/base.h"

namespace xenpack::hotplug {
namespace {

// Others may take a device between its being named free and being taken: then the next.
constexpr int kTries = 256;

Expected<guest::Fd> open_file(const std::string& path, int flags) {
    guest::Fd fd(::open(path.c_str(), flags | O_CLOEXEC));
    if (!fd) {
        return fail_with(errno, "cannot open {}: {}", path, std::strerror(errno));
    }
    return fd;
}

loop_config configuration(const std::string& file, int fd, Access access) {
    loop_config config{};
    config.fd = static_cast<__u32>(fd);
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (access == Access::kReadOnly) {
        config.info.lo_flags |= LO_FLAGS_READ_ONLY;
    }
    // Shown by losetup; cut off where it is longer.
    file.copy(reinterpret_cast<char*>(config.info.lo_file_name), LO_NAME_SIZE - 1);
    return config;
}

}  // namespace

Expected<LoopDevice> attach(const std::string& file, Access access) {
    const int mode = access == Access::kReadOnly ? O_RDONLY : O_RDWR;
    const auto backing = open_base(file, mode);
    if (!backing) {
        return tl::unexpected(backing.error());
    }
    const auto control = open_file("/dev/loop-control", O_RDWR);
    if (!control) {
        return tl::unexpected(control.error().during("is the module loop loaded?"));
    }
    const loop_config config = configuration(file, backing->get(), access);
    for (int i = 0; i < kTries; ++i) {
        const int index = ioctl(control->get(), LOOP_CTL_GET_FREE);
        if (index < 0) {
            break;
        }
        LoopDevice device{guest::Fd(), fmt::format("/dev/loop{}", index)};
        auto fd = open_file(device.path, mode);
        if (!fd) {
            return tl::unexpected(fd.error());
        }
        if (ioctl(fd->get(), LOOP_CONFIGURE, &config) == 0) {
            device.fd = *std::move(fd);
            return device;
        }
        if (errno != EBUSY) {
            break;
        }
    }
    return fail_with(errno, "cannot make a loop device of {}: {}", file, std::strerror(errno));
}

Expected<void> keep(const LoopDevice& device) {
    loop_info64 info{};
    if (ioctl(device.fd.get(), LOOP_GET_STATUS64, &info) != 0) {
        return fail_with(errno, "cannot read {}'s state: {}", device.path, std::strerror(errno));
    }
    info.lo_flags &= ~static_cast<__u32>(LO_FLAGS_AUTOCLEAR);
    if (ioctl(device.fd.get(), LOOP_SET_STATUS64, &info) != 0) {
        return fail_with(errno, "cannot keep {}: {}", device.path, std::strerror(errno));
    }
    return {};
}

Expected<void> detach(const std::string& path) {
    const auto fd = open_file(path, O_RDONLY);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    if (ioctl(fd->get(), LOOP_CLR_FD) != 0 && errno != ENXIO) {
        return fail_with(errno, "cannot detach {}: {}", path, std::strerror(errno));
    }
    return {};
}

}  // namespace xenpack::hotplug
