// SPDX-License-Identifier: LGPL-2.1-or-later
// libxenevtchn on the loop. Called by the loop and by what binds ports.
#include "plugin/libxl/event_channels.h"

#include <cerrno>
#include <new>

#include "plugin/libxl/hypervisor.h"

namespace xenpack {

Expected<std::unique_ptr<EventChannels>> EventChannels::open(const xenpack_watcher_ops& watcher,
                                                             xentoollog_logger* logger) {
    xenevtchn_handle* handle = xenevtchn_open(logger, 0);
    if (handle == nullptr) {
        return hypercall_failure("cannot open event channels (is the xen-evtchn module loaded?)",
                                 errno);
    }
    std::unique_ptr<EventChannels> channels(new EventChannels(watcher, handle));
    const int r = watcher.loop_ops->fd_register(watcher.loop, xenevtchn_fd(handle), XENPACK_IN,
                                                &ready, channels.get(), &channels->registration_);
    if (r != 0) {
        channels->registration_ = nullptr;
        return fail_with(-r, "the event loop cannot watch event channels");
    }
    return channels;
}

EventChannels::~EventChannels() {
    if (registration_ != nullptr) {
        watcher_.loop_ops->fd_deregister(watcher_.loop, registration_);
    }
}

Expected<std::uint32_t> EventChannels::bind(std::uint32_t domid, std::uint32_t port, Fired fired) {
    const int local = xenevtchn_bind_interdomain(handle_.get(), domid, port);
    if (local < 0) {
        return hypercall_failure(
            fmt::format("cannot bind event channel {} of domain {}", port, domid), errno);
    }
    fired_[static_cast<std::uint32_t>(local)] = std::move(fired);
    return static_cast<std::uint32_t>(local);
}

Expected<void> EventChannels::bind_interrupt(unsigned interrupt, Fired fired) {
    const int local = xenevtchn_bind_virq(handle_.get(), interrupt);
    if (local < 0) {
        return hypercall_failure(fmt::format("cannot bind Xen's interrupt {}", interrupt), errno);
    }
    fired_[static_cast<std::uint32_t>(local)] = std::move(fired);
    return {};
}

void EventChannels::unbind(std::uint32_t port) noexcept {
    fired_.erase(port);
    xenevtchn_unbind(handle_.get(), port);
}

Expected<void> EventChannels::notify(std::uint32_t port) {
    if (xenevtchn_notify(handle_.get(), port) != 0) {
        return hypercall_failure("cannot send an event", errno);
    }
    return {};
}

void EventChannels::ready(void* arg, int /*fd*/, short /*events*/) noexcept {
    auto* self = static_cast<EventChannels*>(arg);
    const xenpack_watcher_ops& watcher = self->watcher_;
    try {
        self->take_one();
    } catch (const std::exception& e) {
        watcher.log(watcher.user, XENPACK_LOG_ERROR, e.what());
    }
}

// One for each time the descriptor is ready: another read might block. A port that was unbound with
// its event under way is nobody's.
void EventChannels::take_one() {
    const int port = xenevtchn_pending(handle_.get());
    if (port < 0) {
        return;
    }
    const auto bound = fired_.find(static_cast<std::uint32_t>(port));
    if (bound == fired_.end()) {
        return;
    }
    // Before it is looked at, so that nothing that comes meanwhile is missed.
    xenevtchn_unmask(handle_.get(), bound->first);
    const Fired fired = bound->second;  // it may unbind itself
    fired();
}

}  // namespace xenpack
