// SPDX-License-Identifier: LGPL-2.1-or-later
// Place: where the kernel's accounts of a cgroup are: cgroup v2, or v1 for memory with v2 beside it
// for pressure ("hybrid"). Finds cgroups that exist; Fresh makes one. Called by recordings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "watcher/error.h"

namespace xenpack::record {

enum class Version { v1, v2 };

// The mounted hierarchies and this process' place in them.
struct Hierarchies {
    std::string memory_mount;  // "/sys/fs/cgroup", or "/sys/fs/cgroup/memory"
    Version version = Version::v2;
    std::string memory_path;  // below the mount, begins with "/"; "/" is its root
    std::string v2_mount;     // for pressure; "" where v2 is not mounted
    std::string v2_path;
};

// From /proc/self/mountinfo and /proc/self/cgroup. The memory controller is v1's where v1 has it
// mounted, else v2's. Fails where there is neither.
[[nodiscard]] Expected<Hierarchies> parse_hierarchies(std::string_view mountinfo,
                                                      std::string_view cgroup);

// What a Sampler reads. All below one place.
struct Place {
    bool machine = false;
    Version version = Version::v2;
    std::string memory;    // the cgroup's folder with memory.stat; of a machine unused
    std::string pressure;  // the file with PSI of memory; "" where there is none
    std::string proc = "/proc";
};

[[nodiscard]] Place machine_place();

// `path` as a person names a cgroup: a folder, or a path below the mount. Fails where it is not a
// cgroup whose memory the kernel accounts for.
[[nodiscard]] Expected<Place> existing_place(const Hierarchies& hierarchies,
                                             const std::string& path);

// A cgroup of its own for one command, removed at the end. It is named for this process and locked
// (flock(2)) while it lives, so that others can tell it from one whose recorder was killed.
class Fresh {
  public:
    // Made below the nearest cgroup, from this process' own up, that gives memory controllers to
    // those below it. What killed recorders have left there is removed first. Needs root.
    // Error.code is the errno.
    [[nodiscard]] static Expected<Fresh> make(const Hierarchies& hierarchies);
    Fresh(Fresh&& other) noexcept;
    Fresh& operator=(Fresh&&) = delete;
    Fresh(const Fresh&) = delete;
    Fresh& operator=(const Fresh&) = delete;
    // Moves what still runs in it to where this process is, and removes it.
    ~Fresh();

    [[nodiscard]] const Place& place() const { return place_; }
    // A process that writes "0" to each of these is in it.
    [[nodiscard]] std::vector<std::string> entrances() const;

  private:
    explicit Fresh(Hierarchies hierarchies) : hierarchies_(std::move(hierarchies)) {}
    void add_pressure(const std::string& own, const std::string& name);

    Hierarchies hierarchies_;
    Place place_;
    std::string v2_;  // of pressure alone, where memory is v1's
    std::vector<int> locks_;
};

// Removes below `parent` the cgroups of recorders that are no more, and moves what still runs in
// them to the cgroup `to`, as their recorders would have done.
void clear_leftovers(const std::string& parent, const std::string& to);

// Processes in a cgroup and in all below it.
[[nodiscard]] std::vector<int> processes_below(const std::string& folder);

}  // namespace xenpack::record
