// SPDX-License-Identifier: LGPL-2.1-or-later
// Destruction: ends a domain and takes away what belongs to it, of whatever state: a fork half made
// is known to Xen alone, or to Xen and the store. Used by Forking, to undo, and by Destroying, the
// job of the table's destroy().
#pragma once

#include <cstdint>
#include <functional>

#include "plugin/libxl/jobs.h"
#include "plugin/libxl/operation.h"
#include "watcher/error.h"

namespace xenpack {

// All that is in the store of a fork with that number and uuid. No other may have the number.
Expected<void> remove_nodes(Tools& tools, std::uint32_t domid, const DomainUuid& uuid);

class Destruction {
  public:
    explicit Destruction(Tools& tools) : tools_{tools}, operation_{tools.xl, tools.later} {}

    // Later, once; `ended` may destroy this. ESRCH: that domain is not there.
    using Ended = std::function<void(Expected<void>)>;
    void begin(std::uint32_t domid, const DomainUuid& uuid, Ended ended);

  private:
    Expected<bool> is_libxls(std::uint32_t domid, const DomainUuid& uuid);
    Expected<void> destroy_bare(std::uint32_t domid, const DomainUuid& uuid);
    Expected<void> outcome(int rc, std::uint32_t domid, const DomainUuid& uuid);

    Tools& tools_;
    Operation operation_;
};

class Destroying final : public Job {
  public:
    Destroying(Tools& tools, std::uint32_t domid, const DomainUuid& uuid, xenpack_done done,
               void* arg)
        : Job{uuid, ""},
          tools_{tools},
          destruction_{tools},
          domid_{domid},
          done_{done},
          arg_{arg} {}

    void begin() override;
    void cancel() override {}  // half a destruction helps nobody: it goes on to its end
    void abandon() noexcept override;

  private:
    Tools& tools_;
    Destruction destruction_;
    std::uint32_t domid_;
    xenpack_done done_;
    void* arg_;
};

}  // namespace xenpack
