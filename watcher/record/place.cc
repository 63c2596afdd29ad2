// SPDX-License-Identifier: LGPL-2.1-or-later
// Place: the file system's side of cgroups. It moves only processes that a recording started.
#include "watcher/record/place.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "watcher/files/whole_file.h"

namespace xenpack::record {
namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(at), text.size());
        parts.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return parts;
}

bool has(const std::vector<std::string_view>& words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

struct Mount {
    std::string_view root;  // which part of the hierarchy is mounted
    std::string_view point;
};

// "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view type,
                                std::string_view option) {
    for (const std::string_view line : split(mountinfo, '\n')) {
        const auto words = split(line, ' ');
        const auto dash = std::find(words.begin(), words.end(), "-");
        if (words.size() < 7 || words.end() - dash < 4 || dash[1] != type) {
            continue;
        }
        if (option.empty() || has(split(dash[3], ','), option)) {
            return Mount{words[3], words[4]};
        }
    }
    return std::nullopt;
}

// "4:memory:/a/b", "0::/a/b"; the path as seen below the mount.
std::optional<std::string> find_path(std::string_view cgroup, std::string_view controller,
                                     const Mount& mount) {
    for (const std::string_view line : split(cgroup, '\n')) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', std::min(first, line.size() - 1) + 1);
        if (first == std::string_view::npos || second == std::string_view::npos) {
            continue;
        }
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const bool right =
            controller.empty() ? line.starts_with("0::") : has(split(controllers, ','), controller);
        if (!right) {
            continue;
        }
        std::string_view path = line.substr(second + 1);
        if (mount.root != "/" && path.starts_with(mount.root)) {
            path.remove_prefix(mount.root.size());
        }
        return path.starts_with('/') ? std::string(path) : "/";
    }
    return std::nullopt;
}

std::string joined(const std::string& mount, const std::string& path) {
    return path == "/" ? mount : mount + path;
}

bool exists(const std::string& path) {
    return ::access(path.c_str(), F_OK) == 0;
}

bool gives_memory(const std::string& folder) {
    const auto controllers = read_file(folder + "/cgroup.subtree_control");
    return controllers &&
           has(split(controllers->substr(0, controllers->find('\n')), ' '), "memory");
}

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// Where a cgroup v2 with a memory controller can be made.
Expected<std::string> find_giver(const Hierarchies& hierarchies) {
    for (std::string path = hierarchies.memory_path;; path = parent_of(path)) {
        const std::string folder = joined(hierarchies.memory_mount, path);
        if (gives_memory(folder)) {
            return folder;
        }
        if (path == "/") {
            break;
        }
    }
    const auto enabled =
        write_file(hierarchies.memory_mount + "/cgroup.subtree_control", "+memory");
    if (!enabled) {
        return fail_with(enabled.error().code,
                         "no cgroup above this process gives those below it a memory controller, "
                         "and it cannot be switched on: {}",
                         enabled.error().what);
    }
    return hierarchies.memory_mount;
}

// A process that is about to end is no longer listed and still keeps its cgroup from being removed.
// For so long is that waited for, 10 ms a round.
constexpr int kLeaveRounds = 300;
constexpr int kLeaveRoundMs = 10;

// cgroup v2 tells when the last has left; v1 does not, so there it is a while and no more.
void await_change(const std::string& folder) {
    const int events = ::open((folder + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC);
    pollfd fd{events, POLLPRI, 0};
    (void)::poll(&fd, 1, kLeaveRoundMs);
    if (events >= 0) {
        ::close(events);
    }
}

// Moves what still runs in it, and removes it.
void vacate(const std::string& folder, const std::string& to) {
    for (int round = 0; round < kLeaveRounds; ++round) {
        if (::rmdir(folder.c_str()) == 0 || errno != EBUSY) {
            return;
        }
        for (const int pid : processes_below(folder)) {
            (void)write_file(to + "/cgroup.procs", std::to_string(pid));
        }
        await_change(folder);
    }
}

constexpr std::string_view kNameBegins = "xenpack-record-";

// Whether that folder is of a recorder that is no more: nobody has its number, and, as numbers
// differ between PID namespaces, nobody holds its lock.
bool is_left(const fs::path& folder) {
    const std::string name = folder.filename().string();
    if (!name.starts_with(kNameBegins)) {
        return false;
    }
    int pid = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kNameBegins.size(), end, pid);
    if (error != std::errc() || stop != end || pid <= 0 || ::kill(pid, 0) == 0 || errno != ESRCH) {
        return false;
    }
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool unlocked = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        ::close(fd);
    }
    return unlocked;
}

// Returns the lock on it.
Expected<int> make_folder(const std::string& folder) {
    if (::mkdir(folder.c_str(), 0755) != 0) {
        const int code = errno;
        return fail_with(code, "cannot make the cgroup {}: {}", folder, std::strerror(code));
    }
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int code = errno;
        if (fd >= 0) {
            ::close(fd);
        }
        ::rmdir(folder.c_str());
        return fail_with(code, "cannot lock the cgroup {}: {}", folder, std::strerror(code));
    }
    return fd;
}

}  // namespace

Expected<Hierarchies> parse_hierarchies(std::string_view mountinfo, std::string_view cgroup) {
    Hierarchies found;
    if (const auto v2 = find_mount(mountinfo, "cgroup2", "")) {
        if (auto path = find_path(cgroup, "", *v2)) {
            found.v2_mount = v2->point;
            found.v2_path = *path;
        }
    }
    const auto v1 = find_mount(mountinfo, "cgroup", "memory");
    if (const auto path = v1 ? find_path(cgroup, "memory", *v1) : std::nullopt) {
        found.version = Version::v1;
        found.memory_mount = v1->point;
        found.memory_path = *path;
        return found;
    }
    if (found.v2_mount.empty()) {
        return fail(
            "no cgroup hierarchy that accounts for memory is mounted: mount cgroup v2 "
            "(mount -t cgroup2 none /sys/fs/cgroup), or record --machine");
    }
    found.memory_mount = found.v2_mount;
    found.memory_path = found.v2_path;
    return found;
}

Place machine_place() {
    Place place;
    place.machine = true;
    place.pressure = "/proc/pressure/memory";
    return place;
}

Expected<Place> existing_place(const Hierarchies& hierarchies, const std::string& path) {
    const bool folder = exists(path + "/cgroup.procs");
    const std::string below = hierarchies.memory_mount + (path.starts_with('/') ? "" : "/") + path;
    Place place;
    place.memory = folder ? path : below;
    while (place.memory.size() > 1 && place.memory.ends_with('/')) {
        place.memory.pop_back();
    }
    if (!exists(place.memory + "/cgroup.procs")) {
        return fail_with(ENOENT, "there is no cgroup {}, nor {}", path, below);
    }
    if (exists(place.memory + "/memory.usage_in_bytes")) {
        place.version = Version::v1;
        const std::string relative = place.memory.substr(
            place.memory.starts_with(hierarchies.memory_mount) ? hierarchies.memory_mount.size()
                                                               : place.memory.size());
        const std::string pressure = hierarchies.v2_mount + relative + "/memory.pressure";
        place.pressure = !relative.empty() && exists(pressure) ? pressure : "";
        return place;
    }
    if (!exists(place.memory + "/memory.current")) {
        return fail(
            "the kernel does not account for the memory of the cgroup {}: the memory "
            "controller is not switched on in the cgroup.subtree_control above it; for "
            "the whole machine, record --machine",
            place.memory);
    }
    place.pressure = place.memory + "/memory.pressure";
    return place;
}

void clear_leftovers(const std::string& parent, const std::string& to) {
    std::vector<std::string> left;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(parent, error)) {
        if (is_left(entry.path())) {
            left.push_back(entry.path().string());
        }
    }
    for (const std::string& folder : left) {
        vacate(folder, to);
    }
}

Expected<Fresh> Fresh::make(const Hierarchies& hierarchies) {
    const std::string name = fmt::format("/{}{}", kNameBegins, ::getpid());
    const std::string own = joined(hierarchies.memory_mount, hierarchies.memory_path);
    Fresh fresh(hierarchies);
    if (hierarchies.version == Version::v2) {
        const auto giver = find_giver(hierarchies);
        if (!giver) {
            return tl::unexpected<Error>(giver.error());
        }
        clear_leftovers(*giver, own);
        const auto lock = make_folder(*giver + name);
        if (!lock) {
            return tl::unexpected<Error>(lock.error());
        }
        fresh.locks_.push_back(*lock);
        fresh.place_.memory = *giver + name;
        fresh.place_.pressure = fresh.place_.memory + "/memory.pressure";
        return fresh;
    }
    clear_leftovers(own, own);
    const auto lock = make_folder(own + name);
    if (!lock) {
        return tl::unexpected<Error>(lock.error());
    }
    fresh.locks_.push_back(*lock);
    fresh.place_.version = Version::v1;
    fresh.place_.memory = own + name;
    if (!hierarchies.v2_mount.empty()) {
        fresh.add_pressure(joined(hierarchies.v2_mount, hierarchies.v2_path), name);
    }
    return fresh;
}

// Without it there is a recording all the same, only without pressure.
void Fresh::add_pressure(const std::string& own, const std::string& name) {
    clear_leftovers(own, own);
    if (const auto lock = make_folder(own + name)) {
        locks_.push_back(*lock);
        v2_ = own + name;
        place_.pressure = exists(v2_ + "/memory.pressure") ? v2_ + "/memory.pressure" : "";
    }
}

Fresh::Fresh(Fresh&& other) noexcept
    : hierarchies_(std::move(other.hierarchies_)),
      place_(std::exchange(other.place_, Place{})),
      v2_(std::exchange(other.v2_, std::string())),
      locks_(std::exchange(other.locks_, {})) {}

Fresh::~Fresh() {
    const std::array<std::pair<std::string, std::string>, 2> moves = {
        std::pair(place_.memory, joined(hierarchies_.memory_mount, hierarchies_.memory_path)),
        std::pair(v2_, joined(hierarchies_.v2_mount, hierarchies_.v2_path))};
    for (const auto& [folder, to] : moves) {
        if (!folder.empty()) {
            vacate(folder, to);
        }
    }
    for (const int lock : locks_) {
        ::close(lock);
    }
}

std::vector<std::string> Fresh::entrances() const {
    std::vector<std::string> files{place_.memory + "/cgroup.procs"};
    if (!v2_.empty()) {
        files.push_back(v2_ + "/cgroup.procs");
    }
    return files;
}

std::vector<int> processes_below(const std::string& folder) {
    std::vector<int> pids;
    if (const auto text = read_file(folder + "/cgroup.procs")) {
        for (const std::string_view line : split(*text, '\n')) {
            int pid = 0;
            std::from_chars(line.data(), line.data() + line.size(), pid);
            if (pid > 0) {
                pids.push_back(pid);
            }
        }
    }
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
        if (entry.is_directory(error)) {
            const auto more = processes_below(entry.path().string());
            pids.insert(pids.end(), more.begin(), more.end());
        }
    }
    return pids;
}

}  // namespace xenpack::record
