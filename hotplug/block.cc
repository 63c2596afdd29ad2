// SPDX-License-Identifier: LGPL-2.1-or-later
// Disks, with an overlay and without; what fails is undone in the reverse order.
#include "hotplug/block.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "hotplug/loop_device.h"
#include "hotplug/snapshot.h"

namespace xenpack::hotplug {
namespace {

constexpr std::string_view kMapper = "/dev/mapper/";
constexpr std::string_view kBackends = "/local/domain/0/backend/vbd";

// Of a fork, as they stand in xenstore: what it was called, and where its overlay is.
struct Names {
    std::string snapshot;
    std::string overlay;
};

Expected<Names> names_of(Store& store, const Backend& backend, const DiskParams& params) {
    const auto vm = store.need(fmt::format("/local/domain/{}/vm", backend.domid));
    const auto uuid = vm ? parse_vm_path(*vm) : tl::unexpected(vm.error());
    if (!uuid) {
        return tl::unexpected(uuid.error());
    }
    const std::string name = snapshot_name(*uuid, backend.devid);
    return Names{name, overlay_path(params.overlay->empty() ? name : *params.overlay)};
}

// What the backend in the kernel waits for, and, before it, what `remove` will want to know.
Expected<void> hand_over(Store& store, const std::string& path, const std::string& node,
                         const std::string& number) {
    auto done = store.write(path + "/node", node);
    if (done) {
        done = store.write(path + "/physical-device-path", node);
    }
    if (done) {
        done = store.write(path + "/physical-device", number);
    }
    return done ? store.write(path + "/hotplug-status", "connected") : done;
}

// ---- Shared with others.

// What is written to in the end: a block device, or a file.
struct Medium {
    bool is_device = false;
    dev_t device = 0;
    ino_t file = 0;
    bool operator==(const Medium&) const = default;
};

std::optional<Medium> medium_of(const std::string& path) {
    struct stat status {};
    if (stat(path.c_str(), &status) != 0) {
        return std::nullopt;
    }
    return S_ISBLK(status.st_mode) ? Medium{true, status.st_rdev, 0}
                                   : Medium{false, status.st_dev, status.st_ino};
}

std::string number_of(const Medium& medium) {
    return medium.is_device ? device_number(major(medium.device), minor(medium.device)) : "";
}

// One that migrates to its own host is there twice, and only one of the two runs.
bool is_same_zone(Store& store, const std::string& domain, const std::string& other) {
    const auto vm = store.read(fmt::format("/local/domain/{}/vm", domain));
    return vm && vm == store.read(fmt::format("/local/domain/{}/vm", other));
}

// Whether a disk in the store, whoever has set it up, is on that medium, and one of the two may
// write to it.
bool clashes(Store& store, const std::string& path, const Medium& medium, bool writes) {
    const auto params = parse_disk_params(store.read(path + "/params").value_or(""));
    const bool shares =
        (params && medium_of(params->base) == medium) ||
        (medium.is_device && store.read(path + "/physical-device") == number_of(medium));
    const bool overlaid = params && params->overlay;
    return shares && (writes || (!overlaid && store.read(path + "/mode") != "r"));
}

// Two that write to one disk, or one to what another reads, destroy each other's files.
Expected<void> refuse_shared(Store& store, const Backend& backend, const std::string& base,
                             bool writes) {
    const std::string self = std::to_string(backend.domid);
    const auto medium = medium_of(base);
    if (!medium) {
        return {};
    }
    for (const std::string& domain : store.list(std::string(kBackends))) {
        for (const std::string& disk : store.list(fmt::format("{}/{}", kBackends, domain))) {
            const bool is_this = domain == self && disk == std::to_string(backend.devid);
            if (!is_this &&
                clashes(store, fmt::format("{}/{}/{}", kBackends, domain, disk), *medium, writes) &&
                (domain == self || !is_same_zone(store, self, domain))) {
                return fail_with(EBUSY,
                                 "the disk {} is in use by domain {}: give one of them another, "
                                 "or both access=ro",
                                 base, domain);
            }
        }
    }
    return {};
}

// ---- With an overlay.

Expected<std::uint64_t> sectors_of(const std::string& device) {
    const guest::Fd fd(::open(device.c_str(), O_RDONLY | O_CLOEXEC));
    std::uint64_t bytes = 0;
    if (!fd || ioctl(fd.get(), BLKGETSIZE64, &bytes) != 0) {
        return fail_with(errno, "cannot read the size of {}: {}", device, std::strerror(errno));
    }
    if (bytes < kSectorBytes) {
        return fail("{} is empty: it cannot be a disk", device);
    }
    return bytes / kSectorBytes;
}

// A new file, which must not be there yet: two disks with one overlay would destroy each other.
Expected<void> make_overlay(const std::string& path, std::uint64_t bytes) {
    const std::string directory(kOverlayDirectory);
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail_with(errno, "cannot make {}: {}", directory, std::strerror(errno));
    }
    const guest::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) {
        return fail_with(errno, "cannot make the overlay {}: {}{}", path, std::strerror(errno),
                         errno == EEXIST ? ": another disk uses it, or it was left behind" : "");
    }
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
        const int error = errno;
        unlink(path.c_str());
        return fail_with(error, "cannot make the overlay {} as large as its disk: {}", path,
                         std::strerror(error));
    }
    return {};
}

// The disk under the snapshot: itself where it is a block device. The device is the snapshot's once
// that is there, and goes with it.
Expected<LoopDevice> base_device(const std::string& base) {
    struct stat status {};
    if (stat(base.c_str(), &status) != 0) {
        return fail_with(errno, "the disk {} cannot be used: {}", base, std::strerror(errno));
    }
    if (S_ISBLK(status.st_mode)) {
        return LoopDevice{guest::Fd(), base};
    }
    return attach(base, Access::kReadOnly);
}

// From the overlay's making on: the caller unlinks that again where this fails.
Expected<DeviceNumber> snapshot_over(const LoopDevice& base, std::uint64_t sectors,
                                     const Names& names) {
    const auto overlay = attach(names.overlay, Access::kReadWrite);
    if (!overlay) {
        return tl::unexpected(overlay.error());
    }
    return create_snapshot({names.snapshot, sectors, base.path, overlay->path});
}

Expected<void> add_overlaid(Store& store, const Backend& backend, const std::string& path,
                            const DiskParams& params, AddedFor whom) {
    // A fork's base is its template's, which sealing has frozen.
    if (whom == AddedFor::kDomain) {
        if (auto shared = refuse_shared(store, backend, params.base, false); !shared) {
            return shared;
        }
    }
    const auto names = names_of(store, backend, params);
    const auto base = names ? base_device(params.base) : tl::unexpected(names.error());
    const auto sectors = base ? sectors_of(base->path) : tl::unexpected(base.error());
    if (!sectors) {
        return tl::unexpected(sectors.error());
    }
    // First, so that `remove` finds the overlay wherever this is broken off.
    if (auto noted = store.write(path + "/node", std::string(kMapper) + names->snapshot); !noted) {
        return noted;
    }
    auto done = make_overlay(names->overlay, overlay_bytes(*sectors));
    if (!done) {
        (void)store.write(path + "/node", "");
        return done;
    }
    const auto device = snapshot_over(*base, *sectors, *names);
    if (device) {
        done = hand_over(store, path, std::string(kMapper) + names->snapshot,
                         device_number(device->major, device->minor));
        if (done) {
            return {};
        }
        (void)remove_snapshot(names->snapshot);
    }
    unlink(names->overlay.c_str());
    return device ? done : tl::unexpected(device.error());
}

// ---- Without.

Expected<void> add_device(Store& store, const std::string& path, const std::string& base,
                          const std::string& number, bool writes) {
    const guest::Fd held(::open(base.c_str(), O_RDONLY | O_CLOEXEC | (writes ? O_EXCL : 0)));
    if (!held) {
        return fail_with(errno, "the disk {} cannot be used: {}{}", base, std::strerror(errno),
                         errno == EBUSY ? ": this host has mounted it, or uses it otherwise" : "");
    }
    return hand_over(store, path, base, number);
}

Expected<void> add_file(Store& store, const std::string& path, const std::string& base,
                        bool writes) {
    const auto device = attach(base, writes ? Access::kReadWrite : Access::kReadOnly);
    struct stat status {};
    if (!device || fstat(device->fd.get(), &status) != 0) {
        return device ? fail_with(errno, "{}: {}", device->path, std::strerror(errno))
                      : tl::unexpected(device.error());
    }
    // Known to `remove` before it stays by itself.
    auto done = store.write(path + "/node", device->path);
    if (done) {
        done = keep(*device);
    }
    if (done) {
        done = hand_over(store, path, device->path,
                         device_number(major(status.st_rdev), minor(status.st_rdev)));
        if (!done) {
            (void)detach(device->path);
        }
    }
    return done;
}

Expected<void> add_plain(Store& store, const Backend& backend, const std::string& path,
                         const std::string& base) {
    const bool writes = store.read(path + "/mode").value_or("w") != "r";
    struct stat status {};
    if (stat(base.c_str(), &status) != 0) {
        return fail_with(errno, "the disk {} cannot be used: {}", base, std::strerror(errno));
    }
    if (auto shared = refuse_shared(store, backend, base, writes); !shared) {
        return shared;
    }
    if (S_ISBLK(status.st_mode)) {
        return add_device(store, path, base,
                          device_number(major(status.st_rdev), minor(status.st_rdev)), writes);
    }
    if (S_ISREG(status.st_mode)) {
        return add_file(store, path, base, writes);
    }
    return fail("the disk {} is neither a block device nor a file", base);
}

Expected<void> discard(const std::string& snapshot, const std::string& overlay) {
    auto removed = remove_snapshot(snapshot);
    if (unlink(overlay.c_str()) != 0 && errno != ENOENT && removed) {
        return fail_with(errno, "cannot remove the overlay {}: {}", overlay, std::strerror(errno));
    }
    return removed;
}

// What `add` has written down first is what it may have made, and no more: an overlay of that name
// may be another's, on which it has failed.
Expected<void> remove_overlaid(const std::string& node, const DiskParams& params) {
    if (!node.starts_with(kMapper)) {
        return {};
    }
    const std::string snapshot = node.substr(kMapper.size());
    return discard(snapshot, overlay_path(params.overlay->empty() ? snapshot : *params.overlay));
}

}  // namespace

Expected<void> block_add(Store& store, const Backend& backend, const std::string& path,
                         AddedFor whom) {
    const auto text = store.need(path + "/params");
    const auto params = text ? parse_disk_params(*text) : tl::unexpected(text.error());
    if (!params) {
        return tl::unexpected(params.error());
    }
    if (whom == AddedFor::kDomain && params->overlay && is_snapshot_name(*params->overlay)) {
        return fail(
            "it was the disk of a fork, which has ended, and what the fork had written has gone "
            "with it: a fork with a disk cannot be restored");
    }
    return params->overlay ? add_overlaid(store, backend, path, *params, whom)
                           : add_plain(store, backend, path, params->base);
}

Expected<void> block_remove(Store& store, const std::string& path) {
    const auto text = store.need(path + "/params");
    const auto params = text ? parse_disk_params(*text) : tl::unexpected(text.error());
    if (!params) {
        return tl::unexpected(params.error());
    }
    const std::string node = store.read(path + "/node").value_or("");
    if (params->overlay) {
        return remove_overlaid(node, *params);
    }
    return node.starts_with("/dev/loop") && node != params->base ? detach(node) : Expected<void>();
}

Expected<void> block_discard(const std::string& snapshot) {
    return discard(snapshot, overlay_path(snapshot));
}

}  // namespace xenpack::hotplug
