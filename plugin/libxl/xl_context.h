// SPDX-License-Identifier: LGPL-2.1-or-later
// XlContext: a libxl context whose descriptors, timeouts and children are served by the watcher's
// loop, and whose events become "look again" and "lost". Owned by the toolstack.
// It must not call the watcher's on_event while libxl is on the stack, nor decide what an event
// means.
//
// Thread: the loop's. Everything libxl calls back runs there, because only there is libxl called.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "plugin/libxl/soon.h"
#include "plugin/libxl/xen.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class XlContext {
  public:
    struct Listener {
        // Some domain has shut down or ended: look which. Once per round of the loop, however many.
        std::function<void()> domain_changed;
        // libxl cannot go on. Once; is_lost() is true from the moment it is known. May destroy
        // this. A dead xenstored is not among what libxl notices: libxenstore 4.17 closes its
        // socket and wakes nobody (read_thread in tools/libs/store/xs.c). The watcher's store finds
        // that out.
        std::function<void()> lost;
    };

    // `watcher` and `logger` must outlive the result. Fails with EPERM, ENODEV or ENOMEM.
    static Expected<std::unique_ptr<XlContext>> open(const xenpack_watcher_ops& watcher,
                                                     xentoollog_logger* logger, Listener listener);
    ~XlContext();
    XlContext(const XlContext&) = delete;
    XlContext& operator=(const XlContext&) = delete;

    libxl_ctx* get() const noexcept { return ctx_.get(); }
    bool is_lost() const noexcept { return is_lost_; }
    const std::string& why_lost() const noexcept { return why_lost_; }

    // How many of libxl's asynchronous calls are under way: while there are, libxl cannot be freed.
    void operation_begun() noexcept { ++operations_; }
    void operation_ended() noexcept { --operations_; }

    // Serves libxl without the loop, for the end of a program, until `is_over` says so: asked again
    // after each thing that has happened. False where that took longer than `longest`.
    bool serve(std::chrono::milliseconds longest, const std::function<bool()>& is_over);

    // From here on is_lost().
    void lose(const char* message, int errnoval = 0) noexcept;

    // Asks for domain_changed when the domain shuts down (once) and when it ends. Null on failure.
    // The handle stays valid, whatever becomes of the domain, until given to ignore_end().
    libxl_evgen_domain_death* watch_end(std::uint32_t domid) noexcept;
    void ignore_end(libxl_evgen_domain_death* watched) noexcept;

  private:
    struct Hooks;  // what libxl and the loop call
    struct Registration {
        XlContext* self = nullptr;
        void* for_libxl = nullptr;
        void* handle = nullptr;  // the loop's
        bool is_timeout = false;
        short events = 0;                             // of a descriptor
        int fd = -1;                                  // -1: a timeout
        std::chrono::steady_clock::time_point due{};  // of a timeout
    };
    struct Free {
        void operator()(libxl_ctx* ctx) const noexcept { libxl_ctx_free(ctx); }
    };

    XlContext(const xenpack_watcher_ops& watcher, Listener listener);
    Expected<void> attach(xentoollog_logger* logger);
    Registration* adopt(void* for_libxl, bool is_timeout);
    void serve_once(std::chrono::steady_clock::time_point until);
    Registration* next_due();

    const xenpack_watcher_ops& watcher_;
    std::unordered_map<Registration*, std::unique_ptr<Registration>> live_;
    Soon changed_;
    Soon lost_;
    bool is_lost_ = false;
    std::string why_lost_;
    bool has_child_hook_ = false;
    int operations_ = 0;
    std::unique_ptr<libxl_ctx, Free> ctx_;
};

}  // namespace xenpack
