// SPDX-License-Identifier: LGPL-2.1-or-later
// Parsing, without exceptions: what is not understood is told with an example of what would be.
#include "hotplug/request.h"

#include <algorithm>
#include <charconv>

namespace xenpack::hotplug {
namespace {

constexpr std::size_t kLongestInterfaceName = 15;

std::optional<std::uint32_t> number(std::string_view text) {
    std::uint32_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

bool is_plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

// A file's name that leads nowhere else: no '/', and not hidden.
bool is_file_name(std::string_view name) {
    return !name.empty() && name.size() <= 200 && name.front() != '.' &&
           std::all_of(name.begin(), name.end(), is_plain);
}

// Cuts off and returns what is behind the last `mark`.
std::string_view cut_last(std::string_view& text, char mark) {
    const std::size_t at = text.rfind(mark);
    if (at == std::string_view::npos) {
        return {};
    }
    const std::string_view last = text.substr(at + 1);
    text = text.substr(0, at);
    return last;
}

constexpr std::string_view kSnapshotPrefix = "xenpack-";

bool is_uuid(std::string_view text) {
    if (text.size() != 36) {
        return false;
    }
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        const char c = text[i];
        const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (dash ? c != '-' : !hex) {
            return false;
        }
    }
    return true;
}

}  // namespace

Expected<Backend> parse_backend(std::string_view xenbus_path) {
    std::string_view rest = xenbus_path;
    const auto devid = number(cut_last(rest, '/'));
    const auto domid = number(cut_last(rest, '/'));
    const std::string_view type = cut_last(rest, '/');
    if (!devid || !domid || type.empty() || !rest.ends_with("backend")) {
        return fail(
            "XENBUS_PATH is \"{}\", which is no backend: libxl sets it, as in "
            "backend/vbd/5/51712",
            xenbus_path);
    }
    return Backend{std::string(type), *domid, *devid};
}

Expected<DiskParams> parse_disk_params(std::string_view params) {
    const std::size_t mark = params.rfind(';');
    DiskParams parsed{std::string(params.substr(0, mark)), std::nullopt};
    if (!parsed.base.starts_with('/')) {
        return fail(
            "the disk's target is \"{}\": it must be an absolute path, and may end in "
            ";OVERLAY",
            params);
    }
    if (mark == std::string_view::npos) {
        return parsed;
    }
    std::string_view overlay = params.substr(mark + 1);
    if (overlay.starts_with(kOverlayDirectory) && overlay.size() > kOverlayDirectory.size() &&
        overlay[kOverlayDirectory.size()] == '/') {
        overlay.remove_prefix(kOverlayDirectory.size() + 1);
    }
    const bool by_itself = mark + 1 == params.size();
    if (!by_itself && !is_file_name(overlay)) {
        return fail("the disk's overlay is \"{}\": it must be the name of a file in {}, or nothing",
                    overlay, kOverlayDirectory);
    }
    parsed.overlay = std::string(overlay);
    return parsed;
}

Expected<std::string> parse_vm_path(std::string_view vm) {
    constexpr std::string_view kBefore = "/vm/";
    if (!vm.starts_with(kBefore) || !is_uuid(vm.substr(kBefore.size()))) {
        return fail("the domain's node vm is \"{}\", not /vm/ and its uuid", vm);
    }
    return std::string(vm.substr(kBefore.size()));
}

std::string snapshot_name(std::string_view uuid, std::uint32_t devid) {
    return fmt::format("{}{}-{}", kSnapshotPrefix, uuid, devid);
}

bool is_snapshot_name(std::string_view name) {
    if (!name.starts_with(kSnapshotPrefix) || !number(cut_last(name, '-'))) {
        return false;
    }
    return is_uuid(name.substr(kSnapshotPrefix.size()));
}

std::string overlay_path(std::string_view name) {
    return fmt::format("{}/{}", kOverlayDirectory, name);
}

std::uint64_t overlay_bytes(std::uint64_t base_sectors) {
    const std::uint64_t chunks = (base_sectors + kChunkSectors - 1) / kChunkSectors + 1;
    return chunks * kChunkSectors * kSectorBytes;
}

std::string device_number(unsigned major, unsigned minor) {
    return fmt::format("{:x}:{:x}", major, minor);
}

bool may_join(const ForkNodes& nodes) {
    if (!nodes.state) {
        return true;
    }
    return nodes.generation && !nodes.generation->empty() &&
           nodes.said == *nodes.generation + " ready";
}

bool is_interface_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongestInterfaceName && name != "." && name != ".." &&
           std::none_of(name.begin(), name.end(),
                        [](char c) { return c == '/' || c == ':' || c <= ' '; });
}

}  // namespace xenpack::hotplug
