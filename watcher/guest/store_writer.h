// SPDX-License-Identifier: LGPL-2.1-or-later
// StoreWriter: the reporter's side of xenstore. The only file of the reporter that knows
// xenstore.h; StoreLink speaks to xenstore without it.
//
// It has a thread of its own, because a xenstore daemon may take as long as it likes to answer, or
// never answer, and the brake must go on meanwhile. Only the newest report counts: one that was not
// written yet is replaced by the next. A write that fails is tried again, with what is newest then,
// after 100 ms, and twice as long each time up to 5 s, on a new connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/brake.h"

namespace xenpack::guest {

class StoreWriter {
  public:
    // Connects to xenstore (/dev/xen/xenbus in a guest) and starts the thread.
    [[nodiscard]] static Expected<std::unique_ptr<StoreWriter>> open();
    ~StoreWriter();
    StoreWriter(const StoreWriter&) = delete;
    StoreWriter& operator=(const StoreWriter&) = delete;

    // Returns at once. The report goes to kReportPath of this domain.
    void post(std::string report);

    // Has memory/target and memory/static-max read soon; ceiling() changes when they are.
    void ask_ceiling();
    [[nodiscard]] Ceiling ceiling() const;

    // Lets the thread end after what it is doing; waits for it at most this long. A thread that
    // waits for xenstore longer is left behind, holding what it needs: the process must end soon.
    void close(std::uint64_t patience_ms);

  private:
    struct Shared;
    explicit StoreWriter(std::shared_ptr<Shared> shared);

    std::shared_ptr<Shared> shared_;
};

}  // namespace xenpack::guest
