// SPDX-License-Identifier: LGPL-2.1-or-later
// Overrides: what admins have set with `xenpack set`, by uuid, kept in a file under /run so that a
// restart of the daemon forgets nothing and a reboot of the host forgets all. The watcher owns one.
// The file is written aside and renamed, never in place.
#pragma once

#include <map>
#include <string>

#include "watcher/zones/zone.h"

namespace xenpack {

class OverridesFile {
  public:
    // A missing file is an empty one. A file that cannot be read is an error and stays as it is.
    [[nodiscard]] static Expected<OverridesFile> load(std::string path);

    [[nodiscard]] ZoneOverrides get(const Uuid& uuid) const;
    // Empty overrides remove the entry. On error neither the file nor this object has changed.
    [[nodiscard]] Expected<void> set(const Uuid& uuid, const ZoneOverrides& overrides);

  private:
    std::string path_;
    std::map<std::string, ZoneOverrides> by_uuid_;
};

}  // namespace xenpack
