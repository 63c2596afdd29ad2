// SPDX-License-Identifier: LGPL-2.1-or-later
// Disks, with an overlay and without; what fails is undone in the reverse order.
#include "hotplug/block.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "hotplug/base.h"
#include "hotplug/loop_device.h"
#include "hotplug/snapshot.h"

namespace xenpack::hotplug {
namespace {

constexpr std::string_view kMapper = "/dev/mapper/";
constexpr std::string_view kBackends = "/local/domain/0/backend/vbd";
constexpr std::uint64_t kMib = 1024 * 1024;
// Choice: what a small system writes while it starts and is told who it is.
constexpr std::uint64_t kOverlayLeastBytes = 64 * kMib;

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

std::string name_of(Store& store, const std::string& domain) {
    return store.read(fmt::format("/local/domain/{}/name", domain)).value_or("?");
}

// A template's disks are nobody's while it has no fork, and what comes of one later reads them.
Expected<void> refuse_templates(Store& store, const std::string& base) {
    const auto medium = medium_of(base);
    if (!medium) {
        return {};
    }
    for (const std::string& domain : store.list("/local/domain")) {
        const std::string disks = fmt::format("/local/domain/{}/{}", domain, kTemplateDisksNode);
        for (const std::string& disk : store.list(disks)) {
            const auto was = parse_base(store.read(fmt::format("{}/{}", disks, disk)).value_or(""));
            if (was && was->medium == *medium) {
                return fail_with(EBUSY,
                                 "the disk {} is the one of template {} (domain {}), which all its "
                                 "forks read: give this domain a copy of it, or access=ro, or an "
                                 "overlay (target={};)",
                                 base, name_of(store, domain), domain, base);
            }
        }
    }
    return {};
}

// ---- With an overlay.

Expected<std::uint64_t> sectors_of(const std::string& device) {
    const auto fd = open_base(device, O_RDONLY);
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    std::uint64_t bytes = 0;
    if (ioctl(fd->get(), BLKGETSIZE64, &bytes) != 0) {
        return fail_with(errno, "cannot read the size of {}: {}", device, std::strerror(errno));
    }
    if (bytes < kSectorBytes) {
        return fail("{} is empty: it cannot be a disk", device);
    }
    return bytes / kSectorBytes;
}

// The kernel gives up a whole overlay, and the disk with it, at the first block that finds no room.
Expected<void> check_room(const std::string& directory, std::uint64_t bytes) {
    struct statvfs system {};
    if (statvfs(directory.c_str(), &system) != 0) {
        return fail_with(errno, "cannot ask what is free for {}: {}", directory,
                         std::strerror(errno));
    }
    const std::uint64_t free = system.f_bavail * system.f_frsize;
    const std::uint64_t least = std::min(bytes, kOverlayLeastBytes);
    if (free < least) {
        return fail_with(ENOSPC,
                         "there is no room for what it will write to its disk: {} has {} MiB left, "
                         "and a new overlay wants {}: end forks, or give that file system more",
                         directory, free / kMib, least / kMib);
    }
    return {};
}

// A new file, which must not be there yet: two disks with one overlay would destroy each other.
Expected<void> make_overlay(const std::string& path, std::uint64_t bytes) {
    const std::string directory(kOverlayDirectory);
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail_with(errno, "cannot make {}: {}", directory, std::strerror(errno));
    }
    if (auto room = check_room(directory, bytes); !room) {
        return room;
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
                            const DiskParams& params) {
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
    if (const auto held = open_base(base, O_RDONLY | (writes ? O_EXCL : 0)); !held) {
        return fail_with(
            held.error().code, "{}{}", held.error().what,
            held.error().code == EBUSY ? ": this host has mounted it, or uses it otherwise" : "");
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
    auto allowed = refuse_shared(store, backend, base, writes);
    if (allowed && writes) {
        allowed = refuse_templates(store, base);
    }
    if (!allowed) {
        return allowed;
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

// What all of a template's forks read must be what the template had.
Expected<void> check_base(const std::string& path, const std::string& sealed) {
    if (sealed.empty()) {
        return {};
    }
    const auto was = parse_base(sealed);
    const auto is = was ? look_at_base(path) : tl::unexpected(was.error());
    if (!is) {
        return tl::unexpected(is.error());
    }
    if (const auto changed = what_changed(*was, *is)) {
        return fail_with(ESTALE,
                         "the disk {} is not what it was when the template was sealed: {}. Its "
                         "forks would read what the template never had: make the template anew",
                         path, *changed);
    }
    return {};
}

Expected<DiskParams> params_of(Store& store, const std::string& path) {
    const auto text = store.need(path + "/params");
    return text ? parse_disk_params(*text) : tl::unexpected(text.error());
}

}  // namespace

Expected<void> block_add(Store& store, const Backend& backend, const std::string& path) {
    const auto params = params_of(store, path);
    if (!params) {
        return tl::unexpected(params.error());
    }
    if (!params->overlay) {
        return add_plain(store, backend, path, params->base);
    }
    if (is_snapshot_name(*params->overlay)) {
        return fail(
            "it was the disk of a fork, which has ended, and what the fork had written has gone "
            "with it: a fork with a disk cannot be restored");
    }
    if (auto shared = refuse_shared(store, backend, params->base, false); !shared) {
        return shared;
    }
    return add_overlaid(store, backend, path, *params);
}

Expected<void> block_add_to_fork(Store& store, const Backend& backend, const std::string& path,
                                 const std::string& base) {
    const auto params = params_of(store, path);
    if (!params) {
        return tl::unexpected(params.error());
    }
    if (auto same = check_base(params->base, base); !same) {
        return same;
    }
    return params->overlay ? add_overlaid(store, backend, path, *params)
                           : add_plain(store, backend, path, params->base);
}

Expected<void> block_remove(Store& store, const std::string& path) {
    const auto params = params_of(store, path);
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
