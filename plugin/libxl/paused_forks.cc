// SPDX-License-Identifier: LGPL-2.1-or-later
// A line for each; a reader finds the whole of one file or of the next.
#include "plugin/libxl/paused_forks.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace xenpack {
namespace {

std::string line_of(std::uint32_t domid, const std::uint8_t uuid[16]) {
    return fmt::format("{} {}", domid, uuid_text(uuid));
}

std::set<std::string> read_lines(const std::string& file) {
    std::set<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        lines.insert(line);
    }
    return lines;
}

Expected<void> write_lines(const std::string& file, const std::set<std::string>& lines) {
    const std::string next = file + ".new";
    std::ofstream out(next, std::ios::trunc);
    for (const std::string& line : lines) {
        out << line << '\n';
    }
    out.close();
    if (!out || std::rename(next.c_str(), file.c_str()) != 0) {
        return fail_with(errno, "cannot write {}: {}", file, std::strerror(errno));
    }
    return {};
}

}  // namespace

PausedForks::PausedForks(std::string file) : file_{std::move(file)} {
    if (!file_.empty()) {
        lines_ = read_lines(file_);
    }
}

bool PausedForks::contains(std::uint32_t domid, const DomainUuid& uuid) const {
    return lines_.contains(line_of(domid, uuid.data()));
}

Expected<void> PausedForks::insert(std::uint32_t domid, const DomainUuid& uuid) {
    return lines_.insert(line_of(domid, uuid.data())).second ? write() : Expected<void>();
}

Expected<void> PausedForks::erase(std::uint32_t domid, const DomainUuid& uuid) {
    return lines_.erase(line_of(domid, uuid.data())) == 0 ? Expected<void>() : write();
}

Expected<void> PausedForks::keep(const std::vector<xenpack_domain>& live) {
    if (lines_.empty()) {
        return {};
    }
    std::set<std::string> paused;
    for (const xenpack_domain& domain : live) {
        if ((domain.flags & XENPACK_DOMAIN_IS_PAUSED) != 0) {
            paused.insert(line_of(domain.domid, domain.uuid));
        }
    }
    const auto gone =
        std::erase_if(lines_, [&](const std::string& line) { return !paused.contains(line); });
    return gone == 0 ? Expected<void>() : write();
}

Expected<void> PausedForks::add(const std::string& file,
                                const std::vector<xenpack_domain>& paused) {
    std::set<std::string> lines = read_lines(file);
    for (const xenpack_domain& domain : paused) {
        lines.insert(line_of(domain.domid, domain.uuid));
    }
    return write_lines(file, lines);
}

Expected<void> PausedForks::write() const {
    if (file_.empty()) {
        return {};
    }
    if (!lines_.empty()) {
        return write_lines(file_, lines_);
    }
    if (::unlink(file_.c_str()) != 0 && errno != ENOENT) {
        return fail_with(errno, "cannot remove {}: {}", file_, std::strerror(errno));
    }
    return {};
}

}  // namespace xenpack
