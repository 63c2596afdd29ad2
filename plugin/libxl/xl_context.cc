// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl's event hooks over the watcher's loop, by the rules of libxl_event.h. Called by libxl, with
// its lock held, and by the loop. A hook must not throw, call libxl, or report anything to it.
#include "plugin/libxl/xl_context.h"

#include <poll.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace xenpack {
namespace {

static_assert(XENPACK_IN == POLLIN && XENPACK_OUT == POLLOUT);

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMicrosecondsPerSecond = 1000000;

// Without the loop nobody tells of ended children: they are looked for this often.
constexpr std::chrono::milliseconds kChildrenEvery{10};

short loop_events(short poll_events) noexcept {
    return static_cast<short>(poll_events & (XENPACK_IN | XENPACK_OUT));
}

// libxl gives wall-clock times; the loop takes delays. What is past is due now.
std::uint64_t delay_until_us(timeval when) noexcept {
    timeval now{};
    gettimeofday(&now, nullptr);
    if (!timercmp(&when, &now, >)) {
        return 0;
    }
    timeval left{};
    timersub(&when, &now, &left);
    return static_cast<std::uint64_t>(left.tv_sec) * kMicrosecondsPerSecond +
           static_cast<std::uint64_t>(left.tv_usec);
}

}  // namespace

struct XlContext::Hooks {
    // ---- the loop calls these ----

    // libxl looks at the descriptor again itself and ignores what it is told happened there.
    // The registration may be gone when libxl returns.
    static void on_ready(void* arg, int fd, short revents) noexcept {
        auto* r = static_cast<Registration*>(arg);
        libxl_osevent_occurred_fd(r->self->ctx_.get(), r->for_libxl, fd, 0, revents);
    }

    // Telling libxl of a timeout is what deregisters it, so it leaves the map first.
    static void on_timeout(void* arg) noexcept {
        auto* r = static_cast<Registration*>(arg);
        auto node = r->self->live_.extract(r);
        libxl_osevent_occurred_timeout(r->self->ctx_.get(), r->for_libxl);
    }

    static void on_sigchld(void* arg) noexcept {
        libxl_childproc_sigchld_occurred(static_cast<XlContext*>(arg)->ctx_.get());
    }

    // ---- libxl calls these ----

    static int fd_register(void* user, int fd, void** out, short events, void* for_libxl) noexcept
        try {
        auto* self = static_cast<XlContext*>(user);
        Registration* r = self->adopt(for_libxl, false);
        const xenpack_loop_ops& ops = *self->watcher_.loop_ops;
        if (ops.fd_register(self->watcher_.loop, fd, loop_events(events), &on_ready, r,
                            &r->handle) != 0) {
            self->live_.erase(r);
            return ERROR_OSEVENT_REG_FAIL;
        }
        r->fd = fd;
        r->events = loop_events(events);
        *out = r;
        return 0;
    } catch (...) {
        return ERROR_OSEVENT_REG_FAIL;
    }

    static int fd_modify(void* user, int, void** registration, short events) noexcept {
        auto* self = static_cast<XlContext*>(user);
        auto* r = static_cast<Registration*>(*registration);
        const int r_loop =
            self->watcher_.loop_ops->fd_modify(self->watcher_.loop, r->handle, loop_events(events));
        if (r_loop != 0) {
            return ERROR_OSEVENT_REG_FAIL;
        }
        r->events = loop_events(events);
        return 0;
    }

    static void fd_deregister(void* user, int, void* registration) noexcept {
        auto* self = static_cast<XlContext*>(user);
        auto* r = static_cast<Registration*>(registration);
        self->watcher_.loop_ops->fd_deregister(self->watcher_.loop, r->handle);
        self->live_.erase(r);
    }

    static int timeout_register(void* user, void** out, timeval when, void* for_libxl) noexcept
        try {
        auto* self = static_cast<XlContext*>(user);
        Registration* r = self->adopt(for_libxl, true);
        const xenpack_loop_ops& ops = *self->watcher_.loop_ops;
        const std::uint64_t delay_us = delay_until_us(when);
        if (ops.timeout_register(self->watcher_.loop, delay_us, &on_timeout, r, &r->handle) != 0) {
            self->live_.erase(r);
            return ERROR_OSEVENT_REG_FAIL;
        }
        r->due = Clock::now() + std::chrono::microseconds(delay_us);
        *out = r;
        return 0;
    } catch (...) {
        return ERROR_OSEVENT_REG_FAIL;
    }

    // libxl's way to cancel: it asks for the timeout at once, and forgets it when it comes.
    static int timeout_modify(void* user, void** registration, timeval when) noexcept {
        auto* self = static_cast<XlContext*>(user);
        auto* r = static_cast<Registration*>(*registration);
        const xenpack_loop_ops& ops = *self->watcher_.loop_ops;
        void* fresh = nullptr;
        const std::uint64_t delay_us = delay_until_us(when);
        if (ops.timeout_register(self->watcher_.loop, delay_us, &on_timeout, r, &fresh) != 0) {
            return ERROR_OSEVENT_REG_FAIL;
        }
        ops.timeout_deregister(self->watcher_.loop, r->handle);
        r->handle = fresh;
        r->due = Clock::now() + std::chrono::microseconds(delay_us);
        return 0;
    }

    // In the table because the table has the slot; libxl promises not to call it.
    static void timeout_deregister(void* user, void* registration) noexcept {
        auto* self = static_cast<XlContext*>(user);
        auto* r = static_cast<Registration*>(registration);
        self->watcher_.loop_ops->timeout_deregister(self->watcher_.loop, r->handle);
        self->live_.erase(r);
    }

    static void event_occurs(void* user, libxl_event* event) noexcept {
        auto* self = static_cast<XlContext*>(user);
        libxl_event_free(self->ctx_.get(), event);
        if (!self->changed_.trigger()) {
            self->lose("no memory to report an event", ENOMEM);
        }
    }

    static void disaster(void* user, libxl_event_type, const char* message, int errnoval) noexcept {
        static_cast<XlContext*>(user)->lose(message, errnoval);
    }

    static constexpr libxl_osevent_hooks kOsevent{fd_register,    fd_modify,
                                                  fd_deregister,  timeout_register,
                                                  timeout_modify, timeout_deregister};
    static constexpr libxl_childproc_hooks kChildren{libxl_sigchld_owner_mainloop, nullptr,
                                                     nullptr};
    static constexpr libxl_event_hooks kEvents{LIBXL_EVENTMASK_ALL, event_occurs, disaster};
};

XlContext::XlContext(const xenpack_watcher_ops& watcher, Listener listener)
    : watcher_{watcher},
      changed_{watcher, std::move(listener.domain_changed)},
      lost_{watcher, std::move(listener.lost)} {}

Expected<std::unique_ptr<XlContext>> XlContext::open(const xenpack_watcher_ops& watcher,
                                                     xentoollog_logger* logger, Listener listener) {
    std::unique_ptr<XlContext> context(new XlContext(watcher, std::move(listener)));
    if (auto ok = context->attach(logger); !ok) {
        return tl::unexpected(ok.error());
    }
    return context;
}

Expected<void> XlContext::attach(xentoollog_logger* logger) {
    libxl_ctx* ctx = nullptr;
    if (const int rc = libxl_ctx_alloc(&ctx, LIBXL_VERSION, 0, logger); rc != 0) {
        const int code = geteuid() != 0 ? EPERM : ENODEV;
        return fail_with(
            code, "libxl cannot start (its code is {}): {}", rc,
            code == EPERM ? "run xenpackd as root" : "is this dom0, and is xenstored running?");
    }
    ctx_.reset(ctx);
    libxl_osevent_register_hooks(ctx, &Hooks::kOsevent, this);
    libxl_event_register_callbacks(ctx, &Hooks::kEvents, this);
    libxl_childproc_setmode(ctx, &Hooks::kChildren, this);
    if (watcher_.loop_ops->child_register(watcher_.loop, &Hooks::on_sigchld, this) != 0) {
        return fail_with(ENOMEM, "the event loop cannot watch for ended child processes");
    }
    has_child_hook_ = true;
    return {};
}

// Freeing the context deregisters its descriptors, but leaves cancelled timeouts with the loop, and
// what they would give to libxl is freed with it: they must go before the loop runs again. libxl
// aborts the program that frees it with an operation under way, so then it is left to the
// program's end.
XlContext::~XlContext() {
    if (has_child_hook_) {
        watcher_.loop_ops->child_deregister(watcher_.loop);
    }
    if (operations_ > 0) {
        static_cast<void>(ctx_.release());
    }
    ctx_.reset();
    for (const auto& [r, owned] : live_) {
        if (r->is_timeout) {
            watcher_.loop_ops->timeout_deregister(watcher_.loop, r->handle);
        } else {
            watcher_.loop_ops->fd_deregister(watcher_.loop, r->handle);
        }
    }
}

bool XlContext::serve(std::chrono::milliseconds longest, const std::function<bool()>& is_over) {
    const Clock::time_point until = Clock::now() + longest;
    while (!is_over()) {
        if (is_lost_ || Clock::now() >= until) {
            return false;
        }
        serve_once(until);
    }
    return true;
}

XlContext::Registration* XlContext::next_due() {
    Registration* next = nullptr;
    for (const auto& [r, owned] : live_) {
        if (r->is_timeout && (next == nullptr || r->due < next->due)) {
            next = r;
        }
    }
    return next;
}

// A callback may take away any registration, so each is looked for anew before it is called.
void XlContext::serve_once(Clock::time_point until) {
    std::vector<pollfd> polled;
    std::vector<Registration*> whose;
    for (const auto& [r, owned] : live_) {
        if (!r->is_timeout && r->events != 0) {
            polled.push_back({r->fd, r->events, 0});
            whose.push_back(r);
        }
    }
    Registration* timeout = next_due();
    auto wake = std::min(until, Clock::now() + kChildrenEvery);
    wake = timeout != nullptr ? std::min(wake, timeout->due) : wake;
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(wake - Clock::now()).count();
    poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(wait, 0)));
    libxl_childproc_sigchld_occurred(ctx_.get());
    for (std::size_t i = 0; i < polled.size(); ++i) {
        if (polled[i].revents != 0 && live_.contains(whose[i])) {
            Hooks::on_ready(whose[i], polled[i].fd, polled[i].revents);
        }
    }
    if (timeout != nullptr && live_.contains(timeout) && timeout->due <= Clock::now()) {
        watcher_.loop_ops->timeout_deregister(watcher_.loop, timeout->handle);
        Hooks::on_timeout(timeout);
    }
}

XlContext::Registration* XlContext::adopt(void* for_libxl, bool is_timeout) {
    auto owned = std::make_unique<Registration>(Registration{this, for_libxl, nullptr, is_timeout});
    Registration* r = owned.get();
    live_.emplace(r, std::move(owned));
    return r;
}

void XlContext::lose(const char* message, int errnoval) noexcept {
    if (is_lost_) {
        return;
    }
    is_lost_ = true;
    try {
        why_lost_ = message;
        if (errnoval > 0) {
            why_lost_ += std::string(": ") + std::strerror(errnoval);
        }
    } catch (...) {
        why_lost_.clear();
    }
    if (!lost_.trigger()) {
        watcher_.log(watcher_.user, XENPACK_LOG_ERROR,
                     "libxl is lost, and there is no memory to report it: restart xenpackd");
    }
}

libxl_evgen_domain_death* XlContext::watch_end(std::uint32_t domid) noexcept {
    libxl_evgen_domain_death* watched = nullptr;
    return libxl_evenable_domain_death(ctx_.get(), domid, 0, &watched) == 0 ? watched : nullptr;
}

void XlContext::ignore_end(libxl_evgen_domain_death* watched) noexcept {
    libxl_evdisable_domain_death(ctx_.get(), watched);
}

}  // namespace xenpack
