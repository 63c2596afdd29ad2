// SPDX-License-Identifier: LGPL-2.1-or-later
// ProcReader: the files behind proc_text. Reporter calls it; it judges nothing.
#include "watcher/guest/proc_reader.h"

#include <fcntl.h>

#include "watcher/guest/proc_text.h"

namespace xenpack::guest {
namespace {

std::optional<TextFile> open_if_there(std::string path) {
    auto file = TextFile::open(std::move(path), O_RDONLY);
    return file ? std::optional<TextFile>(std::move(*file)) : std::nullopt;
}

}  // namespace

Expected<ProcReader> ProcReader::open(const std::string& root) {
    auto meminfo = TextFile::open(root + "/meminfo", O_RDONLY);
    if (!meminfo) {
        return tl::unexpected(meminfo.error());
    }
    ProcReader reader(std::move(*meminfo));
    reader.vmstat_ = open_if_there(root + "/vmstat");
    reader.pressure_ = open_if_there(root + "/pressure/memory");
    return reader;
}

Expected<MemorySample> ProcReader::memory() {
    const auto text = meminfo_.read(buffer_);
    if (!text) {
        return tl::unexpected(text.error());
    }
    const auto sample = parse_meminfo(*text);
    if (!sample) {
        return fail("{} lacks MemTotal, MemFree or MemAvailable: Linux 3.14 or later is needed",
                    meminfo_.path());
    }
    return *sample;
}

PagingCounts ProcReader::paging() {
    const auto text = vmstat_ ? vmstat_->read(buffer_) : fail("not open");
    return text ? parse_vmstat(*text) : PagingCounts();
}

std::optional<StallTotals> ProcReader::stalls() {
    const auto text = pressure_ ? pressure_->read(buffer_) : fail("not open");
    return text ? parse_pressure(*text) : std::nullopt;
}

}  // namespace xenpack::guest
