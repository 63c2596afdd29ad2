// SPDX-License-Identifier: LGPL-2.1-or-later
// Loop: the one event loop of a program, over libevent. main() owns it; every room that waits for
// something is given a reference. Only files in this folder may include event2/*.
//
// Threads: all calls on the thread that runs run(). Callbacks are never nested: what a callback
// wants done "after this" it passes to defer(). Callbacks must not block and must not throw.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "plugin/toolstack.h"

struct event_base;

namespace xenpack {

class Loop {
  public:
    using Callback = std::function<void()>;

    // A registration. Destroying it ends it; it may be destroyed inside its own callback.
    class Registration {
      public:
        virtual ~Registration() = default;
    };
    using Handle = std::unique_ptr<Registration>;

    // A one-shot timer, reusable: start() replaces an earlier deadline.
    class Timer {
      public:
        virtual ~Timer() = default;
        virtual void start(std::int64_t delay_ms) = 0;  // below 0 counts as 0
        virtual void stop() = 0;
        [[nodiscard]] virtual bool running() const = 0;
    };

    Loop();  // throws std::runtime_error where libevent cannot start
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void run();       // returns after stop()
    void run_once();  // waits for one round of events (tests)
    void stop();
    void defer(Callback work);  // runs once the present callback has returned, in order of calls

    [[nodiscard]] Handle watch_readable(int fd, Callback ready);  // level triggered
    [[nodiscard]] Handle watch_signal(int signal_number, Callback caught);
    [[nodiscard]] std::unique_ptr<Timer> make_timer(Callback expired);

    // Monotonic, milliseconds; read anew at each call.
    [[nodiscard]] static std::int64_t now_ms();

    // What the loop offers to a plugin; `loop` in xenpack_watcher_ops is this object.
    [[nodiscard]] static const xenpack_loop_ops& plugin_ops();

    // For files in this folder.
    [[nodiscard]] event_base* base() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace xenpack
