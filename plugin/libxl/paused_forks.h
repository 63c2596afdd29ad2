// SPDX-License-Identifier: LGPL-2.1-or-later
// PausedForks: the record of whom a ForkWarden, or an adoption that has not come to its end, has
// paused and nobody has let go yet. It outlives both, as Xen does not say who has paused a domain.
// Owned by ForkRings; its file is written by the warden as well, once the watcher has ended (or has
// been seen to end, where it lingers).
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "plugin/libxl/hypervisor.h"
#include "watcher/error.h"

namespace xenpack {

class PausedForks {
  public:
    // Reads the file; none is an empty one. An empty name: nothing is ever recorded.
    explicit PausedForks(std::string file);

    [[nodiscard]] bool contains(std::uint32_t domid, const DomainUuid& uuid) const;
    // What cannot be written is tried again with the next.
    Expected<void> insert(std::uint32_t domid, const DomainUuid& uuid);
    Expected<void> erase(std::uint32_t domid, const DomainUuid& uuid);
    // Whoever has gone, or runs, is not paused any more.
    Expected<void> keep(const std::vector<xenpack_domain>& live);

    // The warden's: to what the file has already.
    static Expected<void> add(const std::string& file, const std::vector<xenpack_domain>& paused);

  private:
    Expected<void> write() const;

    std::string file_;
    std::set<std::string> lines_;  // "DOMID UUID"
};

}  // namespace xenpack
