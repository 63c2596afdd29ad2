// SPDX-License-Identifier: LGPL-2.1-or-later
// The table of xen-vbd-interface(7) of Xen's documentation.
#include "plugin/libxl/vbd_number.h"

#include <array>
#include <charconv>
#include <utility>

namespace xenpack {
namespace {

// Of a name's end: "3" is partition 3, "" none. Nothing where it is not a number.
std::optional<std::uint32_t> partition_of(std::string_view text) {
    std::uint32_t number = 0;
    if (text.empty()) {
        return number;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || text.front() == '0') {
        return std::nullopt;
    }
    return number;
}

// The letters of a name, as columns of a table are counted: a is 0, z is 25, aa is 26.
std::optional<std::uint32_t> take_letters(std::string_view& text) {
    constexpr std::uint32_t kMostDisks = 1u << 20;
    std::uint32_t number = 0;
    std::size_t letters = 0;
    for (; letters < text.size() && text[letters] >= 'a' && text[letters] <= 'z'; ++letters) {
        number = number * 26 + static_cast<std::uint32_t>(text[letters] - 'a') + 1;
        if (number > kMostDisks) {
            return std::nullopt;
        }
    }
    text.remove_prefix(letters);
    return letters > 0 ? std::optional(number - 1) : std::nullopt;
}

std::optional<std::uint32_t> xen_disk(std::uint32_t disk, std::uint32_t partition) {
    if (disk < 16 && partition < 16) {
        return 202u << 8 | disk << 4 | partition;
    }
    if (disk < 1u << 20 && partition < 256) {
        return 1u << 28 | disk << 8 | partition;
    }
    return std::nullopt;
}

std::optional<std::uint32_t> scsi_disk(std::uint32_t disk, std::uint32_t partition) {
    return disk < 16 && partition < 16 ? std::optional(8u << 8 | disk << 4 | partition)
                                       : std::nullopt;
}

std::optional<std::uint32_t> ide_disk(std::uint32_t disk, std::uint32_t partition) {
    constexpr std::array<std::uint32_t, 2> kMajors{3, 22};
    return disk < 4 && partition < 64
               ? std::optional(kMajors.at(disk / 2) << 8 | (disk % 2) << 6 | partition)
               : std::nullopt;
}

// "d2p3": the disk and the partition by their numbers.
std::optional<std::uint32_t> numbered_disk(std::string_view text) {
    std::uint32_t disk = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), disk);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || (!text.empty() && (text.front() != 'p' || text.size() == 1))) {
        return std::nullopt;
    }
    const auto partition = partition_of(text.empty() ? text : text.substr(1));
    return partition ? xen_disk(disk, *partition) : std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> vbd_number(std::string_view vdev) {
    using Number = std::optional<std::uint32_t> (*)(std::uint32_t, std::uint32_t);
    constexpr std::array<std::pair<std::string_view, Number>, 3> kKinds{
        {{"xvd", xen_disk}, {"sd", scsi_disk}, {"hd", ide_disk}}};
    for (const auto& [prefix, number] : kKinds) {
        if (vdev.starts_with(prefix)) {
            vdev.remove_prefix(prefix.size());
            const auto disk = take_letters(vdev);
            const auto partition = partition_of(vdev);
            return disk && partition ? number(*disk, *partition) : std::nullopt;
        }
    }
    return vdev.starts_with('d') ? numbered_disk(vdev.substr(1)) : std::nullopt;
}

}  // namespace xenpack
