// SPDX-License-Identifier: LGPL-2.1-or-later
// MapsSum: the text of smaps is a head line for each area, as in /proc/PID/maps, and lines with its
// figures (Linux' Documentation/filesystems/proc.rst). Pure.
#include "watcher/record/maps_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace xenpack::record {
namespace {

// Takes the next word off a line.
std::string_view word(std::string_view& line) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view taken = line.substr(0, line.find(' '));
    line.remove_prefix(taken.size());
    return taken;
}

// Areas of shared memory name a file that is none on a disk.
bool is_shmem(std::string_view path) {
    constexpr std::array<std::string_view, 5> kShmem = {"/dev/zero", "/memfd:", "/SYSV",
                                                        "/dev/shm/", "/anon_hugepage"};
    return std::any_of(kShmem.begin(), kShmem.end(),
                       [path](std::string_view each) { return path.starts_with(each); });
}

double share_of(std::uint64_t kib, std::uint64_t part, std::uint64_t whole) {
    return whole == 0
               ? 0
               : static_cast<double>(kib) * static_cast<double>(part) / static_cast<double>(whole);
}

bool is_figure(std::string_view line) {
    return line.substr(0, line.find(' ')).ends_with(':');
}

}  // namespace

Expected<void> MapsSum::add(std::string_view smaps) {
    Area area;
    while (!smaps.empty()) {
        const std::size_t end = std::min(smaps.find('\n'), smaps.size());
        const std::string_view line = smaps.substr(0, end);
        smaps.remove_prefix(std::min(end + 1, smaps.size()));
        if (is_figure(line)) {
            if (auto read = figure(line, area); !read) {
                return read;
            }
            continue;
        }
        close(area);
        auto next = head(line);
        if (!next) {
            return tl::unexpected<Error>(next.error());
        }
        area = std::move(*next);
    }
    close(area);
    return {};
}

// "55797c715000-55797c718000 r--p 00000000 fe:00 248030   /usr/bin/sed"
Expected<MapsSum::Area> MapsSum::head(std::string_view line) {
    std::string_view rest = line;
    const std::string_view range = word(rest);
    const std::string_view access = word(rest);
    const std::string_view offset = word(rest);
    const std::string_view device = word(rest);
    const std::string_view inode = word(rest);
    if (range.find('-') == std::string_view::npos || access.size() != 4 ||
        device.find(':') == std::string_view::npos || inode.empty()) {
        return fail("smaps has a line that begins no area: \"{}\"", line);
    }
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    Area area;
    area.file = inode != "0" && !is_shmem(rest);
    if (area.file) {
        area.part = fmt::format("{} {} {}", device, inode, offset);
    }
    return area;
}

Expected<void> MapsSum::figure(std::string_view line, Area& area) {
    std::uint64_t Area::*which = nullptr;
    if (line.starts_with("Rss:")) {
        which = &Area::rss_kib;
    } else if (line.starts_with("Pss:")) {
        which = &Area::share_kib;
    } else if (line.starts_with("Referenced:")) {
        which = &Area::referenced_kib;
    } else if (line.starts_with("Anonymous:")) {
        which = &Area::anonymous_kib;
    } else {
        return {};
    }
    std::string_view rest = line;
    (void)word(rest);
    const std::string_view digits = word(rest);
    const auto [stop, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), area.*which);
    if (status != std::errc() || stop != digits.data() + digits.size() || word(rest) != "kB") {
        return fail("smaps has a line without an amount in kB: \"{}\"", line);
    }
    return {};
}

void MapsSum::close(const Area& area) {
    const std::uint64_t touched = std::min(area.referenced_kib, area.rss_kib);
    if (!area.file) {
        anon_kib_ += static_cast<double>(area.share_kib);
        anon_touched_kib_ += share_of(touched, area.share_kib, area.rss_kib);
        return;
    }
    // A private mapping's pages that were written are anonymous; which of the touched ones those
    // are is not told: these first, since a program that writes a page uses it.
    const std::uint64_t written = std::min(area.anonymous_kib, area.rss_kib);
    const std::uint64_t written_touched = std::min(touched, written);
    anon_kib_ += share_of(written, area.share_kib, area.rss_kib);
    anon_touched_kib_ += share_of(written_touched, area.share_kib, area.rss_kib);
    if (touched > written_touched) {
        std::uint64_t& most = files_[area.part];
        most = std::max(most, touched - written_touched);
    }
}

Touched MapsSum::total() const {
    Touched total;
    total.anon_kib = static_cast<std::uint64_t>(std::llround(anon_kib_));
    total.anon_touched_kib = static_cast<std::uint64_t>(std::llround(anon_touched_kib_));
    for (const auto& [part, kib] : files_) {
        total.file_touched_kib += kib;
    }
    return total;
}

}  // namespace xenpack::record
