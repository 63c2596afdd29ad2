// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin's table: each call of plugin/toolstack.h handed to the file that does it, failures
// made into errno values and a sentence. Called by the watcher through xenpack_toolstack(), the one
// exported symbol. No exception leaves it.
#include "plugin/libxl/toolstack.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "plugin/libxl/books.h"
#include "plugin/libxl/created_config.h"
#include "plugin/libxl/destroy.h"
#include "plugin/libxl/domain_watch.h"
#include "plugin/libxl/fork.h"
#include "plugin/libxl/fork_domain.h"
#include "plugin/libxl/fork_rings.h"
#include "plugin/libxl/hand_out.h"
#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/jobs.h"
#include "plugin/libxl/later.h"
#include "plugin/libxl/saving.h"
#include "plugin/libxl/seal.h"
#include "plugin/libxl/start_cost.h"
#include "plugin/libxl/taken_names.h"
#include "plugin/libxl/targets.h"
#include "plugin/libxl/templates.h"
#include "plugin/libxl/tool_log.h"
#include "plugin/libxl/version.h"
#include "plugin/libxl/xl_context.h"

namespace xenpack {
namespace {

// Closing waits this long for what is under way to be undone. libxl's own waits for a backend end
// after 10 s and for a hotplug script after 40 s (tools/libs/light/libxl_internal.h).
constexpr std::chrono::seconds kCloseLongest{60};

// In the order of construction; each outlives those below it.
struct Toolstack {
    Toolstack(const xenpack_watcher_ops& ops, const HostFiles& files)
        : watcher{ops},
          log{watcher},
          scripts{files.scripts},
          paused_forks{files.paused_forks},
          helpers{files.proc, files.save_helpers},
          later{watcher},
          jobs{later} {}
    ~Toolstack() { end_jobs(); }
    Toolstack(const Toolstack&) = delete;
    Toolstack& operator=(const Toolstack&) = delete;

    Expected<void> attach();
    void look_again();
    void report_lost();
    void end_jobs();
    // Asked of Xen until nothing is missing.
    Expected<std::vector<std::string>> fork_missing();

    xenpack_watcher_ops watcher;
    ToolLog log;
    std::string scripts;
    std::string paused_forks;
    SaveHelpers helpers;
    Later later;
    std::unique_ptr<Hypervisor> xen;
    std::unique_ptr<XlContext> xl;
    std::unique_ptr<DomainWatch> domains;
    std::unique_ptr<Targets> targets;
    std::unique_ptr<TakenNames> names;
    std::unique_ptr<Templates> templates;
    std::unique_ptr<DeviceWorker> devices;
    std::unique_ptr<ForkRings> rings;
    std::unique_ptr<Tools> tools;
    Jobs jobs;
    bool has_all_for_forks = false;
    std::string last_error;
};

Expected<void> Toolstack::attach() {
    auto opened = Hypervisor::open(log.logger());
    if (!opened) {
        return tl::unexpected(opened.error());
    }
    xen = std::make_unique<Hypervisor>(std::move(*opened));
    auto context = XlContext::open(watcher, log.logger(),
                                   {[this] { look_again(); }, [this] { report_lost(); }});
    if (!context) {
        return tl::unexpected(context.error());
    }
    xl = std::move(*context);
    domains = std::make_unique<DomainWatch>(watcher, *xen, *xl);
    targets = std::make_unique<Targets>(watcher, *xen, *xl, helpers);
    names = std::make_unique<TakenNames>(watcher, *xen);
    templates = std::make_unique<Templates>(watcher, *xen, *xl);
    rings = std::make_unique<ForkRings>(
        watcher, *xen, log.logger(), [this] { return !xl->is_lost(); }, paused_forks);
    devices = make_device_worker(watcher);
    tools = std::make_unique<Tools>(Tools{watcher, *xen, *xl, helpers, later, *names, *templates,
                                          *rings, jobs, *devices, scripts});
    return {};
}

void Toolstack::look_again() {
    if (xl->is_lost()) {
        return;
    }
    if (auto ok = domains->look(); !ok) {
        watcher.log(watcher.user, XENPACK_LOG_WARNING, ok.error().what.c_str());
        return;
    }
    rings->keep(domains->domains());
    jobs.host_changed();
    domains->report();
}

// There is no loop any more for libxl: it is served here, until all is undone. Nor is there one for
// forks, some of which may run on meanwhile.
void Toolstack::end_jobs() {
    if (rings) {
        rings->leave_to_warden();
    }
    jobs.cancel_all();
    if (devices) {
        devices->finish();
    }
    if (xl) {
        xl->serve(kCloseLongest, [this] {
            later.run_all();
            return jobs.empty();
        });
    }
    jobs.abandon_all();
}

Expected<std::vector<std::string>> Toolstack::fork_missing() {
    if (has_all_for_forks) {
        return std::vector<std::string>{};
    }
    auto missing = ForkDomains(*xen).missing();
    has_all_for_forks = missing && missing->empty();
    return missing;
}

// The watcher may close this toolstack in on_event, so that is the last thing done.
void Toolstack::report_lost() {
    const xenpack_event event{XENPACK_HOST_LOST, 0, {}, -1};
    watcher.on_event(watcher.user, &event);
}

Toolstack* inside(xenpack_toolstack* ts) noexcept {
    return reinterpret_cast<Toolstack*>(ts);
}

// Runs one call of the table: `call` gives Expected<int>, which becomes the C result.
template <class Call>
int answer(xenpack_toolstack* opaque, Call&& call) noexcept {
    Toolstack& ts = *inside(opaque);
    try {
        if (ts.xl->is_lost()) {
            ts.last_error = "libxl is lost (" + ts.xl->why_lost() + "): restart xenpackd";
            return -EIO;
        }
        Expected<int> result = std::forward<Call>(call)(ts);
        if (result) {
            ts.last_error.clear();
            return *result;
        }
        ts.last_error = std::move(result.error().what);
        return code_of(result.error());
    } catch (const std::exception&) {
        ts.last_error = "out of memory";  // short enough to need none itself
        return -ENOMEM;
    }
}

// 0 and the value in its place, or the failure.
template <class Value>
Expected<int> put(Expected<Value> result, Value* value_r) {
    return std::move(result).map([value_r](Value value) {
        *value_r = value;
        return 0;
    });
}

// 0, or the failure.
Expected<int> done(Expected<void> result) {
    return result ? Expected<int>(0) : tl::unexpected(std::move(result.error()));
}

int table_open(const xenpack_watcher_ops* watcher, xenpack_toolstack** ts_r, char* error,
               std::size_t size) {
    return open_toolstack(watcher, HostFiles{}, ts_r, error, size);
}

void table_close(xenpack_toolstack* ts) {
    delete inside(ts);
}

const char* table_last_error(xenpack_toolstack* ts) {
    return inside(ts)->last_error.c_str();
}

int table_host(xenpack_toolstack* ts, xenpack_host* host_r) {
    return answer(ts, [&](Toolstack& t) { return put(t.xen->host(), host_r); });
}

int table_refresh(xenpack_toolstack* ts, xenpack_domain* domains, std::size_t capacity) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        if (auto ok = t.domains->look(); !ok) {
            return tl::unexpected(ok.error());
        }
        const auto& found = t.domains->domains();
        t.rings->keep(found);
        const auto count = static_cast<int>(found.size());
        std::copy_n(found.begin(), std::min(found.size(), capacity), domains);
        t.domains->report();
        return count;
    });
}

int table_domain(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                 xenpack_domain* domain_r) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        auto facts = t.xen->domain(domid, uuid);
        if (!facts) {
            return tl::unexpected(facts.error());
        }
        *domain_r = facts->domain;
        return 0;
    });
}

int table_domain_config(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                        xenpack_domain_config* config_r) {
    return answer(ts, [&](Toolstack& t) {
        return put(created_config(*t.xen, *t.xl, {domid, uuid}), config_r);
    });
}

int table_host_books(xenpack_toolstack* ts, xenpack_host_books* books_r) {
    return answer(ts, [&](Toolstack& t) { return put(host_books(*t.xen), books_r); });
}

int table_domain_books(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                       xenpack_domain_books* books_r) {
    return answer(ts,
                  [&](Toolstack& t) { return put(domain_books(*t.xen, domid, uuid), books_r); });
}

int table_topology(xenpack_toolstack* ts, xenpack_topology* found) {
    return answer(ts, [&](Toolstack& t) {
        return topology(*t.xen, *found).map([](bool all) { return all ? 0 : 1; });
    });
}

int table_set_target(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                     std::uint64_t target_kib, std::uint64_t static_max_kib, int keep_limit,
                     xenpack_target_way way) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        const TargetRequest request{{domid, uuid}, target_kib, static_max_kib, keep_limit != 0};
        switch (way) {
            case XENPACK_TARGET_SHORT:
                return done(t.targets->set_short(request));
            case XENPACK_TARGET_LIBXL:
                return done(t.targets->set_by_libxl(request));
        }
        return fail_with(EINVAL, "there is no way {} to set a target", static_cast<int>(way));
    });
}

int table_set_limit(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                    std::uint64_t limit_kib) {
    return answer(ts, [&](Toolstack& t) {
        return done(t.targets->set_limit({domid, uuid}, limit_kib));
    });
}

int table_start_cost(xenpack_toolstack* ts, const char* config_json, xenpack_start_cost* cost_r) {
    return answer(ts, [&](Toolstack& t) { return put(start_cost(*t.xl, config_json), cost_r); });
}

int table_fork_missing(xenpack_toolstack* ts, char* missing, std::size_t size) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        const auto found = t.fork_missing();
        if (!found) {
            return tl::unexpected(found.error());
        }
        std::string text;
        for (const std::string& sentence : *found) {
            text += sentence + "\n";
        }
        std::snprintf(missing, size, "%s", text.c_str());
        return static_cast<int>(found->size());
    });
}

int table_seal(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
               const char* name, std::uint64_t timeout_ms, xenpack_done called, void* arg) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        auto missing = t.fork_missing();
        if (!missing) {
            return tl::unexpected(missing.error());
        }
        Sealing::Request request{domid, copy_uuid(uuid), name, timeout_ms, std::move(*missing)};
        return done(
            t.jobs.add(std::make_unique<Sealing>(*t.tools, std::move(request), called, arg)));
    });
}

int table_fork_cost(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                    xenpack_fork_cost* cost_r) {
    return answer(ts, [&](Toolstack& t) {
        return put(fork_cost(*t.xen, *t.templates, domid, uuid), cost_r);
    });
}

int table_fork(xenpack_toolstack* ts, const xenpack_fork_request* request, xenpack_fork_done called,
               void* arg) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        if (*request->name == '\0') {
            return fail_with(EINVAL, "a fork needs a name");
        }
        return done(t.jobs.add(std::make_unique<Forking>(*t.tools, *request, called, arg)));
    });
}

int table_destroy(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                  xenpack_done called, void* arg) {
    return answer(ts, [&](Toolstack& t) {
        return done(t.jobs.add(
            std::make_unique<Destroying>(*t.tools, domid, copy_uuid(uuid), called, arg)));
    });
}

// Runs one of the calls that keep a fork whole.
template <Expected<void> (ForkRings::*kCall)(std::uint32_t, const std::uint8_t*)>
int table_ring(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(((*t.rings).*kCall)(domid, uuid)); });
}

int table_adopt(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        return t.rings->adopt(domid, uuid).map([](bool paused) { return paused ? 1 : 0; });
    });
}

int table_rename(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                 const char* name) {
    return answer(ts, [&](Toolstack& t) {
        return done(rename_domain(*t.tools, {domid, uuid}, name));
    });
}

int table_unpause(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(unpause_domain(*t.tools, {domid, uuid})); });
}

constexpr xenpack_toolstack_ops kTable{
    XENPACK_TOOLSTACK_VERSION,
    "libxl",
    "Xen " XENPACK_XEN_VERSION,
    table_open,
    table_close,
    table_last_error,
    table_host,
    table_refresh,
    table_domain,
    table_domain_config,
    table_host_books,
    table_domain_books,
    table_topology,
    table_set_target,
    table_set_limit,
    table_start_cost,
    nullptr,
    nullptr,
    table_fork_missing,
    table_seal,
    table_fork_cost,
    table_fork,
    table_destroy,
    table_adopt,
    table_ring<&ForkRings::feed>,
    table_ring<&ForkRings::hold>,
    table_ring<&ForkRings::let_go>,
    table_rename,
    table_unpause,
};

}  // namespace

int open_toolstack(const xenpack_watcher_ops* watcher, const HostFiles& files,
                   xenpack_toolstack** ts_r, char* error, std::size_t size) noexcept try {
    *ts_r = nullptr;
    if (watcher->version != XENPACK_TOOLSTACK_VERSION) {
        std::snprintf(error, size,
                      "xenpackd speaks version %u of the plugin interface and this plugin version "
                      "%u: install both from the same release",
                      watcher->version, XENPACK_TOOLSTACK_VERSION);
        return -EPROTO;
    }
    Expected<void> ok = check_hypervisor(files, built_for_version());
    if (ok) {
        auto ts = std::make_unique<Toolstack>(*watcher, files);
        ok = ts->attach();
        if (ok) {
            *ts_r = reinterpret_cast<xenpack_toolstack*>(ts.release());
            return 0;
        }
    }
    std::snprintf(error, size, "%s", ok.error().what.c_str());
    return code_of(ok.error());
} catch (const std::exception& e) {
    std::snprintf(error, size, "%s", e.what());
    return -ENOMEM;
}

}  // namespace xenpack

// The function shares its name with the struct the interface leaves opaque, as C allows.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" __attribute__((visibility("default"))) const struct xenpack_toolstack_ops*
xenpack_toolstack(void) {
    return &xenpack::kTable;
}
#pragma GCC diagnostic pop
