// SPDX-License-Identifier: LGPL-2.1-or-later
// The event loop over libevent: readable descriptors, signals, timers, deferred work.
// What plugins see of it is in plugin_ops.cc.
#include "watcher/loop/loop.h"

#include <event2/event.h>
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

namespace xenpack {
namespace {

struct EventDeleter {
    void operator()(event* e) const noexcept { event_free(e); }
};
using EventPtr = std::unique_ptr<event, EventDeleter>;

struct ConfigDeleter {
    void operator()(event_config* c) const noexcept { event_config_free(c); }
};

// With libevent's coarse clock a timer may be some milliseconds early, and what it was set for is
// not due yet.
event_base* new_base() {
    const std::unique_ptr<event_config, ConfigDeleter> config(event_config_new());
    if (!config || event_config_set_flag(config.get(), EVENT_BASE_FLAG_PRECISE_TIMER) != 0) {
        return nullptr;
    }
    return event_base_new_with_config(config.get());
}

timeval to_timeval(std::int64_t delay_ms) {
    const std::int64_t ms = std::max<std::int64_t>(delay_ms, 0);
    return {static_cast<time_t>(ms / 1000), static_cast<suseconds_t>(ms % 1000 * 1000)};
}

// The callback is shared so that it outlives a registration destroyed while it runs.
class EventRegistration final : public Loop::Registration {
  public:
    EventRegistration(event_base* base, int fd, short what, Loop::Callback callback)
        : callback_(std::make_shared<Loop::Callback>(std::move(callback))),
          event_(event_new(base, fd, what, &on_event, this)) {
        if (!event_ || event_add(event_.get(), nullptr) != 0) {
            throw std::runtime_error("libevent refused to register an event");
        }
    }

  private:
    static void on_event(evutil_socket_t, short, void* self) noexcept {
        const auto callback = static_cast<EventRegistration*>(self)->callback_;
        (*callback)();
    }

    std::shared_ptr<Loop::Callback> callback_;
    EventPtr event_;
};

class EventTimer final : public Loop::Timer {
  public:
    EventTimer(event_base* base, Loop::Callback callback)
        : callback_(std::make_shared<Loop::Callback>(std::move(callback))),
          event_(evtimer_new(base, &on_expired, this)) {
        if (!event_) {
            throw std::runtime_error("libevent refused to make a timer");
        }
    }

    void start(std::int64_t delay_ms) override {
        const timeval delay = to_timeval(delay_ms);
        event_add(event_.get(), &delay);
    }
    void stop() override { event_del(event_.get()); }
    [[nodiscard]] bool running() const override {
        return event_pending(event_.get(), EV_TIMEOUT, nullptr) != 0;
    }

  private:
    static void on_expired(evutil_socket_t, short, void* self) noexcept {
        const auto callback = static_cast<EventTimer*>(self)->callback_;
        (*callback)();
    }

    std::shared_ptr<Loop::Callback> callback_;
    EventPtr event_;
};

}  // namespace

struct Loop::Impl {
    struct BaseDeleter {
        void operator()(event_base* b) const noexcept { event_base_free(b); }
    };

    static void on_deferred(evutil_socket_t, short, void* self) noexcept {
        static_cast<Impl*>(self)->run_deferred();
    }

    // Work deferred by deferred work waits for the next round, so that events are not starved.
    void run_deferred() {
        std::vector<Callback> batch;
        batch.swap(deferred);
        for (const Callback& work : batch) {
            work();
        }
    }

    std::unique_ptr<event_base, BaseDeleter> base{new_base()};
    EventPtr wake;
    std::vector<Callback> deferred;
};

Loop::Loop() : impl_(std::make_unique<Impl>()) {
    if (!impl_->base) {
        throw std::runtime_error("libevent found no way to wait for events");
    }
    impl_->wake.reset(event_new(impl_->base.get(), -1, 0, &Impl::on_deferred, impl_.get()));
    if (!impl_->wake) {
        throw std::runtime_error("libevent refused to register an event");
    }
}

Loop::~Loop() = default;

void Loop::run() {
    event_base_loop(impl_->base.get(), EVLOOP_NO_EXIT_ON_EMPTY);
}

void Loop::run_once() {
    event_base_loop(impl_->base.get(), EVLOOP_ONCE);
}

void Loop::stop() {
    event_base_loopbreak(impl_->base.get());
}

void Loop::defer(Callback work) {
    impl_->deferred.push_back(std::move(work));
    event_active(impl_->wake.get(), EV_TIMEOUT, 0);
}

Loop::Handle Loop::watch_readable(int fd, Callback ready) {
    return std::make_unique<EventRegistration>(base(), fd, static_cast<short>(EV_READ | EV_PERSIST),
                                               std::move(ready));
}

Loop::Handle Loop::watch_signal(int signal_number, Callback caught) {
    return std::make_unique<EventRegistration>(
        base(), signal_number, static_cast<short>(EV_SIGNAL | EV_PERSIST), std::move(caught));
}

std::unique_ptr<Loop::Timer> Loop::make_timer(Callback expired) {
    return std::make_unique<EventTimer>(base(), std::move(expired));
}

std::int64_t Loop::now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

event_base* Loop::base() const {
    return impl_->base.get();
}

}  // namespace xenpack
