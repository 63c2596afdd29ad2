// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin's table: each call of plugin/toolstack.h handed to a World, and the timer that lets a
// World's time pass as real time does. Called by the watcher through xenpack_toolstack(), the one
// exported symbol. No exception leaves it.
#include "plugin/sim/toolstack.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "plugin/sim/scenario.h"
#include "plugin/sim/start_cost.h"
#include "plugin/sim/store.h"
#include "plugin/sim/world.h"

namespace xenpack::sim {

namespace {

// A process that was stopped does not make its zones live through the whole pause at once.
constexpr std::int64_t kCatchUpMs = 1'000;

std::int64_t real_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

class Toolstack {
  public:
    Toolstack(const xenpack_watcher_ops& watcher, Scenario scenario)
        : watcher_(watcher),
          world_(std::move(scenario), *static_cast<Store*>(watcher.store),
                 [this](xenpack_log_level level, const std::string& text) {
                     watcher_.log(watcher_.user, level, text.c_str());
                 }),
          last_ms_(real_ms()) {}
    ~Toolstack() {
        if (timeout_ != nullptr) {
            watcher_.loop_ops->timeout_deregister(watcher_.loop, timeout_);
        }
        world_.cancel();
        call_finished();
    }
    Toolstack(const Toolstack&) = delete;
    Toolstack& operator=(const Toolstack&) = delete;

    [[nodiscard]] World& world() { return world_; }
    [[nodiscard]] bool is_lost() const { return lost_; }

    // 0 or -ENOMEM.
    [[nodiscard]] int arm() noexcept;
    void report();

    std::string last_error;

  private:
    void pass_time();
    void call_finished();
    void lose(const char* why) noexcept;
    void tick() noexcept;

    xenpack_watcher_ops watcher_;
    World world_;
    std::int64_t last_ms_;  // the real time up to which the world has lived
    void* timeout_ = nullptr;
    std::deque<xenpack_event> events_;
    bool reporting_ = false;
    bool lost_ = false;
};

int Toolstack::arm() noexcept {
    const auto step_ms = world_.next_step_ms();
    if (!step_ms) {
        return 0;
    }
    const std::int64_t in_ms = std::max<std::int64_t>(0, last_ms_ + *step_ms - real_ms());
    return watcher_.loop_ops->timeout_register(
        watcher_.loop, static_cast<std::uint64_t>(in_ms) * 1000,
        [](void* self) { static_cast<Toolstack*>(self)->tick(); }, this, &timeout_);
}

// Whole steps; the rest of the time waits for the next call.
void Toolstack::pass_time() {
    std::int64_t due_ms = real_ms() - last_ms_;
    if (!world_.lives()) {
        world_.step(std::max<std::int64_t>(0, due_ms));
        last_ms_ += due_ms;
        return;
    }
    if (due_ms > kCatchUpMs) {
        last_ms_ += due_ms - kCatchUpMs;
        due_ms = kCatchUpMs;
    }
    for (; due_ms >= kStepMs; due_ms -= kStepMs) {
        world_.step(kStepMs);
        last_ms_ += kStepMs;
    }
}

// The watcher may close this in on_event, so that is the last thing done.
void Toolstack::tick() noexcept {
    timeout_ = nullptr;
    try {
        pass_time();
        if (arm() != 0) {
            lose("out of memory");
            return;
        }
        call_finished();
        report();
    } catch (const std::exception& e) {
        lose(e.what());
    }
}

// Each may begin the next.
void Toolstack::call_finished() {
    for (const auto& call : world_.take_finished()) {
        call();
    }
}

void Toolstack::lose(const char* why) noexcept {
    lost_ = true;
    watcher_.log(watcher_.user, XENPACK_LOG_ERROR, why);
    const xenpack_event event{XENPACK_HOST_LOST, 0, {}, -1};
    watcher_.on_event(watcher_.user, &event);
}

void Toolstack::report() {
    const auto fresh = world_.take_events();
    events_.insert(events_.end(), fresh.begin(), fresh.end());
    if (std::exchange(reporting_, true)) {
        return;
    }
    while (!events_.empty()) {
        const xenpack_event event = events_.front();
        events_.pop_front();
        watcher_.on_event(watcher_.user, &event);
    }
    reporting_ = false;
}

// ---- the table ----------------------------------------------------------------------------------

int code_of(const Error& error) noexcept {
    return error.code > 0 ? -error.code : -EIO;
}

Toolstack* inside(xenpack_toolstack* ts) noexcept {
    return reinterpret_cast<Toolstack*>(ts);
}

World::Uuid uuid_in(const std::uint8_t uuid[16]) noexcept {
    World::Uuid copy{};
    std::copy_n(uuid, copy.size(), copy.begin());
    return copy;
}

// Runs one call of the table: `call` gives Expected<int>, which becomes the C result.
template <class Call>
int answer(xenpack_toolstack* opaque, Call&& call) noexcept {
    Toolstack& ts = *inside(opaque);
    try {
        if (ts.is_lost()) {
            ts.last_error = "the simulated host is lost: restart xenpackd";
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
Expected<int> done(Expected<void> result) {
    return result ? Expected<int>(0) : tl::unexpected(std::move(result.error()));
}

Expected<Scenario> chosen_scenario(std::string& name) {
    const char* path = std::getenv(kScenarioVariable);
    if (path == nullptr || *path == '\0') {
        name = "the built-in scenario";
        return parse_scenario(built_in_scenario(), name);
    }
    name = path;
    return load_scenario(path);
}

Expected<std::unique_ptr<Toolstack>> open_world(const xenpack_watcher_ops& watcher) {
    if (watcher.version != XENPACK_TOOLSTACK_VERSION) {
        return fail_with(EPROTO,
                         "xenpackd speaks version {} of the plugin interface and this plugin "
                         "version {}: install both from the same release",
                         watcher.version, XENPACK_TOOLSTACK_VERSION);
    }
    if (watcher.store_ops != &own_store_ops().ops) {
        return fail_with(EPROTO, "the simulated host was not given the store that it brings along");
    }
    std::string name;
    auto scenario = chosen_scenario(name);
    if (!scenario) {
        return tl::unexpected(scenario.error());
    }
    const std::string text =
        fmt::format("simulating a host of {} MiB with {} zones: {}",
                    scenario->host.total_kib / 1024, scenario->zones.size(), name);
    watcher.log(watcher.user, XENPACK_LOG_INFO, text.c_str());
    auto ts = std::make_unique<Toolstack>(watcher, std::move(*scenario));
    if (const int r = ts->arm(); r != 0) {
        return fail_with(-r, "out of memory");
    }
    return ts;
}

int table_open(const xenpack_watcher_ops* watcher, xenpack_toolstack** ts_r, char* error,
               std::size_t size) noexcept try {
    *ts_r = nullptr;
    auto ts = open_world(*watcher);
    if (!ts) {
        (void)std::snprintf(error, size, "%s", ts.error().what.c_str());
        return code_of(ts.error());
    }
    *ts_r = reinterpret_cast<xenpack_toolstack*>(ts->release());
    return 0;
} catch (const std::exception& e) {
    (void)std::snprintf(error, size, "%s", e.what());
    return -ENOMEM;
}

void table_close(xenpack_toolstack* ts) {
    delete inside(ts);
}

const char* table_last_error(xenpack_toolstack* ts) {
    return inside(ts)->last_error.c_str();
}

int table_host(xenpack_toolstack* ts, xenpack_host* host_r) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        *host_r = t.world().host();
        return 0;
    });
}

int table_refresh(xenpack_toolstack* ts, xenpack_domain* domains, std::size_t capacity) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        const auto found = t.world().domains();
        std::copy_n(found.begin(), std::min(found.size(), capacity), domains);
        t.report();
        return static_cast<int>(found.size());
    });
}

int table_domain(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                 xenpack_domain* domain_r) {
    return answer(
        ts, [&](Toolstack& t) { return put(t.world().domain(domid, uuid_in(uuid)), domain_r); });
}

int table_domain_config(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                        xenpack_domain_config* config_r) {
    return answer(ts, [&](Toolstack& t) {
        return put(t.world().domain_config(domid, uuid_in(uuid)), config_r);
    });
}

int table_host_books(xenpack_toolstack* ts, xenpack_host_books* books_r) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        *books_r = t.world().host_books();
        return 0;
    });
}

int table_domain_books(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                       xenpack_domain_books* books_r) {
    return answer(ts, [&](Toolstack& t) {
        return put(t.world().domain_books(domid, uuid_in(uuid)), books_r);
    });
}

// One node, and processors that have nothing in common.
int table_topology(xenpack_toolstack* ts, xenpack_topology* topology) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        const xenpack_host host = t.world().host();
        topology->nodes_n = 1;
        topology->cpus_n = host.cpus;
        if (topology->nodes_capacity < 1 || topology->cpus_capacity < host.cpus) {
            return 1;
        }
        topology->nodes[0] = {host.total_kib, host.free_kib};
        topology->distances[0] = 10;
        for (std::uint32_t cpu = 0; cpu < host.cpus; ++cpu) {
            topology->cpus[cpu] = {0, 0, cpu, 0};
        }
        return 0;
    });
}

// Both ways are the same here: there is no other toolstack to wait for.
int table_set_target(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                     std::uint64_t target_kib, std::uint64_t static_max_kib, int keep_limit,
                     xenpack_target_way) {
    return answer(ts, [&](Toolstack& t) {
        return done(t.world().set_target(domid, uuid_in(uuid),
                                         {target_kib, static_max_kib, keep_limit != 0}));
    });
}

int table_set_limit(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                    std::uint64_t limit_kib) {
    return answer(ts, [&](Toolstack& t) {
        return done(t.world().set_limit(domid, uuid_in(uuid), limit_kib));
    });
}

int table_start_cost(xenpack_toolstack* ts, const char* config_json, xenpack_start_cost* cost_r) {
    return answer(ts, [&](Toolstack&) { return put(start_cost(config_json), cost_r); });
}

int table_fork_missing(xenpack_toolstack* ts, char* missing, std::size_t size) {
    return answer(ts, [&](Toolstack& t) -> Expected<int> {
        std::string text;
        const auto list = t.world().fork_missing();
        for (const std::string& sentence : list) {
            text += sentence + "\n";
        }
        (void)std::snprintf(missing, size, "%s", text.c_str());
        return static_cast<int>(list.size());
    });
}

World::Done call_of(xenpack_done called, void* arg) {
    return [called, arg](int result, const std::string& why, const xenpack_fork_result*) {
        called(arg, result, why.c_str());
    };
}

int table_fork_cost(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                    xenpack_fork_cost* cost_r) {
    return answer(
        ts, [&](Toolstack& t) { return put(t.world().fork_cost(domid, uuid_in(uuid)), cost_r); });
}

int table_seal(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
               const char* name, std::uint64_t timeout_ms, xenpack_done called, void* arg) {
    return answer(ts, [&](Toolstack& t) {
        return done(t.world().seal(domid, uuid_in(uuid), name,
                                   static_cast<std::int64_t>(timeout_ms), call_of(called, arg)));
    });
}

int table_fork(xenpack_toolstack* ts, const xenpack_fork_request* request, xenpack_fork_done called,
               void* arg) {
    return answer(ts, [&](Toolstack& t) {
        World::ForkOrder order{request->template_domid,
                               uuid_in(request->template_uuid),
                               request->name,
                               uuid_in(request->uuid),
                               {},
                               request->paused != 0};
        for (const xenpack_store_write& each : std::span(request->identity, request->identity_n)) {
            order.identity.emplace_back(each.path, each.value);
        }
        return done(t.world().fork(order, [called, arg](int result, const std::string& why,
                                                        const xenpack_fork_result* fork) {
            called(arg, result, why.c_str(), fork);
        }));
    });
}

int table_destroy(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                  xenpack_done called, void* arg) {
    return answer(ts, [&](Toolstack& t) {
        return done(t.world().destroy(domid, uuid_in(uuid), call_of(called, arg)));
    });
}

int table_adopt(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(t.world().adopt(domid, uuid_in(uuid))); });
}

int table_feed(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(t.world().feed(domid, uuid_in(uuid))); });
}

int table_hold(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(t.world().hold(domid, uuid_in(uuid))); });
}

int table_let_go(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(t.world().let_go(domid, uuid_in(uuid))); });
}

int table_rename(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16],
                 const char* name) {
    return answer(ts,
                  [&](Toolstack& t) { return done(t.world().rename(domid, uuid_in(uuid), name)); });
}

int table_unpause(xenpack_toolstack* ts, std::uint32_t domid, const std::uint8_t uuid[16]) {
    return answer(ts, [&](Toolstack& t) { return done(t.world().unpause(domid, uuid_in(uuid))); });
}

int table_open_store(const xenpack_loop_ops* loop_ops, void* loop, const xenpack_own_store** ops_r,
                     void** store_r, char* error, std::size_t size) noexcept try {
    *store_r = new Store(*loop_ops, loop);
    *ops_r = &own_store_ops();
    return 0;
} catch (const std::exception& e) {
    (void)std::snprintf(error, size, "%s", e.what());
    return -ENOMEM;
}

void table_close_store(void* store) {
    delete static_cast<Store*>(store);
}

constexpr xenpack_toolstack_ops kTable{
    XENPACK_TOOLSTACK_VERSION,
    "sim",
    "a simulated host",
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
    table_open_store,
    table_close_store,
    table_fork_missing,
    table_seal,
    table_fork_cost,
    table_fork,
    table_destroy,
    table_adopt,
    table_feed,
    table_hold,
    table_let_go,
    table_rename,
    table_unpause,
};

}  // namespace

const xenpack_toolstack_ops& toolstack_ops() {
    return kTable;
}

}  // namespace xenpack::sim

// The function shares its name with the struct the interface leaves opaque, as C allows.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" __attribute__((visibility("default"))) const struct xenpack_toolstack_ops*
xenpack_toolstack(void) {
    return &xenpack::sim::toolstack_ops();
}
#pragma GCC diagnostic pop
