// SPDX-License-Identifier: LGPL-2.1-or-later
// EventChannels: dom0's ends of event channels, all on one handle whose descriptor is on the
// watcher's loop. Owned by the toolstack. It knows nothing of what an event means.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "plugin/libxl/xen.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class EventChannels {
  public:
    // Fails where there is no /dev/xen/evtchn, or where the loop has no room. `watcher` must
    // outlive the result.
    static Expected<std::unique_ptr<EventChannels>> open(const xenpack_watcher_ops& watcher,
                                                         xentoollog_logger* logger);
    ~EventChannels();
    EventChannels(const EventChannels&) = delete;
    EventChannels& operator=(const EventChannels&) = delete;

    // Called in the loop, at least once after each event, and at times without one. May unbind the
    // port, and may destroy this.
    using Fired = std::function<void()>;

    // The other end of a domain's port that waits for dom0. The result is dom0's own port.
    Expected<std::uint32_t> bind(std::uint32_t domid, std::uint32_t port, Fired fired);
    // One of Xen's interrupts (VIRQ_*). EEXIST: another program has it.
    Expected<void> bind_interrupt(unsigned interrupt, Fired fired);
    void unbind(std::uint32_t port) noexcept;

    // Xen itself is served within the call, where it is the other end.
    Expected<void> notify(std::uint32_t port);

  private:
    struct Close {
        void operator()(xenevtchn_handle* handle) const noexcept { xenevtchn_close(handle); }
    };

    EventChannels(const xenpack_watcher_ops& watcher, xenevtchn_handle* handle)
        : watcher_{watcher}, handle_{handle} {}
    static void ready(void* arg, int fd, short events) noexcept;
    void take_one();

    const xenpack_watcher_ops& watcher_;
    std::unique_ptr<xenevtchn_handle, Close> handle_;
    void* registration_ = nullptr;
    std::unordered_map<std::uint32_t, Fired> fired_;  // by dom0's port
};

}  // namespace xenpack
