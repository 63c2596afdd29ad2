// SPDX-License-Identifier: LGPL-2.1-or-later
// The loop as a plugin sees it: xenpack_loop_ops of plugin/toolstack.h, over libevent.
// Called by plugins only, through Loop::plugin_ops(). No exception may leave these functions.
#include <event2/event.h>
#include <signal.h>
#include <sys/time.h>
#include <cerrno>
#include <new>
#include <unordered_map>

#include "watcher/loop/loop.h"

namespace xenpack {
namespace {

struct FdHandle {
    event* registered = nullptr;  // null while events is 0
    event_base* base = nullptr;
    int fd = -1;
    void (*ready)(void*, int, short) = nullptr;
    void* arg = nullptr;
};

struct TimeoutHandle {
    event* registered = nullptr;
    void (*fired)(void*) = nullptr;
    void* arg = nullptr;
};

struct ChildHandle {
    event* registered = nullptr;
    void (*sigchld)(void*) = nullptr;
    void* arg = nullptr;
};

Loop& loop_of(void* loop) {
    return *static_cast<Loop*>(loop);
}

void on_fd(evutil_socket_t fd, short what, void* arg) noexcept {
    const auto* handle = static_cast<FdHandle*>(arg);
    const int revents = ((what & EV_READ) ? XENPACK_IN : 0) | ((what & EV_WRITE) ? XENPACK_OUT : 0);
    handle->ready(handle->arg, fd, static_cast<short>(revents));
}

// Replaces the handle's event; on failure the old one stays in force.
int arm(FdHandle& handle, short events) noexcept {
    event* fresh = nullptr;
    const int what =
        ((events & XENPACK_IN) ? EV_READ : 0) | ((events & XENPACK_OUT) ? EV_WRITE : 0);
    if (what != 0) {
        fresh = event_new(handle.base, handle.fd, static_cast<short>(what | EV_PERSIST), &on_fd,
                          &handle);
        if (fresh == nullptr || event_add(fresh, nullptr) != 0) {
            if (fresh != nullptr) {
                event_free(fresh);
            }
            return -ENOMEM;
        }
    }
    if (handle.registered != nullptr) {
        event_free(handle.registered);
    }
    handle.registered = fresh;
    return 0;
}

int fd_register(void* loop, int fd, short events, void (*ready)(void*, int, short), void* arg,
                void** handle_r) noexcept {
    auto* handle = new (std::nothrow) FdHandle{nullptr, loop_of(loop).base(), fd, ready, arg};
    if (handle == nullptr) {
        return -ENOMEM;
    }
    if (const int r = arm(*handle, events); r != 0) {
        delete handle;
        return r;
    }
    *handle_r = handle;
    return 0;
}

int fd_modify(void*, void* handle, short events) noexcept {
    return arm(*static_cast<FdHandle*>(handle), events);
}

void fd_deregister(void*, void* handle) noexcept {
    auto* registered = static_cast<FdHandle*>(handle);
    if (registered->registered != nullptr) {
        event_free(registered->registered);
    }
    delete registered;
}

void on_timeout(evutil_socket_t, short, void* arg) noexcept {
    auto* handle = static_cast<TimeoutHandle*>(arg);
    const TimeoutHandle due = *handle;
    event_free(handle->registered);
    delete handle;
    due.fired(due.arg);
}

int timeout_register(void* loop, uint64_t delay_us, void (*fired)(void*), void* arg,
                     void** handle_r) noexcept {
    auto* handle = new (std::nothrow) TimeoutHandle{nullptr, fired, arg};
    if (handle == nullptr) {
        return -ENOMEM;
    }
    const timeval delay{static_cast<time_t>(delay_us / 1000000),
                        static_cast<suseconds_t>(delay_us % 1000000)};
    handle->registered = evtimer_new(loop_of(loop).base(), &on_timeout, handle);
    if (handle->registered == nullptr || event_add(handle->registered, &delay) != 0) {
        if (handle->registered != nullptr) {
            event_free(handle->registered);
        }
        delete handle;
        return -ENOMEM;
    }
    *handle_r = handle;
    return 0;
}

void timeout_deregister(void*, void* handle) noexcept {
    auto* registered = static_cast<TimeoutHandle*>(handle);
    event_free(registered->registered);
    delete registered;
}

// One plugin is loaded per loop, so one child handler per loop is enough.
std::unordered_map<void*, ChildHandle>& child_handlers() {
    static std::unordered_map<void*, ChildHandle> handlers;
    return handlers;
}

void on_sigchld(evutil_socket_t, short, void* arg) noexcept {
    const auto* handle = static_cast<ChildHandle*>(arg);
    handle->sigchld(handle->arg);
}

int child_register(void* loop, void (*sigchld)(void*), void* arg) noexcept try {
    const auto [it, added] = child_handlers().try_emplace(loop, ChildHandle{nullptr, sigchld, arg});
    if (!added) {
        return -EBUSY;
    }
    it->second.registered = evsignal_new(loop_of(loop).base(), SIGCHLD, &on_sigchld, &it->second);
    if (it->second.registered == nullptr || event_add(it->second.registered, nullptr) != 0) {
        if (it->second.registered != nullptr) {
            event_free(it->second.registered);
        }
        child_handlers().erase(it);
        return -ENOMEM;
    }
    return 0;
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

void child_deregister(void* loop) noexcept {
    const auto it = child_handlers().find(loop);
    if (it != child_handlers().end()) {
        event_free(it->second.registered);
        child_handlers().erase(it);
    }
}

}  // namespace

const xenpack_loop_ops& Loop::plugin_ops() {
    static constexpr xenpack_loop_ops kOps{fd_register,      fd_modify,          fd_deregister,
                                           timeout_register, timeout_deregister, child_register,
                                           child_deregister};
    return kOps;
}

}  // namespace xenpack
