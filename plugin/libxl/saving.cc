// SPDX-License-Identifier: LGPL-2.1-or-later
// Finds libxl's save helpers in /proc. Called by Targets. Reads the short name of every process,
// and the command line of those that carry the helper's.
#include "plugin/libxl/saving.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace xenpack {
namespace {

// The helper's name as the kernel keeps it: libxl-save-helper cut to TASK_COMM_LEN - 1 bytes.
constexpr std::string_view kHelperComm = "libxl-save-help\n";

// libxl runs: helper --save-domain|--restore-domain STREAM-FD BACK-CHANNEL-FD DOMID ...
// (tools/libs/light/libxl_save_callout.c, run_helper).
constexpr std::size_t kModeArgument = 1;
constexpr std::size_t kDomidArgument = 4;

// Longer than any helper's command line up to its domid.
constexpr std::size_t kCommandLineBytes = 1024;

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { closedir(directory); }
};

// What could be read of a small file of /proc; empty where the process has just ended. Any other
// failure is one: what cannot be looked at may be being saved.
Expected<std::string_view> read_proc(int directory, const std::string& path, char* buffer,
                                     std::size_t size) {
    const int fd = openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == ENOENT || errno == ESRCH) {
            return std::string_view();
        }
        return fail_with(errno, "cannot read {} of /proc: {}", path, std::strerror(errno));
    }
    const ssize_t n = read(fd, buffer, size);
    close(fd);
    return n > 0 ? std::string_view(buffer, static_cast<std::size_t>(n)) : std::string_view();
}

std::optional<std::uint32_t> domid_of(std::string_view command_line) noexcept {
    std::string_view mode;
    for (std::size_t i = 0; i <= kDomidArgument; ++i) {
        const std::size_t end = command_line.find('\0');
        if (end == std::string_view::npos) {
            return std::nullopt;
        }
        const std::string_view argument = command_line.substr(0, end);
        if (i == kModeArgument) {
            mode = argument;
        }
        if (i == kDomidArgument && (mode == "--save-domain" || mode == "--restore-domain")) {
            std::uint32_t domid = 0;
            const char* last = argument.data() + argument.size();
            const auto parsed = std::from_chars(argument.data(), last, domid);
            return parsed.ec == std::errc() && parsed.ptr == last ? std::optional(domid)
                                                                  : std::nullopt;
        }
        command_line.remove_prefix(end + 1);
    }
    return std::nullopt;
}

}  // namespace

Expected<bool> SaveHelpers::works_on(std::uint32_t domid) {
    const auto now = std::chrono::steady_clock::now();
    const bool may_run = starts_.possible() || !domids_.empty();
    if (!looked_ || (may_run && now - looked_at_ > kFresh)) {
        if (auto ok = look(); !ok) {
            return tl::unexpected(ok.error());
        }
        looked_ = true;
        looked_at_ = now;
    }
    return std::find(domids_.begin(), domids_.end(), domid) != domids_.end();
}

Expected<void> SaveHelpers::look() {
    const std::unique_ptr<DIR, CloseDirectory> directory(opendir(proc_.c_str()));
    if (!directory) {
        return fail_with(errno, "cannot list the processes in {}: {}", proc_, std::strerror(errno));
    }
    std::vector<std::uint32_t> found;
    std::array<char, kCommandLineBytes> buffer{};
    const int fd = dirfd(directory.get());
    while (const dirent* entry = readdir(directory.get())) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
            continue;
        }
        const std::string pid = entry->d_name;
        const auto comm = read_proc(fd, pid + "/comm", buffer.data(), buffer.size());
        if (!comm) {
            return tl::unexpected(comm.error());
        }
        if (*comm != kHelperComm) {
            continue;
        }
        const auto command = read_proc(fd, pid + "/cmdline", buffer.data(), buffer.size());
        if (!command) {
            return tl::unexpected(command.error());
        }
        if (const auto domid = domid_of(*command)) {
            found.push_back(*domid);
        }
    }
    domids_ = std::move(found);
    return {};
}

}  // namespace xenpack
