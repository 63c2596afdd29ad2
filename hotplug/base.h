// SPDX-License-Identifier: LGPL-2.1-or-later
// What a disk is made of on the host: which file or block device, how large, and when a file was
// written to; and the only way to open one. A template's are written down when it is sealed, below
// its domain's node in the store, and known again by that. Called by block.cc, loop_device.cc, and
// by the plugin for templates and forks. It must not know which domain has the disk.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "watcher/error.h"
#include "watcher/guest/fd.h"

namespace xenpack::hotplug {

// Below /local/domain/N of a template: a node for each of its disks, by the disk's number, which
// says what the disk's base was (to_text).
inline constexpr std::string_view kTemplateDisksNode = "xenpack/template/disks";

// Where what is written ends up. A loop device is the file that it stands for.
struct Medium {
    bool is_device = false;
    std::uint64_t device = 0;  // dev_t: the device's own, or that of the file's file system
    std::uint64_t file = 0;    // inode; 0 of a device
    bool operator==(const Medium&) const = default;
};

struct Base {
    Medium medium;
    std::uint64_t bytes = 0;
    // A file's last change of content (mtime), since 1970; 0 of a device, which keeps none. Not
    // ctime: an owner, a mode, a label or another link change that, and nothing on the disk.
    std::int64_t written_ns = 0;
};

// Opens it, with the flags of open(2), and never waits for somebody at the other end: what is
// neither a file nor a block device is refused.
Expected<guest::Fd> open_base(const std::string& path, int flags);
Expected<Base> look_at_base(const std::string& path);
// Nothing where it cannot be looked at.
std::optional<Medium> medium_of(const std::string& path);

// One line.
std::string to_text(const Base& base);
Expected<Base> parse_base(std::string_view text);

// What has happened to it, as the end of a sentence; nothing where it holds what it did.
std::optional<std::string> what_changed(const Base& was, const Base& is);

}  // namespace xenpack::hotplug
