// SPDX-License-Identifier: LGPL-2.1-or-later
// plugin_probe: loads a toolstack plugin on a real host and tries it by hand, without the watcher.
// Run by people and by the lab's cases as root in dom0; not installed.
//
//   plugin_probe PLUGIN.so host
//   plugin_probe PLUGIN.so list
//   plugin_probe PLUGIN.so config DOMID
//   plugin_probe PLUGIN.so state DOMID
//   plugin_probe PLUGIN.so watch SECONDS [REFRESH_MS]      0: refresh only once, at the start
//   plugin_probe PLUGIN.so set DOMID KIB short|libxl [TIMES [keep]]
//   plugin_probe PLUGIN.so limit DOMID KIB
//   plugin_probe PLUGIN.so compare DOMID KIB               exit 1 where the two ways differ
//   plugin_probe PLUGIN.so cost <CONFIG                    what xl create --dryrun printed
//
// Every line it prints is words and name=value pairs, for awk and for people.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/toolstack.h"
#include "tests/plugin/on_host/host_store.h"
#include "tests/plugin/on_host/poll_loop.h"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// More domains than a lab ever has.
constexpr std::size_t kDomains = 1024;

[[noreturn]] void die(const std::string& why) {
    fmt::print(stderr, "plugin_probe: {}\n", why);
    std::exit(2);
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
        die(fmt::format("\"{}\" is not a number", text));
    }
    return value;
}

std::string uuid_text(const std::uint8_t* uuid) {
    std::string text;
    for (int i = 0; i < 16; ++i) {
        text += fmt::format("{:02x}{}", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
    }
    return text;
}

std::string_view event_name(xenpack_event_type type) {
    switch (type) {
        case XENPACK_DOMAIN_CREATED:
            return "created";
        case XENPACK_DOMAIN_PAUSED:
            return "paused";
        case XENPACK_DOMAIN_UNPAUSED:
            return "unpaused";
        case XENPACK_DOMAIN_SHUT_DOWN:
            return "shut_down";
        case XENPACK_DOMAIN_DIED:
            return "died";
        case XENPACK_HOST_LOST:
            return "host_lost";
        case XENPACK_FORK_STARVED:
            return "fork_starved";
        case XENPACK_HOST_LOW:
            return "host_low";
    }
    return "?";
}

std::string flag_names(std::uint32_t flags) {
    static constexpr std::array<const char*, 5> kNames{"paused", "shutdown", "dying", "never_ran",
                                                       "hvm"};
    std::string text;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        if ((flags >> i & 1) != 0) {
            text += (text.empty() ? "" : ",") + std::string(kNames[i]);
        }
    }
    return text.empty() ? "-" : text;
}

class Probe {
  public:
    explicit Probe(const char* path) {
        void* object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (object == nullptr) {
            die(dlerror());
        }
        const auto entry =
            reinterpret_cast<xenpack_toolstack_fn>(dlsym(object, XENPACK_TOOLSTACK_SYMBOL));
        if (entry == nullptr) {
            die(dlerror());
        }
        ops_ = entry();
        char error[512];
        if (const int r = ops_->open(&watcher_, &ts_, error, sizeof error); r < 0) {
            die(fmt::format("open: {} ({})", error, r));
        }
    }
    ~Probe() {
        ops_->close(ts_);
        if (loop_.registered() != 0) {
            fmt::print("left_in_loop n={}\n", loop_.registered());
        }
    }
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;

    int host() {
        xenpack_host h{};
        check(ops_->host(ts_, &h), "host");
        fmt::print("host total_kib={} free_kib={} scrub_kib={} claimed_kib={} nodes={} cpus={}\n",
                   h.total_kib, h.free_kib, h.scrub_kib, h.claimed_kib, h.nodes, h.cpus);
        return 0;
    }

    int list() {
        quiet_ = true;
        for (const xenpack_domain& d : refresh()) {
            print(d);
        }
        return 0;
    }

    int config(std::uint32_t domid) {
        const xenpack_domain d = find(domid);
        xenpack_domain_config c{};
        check(ops_->domain_config(ts_, domid, d.uuid, &c), "domain_config");
        fmt::print("config domid={} memory_kib={} max_memory_kib={}\n", domid, c.memory_kib,
                   c.max_memory_kib);
        return 0;
    }

    int cost(const std::string& config_json) {
        xenpack_start_cost c{};
        check(ops_->start_cost(ts_, config_json.c_str(), &c), "start_cost");
        fmt::print("cost uuid={} memory_kib={} overhead_kib={} whole_kib={}\n", uuid_text(c.uuid),
                   c.memory_kib, c.overhead_kib, c.memory_kib + c.overhead_kib);
        return 0;
    }

    int state(std::uint32_t domid) {
        const xenpack_domain d = find(domid);
        for (const auto& [name, value] : snapshot(d)) {
            fmt::print("state domid={} {}={}\n", domid, name, value);
        }
        return 0;
    }

    int watch(std::chrono::seconds how_long, milliseconds every) {
        const auto end = start_ + how_long;
        auto next = Clock::now();
        while (Clock::now() < end) {
            if (Clock::now() >= next) {
                refresh();
                next = every.count() > 0 ? Clock::now() + every : end;
            }
            loop_.round(std::chrono::ceil<milliseconds>(std::min(next, end) - Clock::now()));
        }
        return 0;
    }

    // Alternates between the target and a page less, so that each time has something to change.
    int set(std::uint32_t domid, std::uint64_t kib, xenpack_target_way way, std::uint64_t times,
            bool keep) {
        const xenpack_domain d = find(domid);
        const std::uint64_t max_kib = static_max_kib(d);
        int r = 0;
        for (std::uint64_t i = 0; i < times; ++i) {
            const std::uint64_t target_kib = (times - i) % 2 == 1 ? kib : kib - 4;
            const auto before = Clock::now();
            r = ops_->set_target(ts_, domid, d.uuid, target_kib, max_kib, keep ? 1 : 0, way);
            const auto took = Clock::now() - before;
            fmt::print("set way={} domid={} target_kib={} rc={} us={}{}\n",
                       way == XENPACK_TARGET_SHORT ? "short" : "libxl", domid, target_kib, r,
                       std::chrono::duration_cast<std::chrono::microseconds>(took).count(),
                       failure(r));
        }
        return r == 0 ? 0 : 1;
    }

    int limit(std::uint32_t domid, std::uint64_t kib) {
        const xenpack_domain d = find(domid);
        const auto before = Clock::now();
        const int r = ops_->set_limit(ts_, domid, d.uuid, kib);
        const auto took = Clock::now() - before;
        fmt::print("limit domid={} limit_kib={} rc={} us={}{}\n", domid, kib, r,
                   std::chrono::duration_cast<std::chrono::microseconds>(took).count(), failure(r));
        return r == 0 ? 0 : 1;
    }

    // From the same start both ways, what is left behind must be the same.
    int compare(std::uint32_t domid, std::uint64_t kib) {
        const xenpack_domain d = find(domid);
        const std::uint64_t from_kib = kib > static_max_kib(d) / 2 ? kib / 2 : kib * 2;
        set(domid, from_kib, XENPACK_TARGET_LIBXL, 1, false);
        set(domid, kib, XENPACK_TARGET_SHORT, 1, false);
        const auto by_short = snapshot(d);
        set(domid, from_kib, XENPACK_TARGET_LIBXL, 1, false);
        set(domid, kib, XENPACK_TARGET_LIBXL, 1, false);
        const auto by_libxl = snapshot(d);
        bool same = true;
        for (const auto& [name, value] : by_libxl) {
            const std::string& other = by_short.at(name);
            same = same && other == value;
            fmt::print("compare domid={} {} short={} libxl={} {}\n", domid, name, other, value,
                       other == value ? "same" : "DIFFERENT");
        }
        return same ? 0 : 1;
    }

  private:
    std::string failure(int r) {
        return r == 0 ? "" : std::string(" error=") + ops_->last_error(ts_);
    }

    void check(int r, const char* what) {
        if (r < 0) {
            die(fmt::format("{}: {} ({})", what, ops_->last_error(ts_), r));
        }
    }

    std::vector<xenpack_domain> refresh() {
        std::vector<xenpack_domain> domains(kDomains);
        in_refresh_ = true;
        const int n = ops_->refresh(ts_, domains.data(), domains.size());
        in_refresh_ = false;
        check(n, "refresh");
        domains.resize(std::min(static_cast<std::size_t>(n), kDomains));
        return domains;
    }

    xenpack_domain find(std::uint32_t domid) {
        quiet_ = true;
        for (const xenpack_domain& d : refresh()) {
            if (d.domid == domid) {
                return d;
            }
        }
        die(fmt::format("there is no domain {}", domid));
    }

    std::uint64_t static_max_kib(const xenpack_domain& d) {
        const auto value = store_.read(fmt::format("/local/domain/{}/memory/static-max", d.domid));
        if (!value) {
            die(fmt::format("domain {} has no memory/static-max", d.domid));
        }
        return number(*value);
    }

    std::map<std::string, std::string> snapshot(const xenpack_domain& d) {
        xenpack_domain now{};
        check(ops_->domain(ts_, d.domid, d.uuid, &now), "domain");
        const std::string memory = fmt::format("/local/domain/{}/memory/", d.domid);
        const auto node = [&](const std::string& path) { return store_.read(path).value_or("-"); };
        return {{"limit_kib", fmt::format("{}", now.limit_kib)},
                {"memory/target", node(memory + "target")},
                {"memory/static-max", node(memory + "static-max")},
                {"memory/videoram", node(memory + "videoram")},
                {"vm/memory", node("/vm/" + uuid_text(d.uuid) + "/memory")}};
    }

    static void print(const xenpack_domain& d) {
        fmt::print(
            "domain domid={} uuid={} flags={} reason={} current_kib={} limit_kib={} claimed_kib={} "
            "cpu_ns={} vcpus={}\n",
            d.domid, uuid_text(d.uuid), flag_names(d.flags), d.shutdown_reason, d.current_kib,
            d.limit_kib, d.claimed_kib, d.cpu_time_ns, d.vcpus_online);
    }

    static void on_event(void* user, const xenpack_event* e) {
        const auto* self = static_cast<Probe*>(user);
        if (self->quiet_) {
            return;
        }
        const auto at = std::chrono::duration_cast<milliseconds>(Clock::now() - self->start_);
        fmt::print("event ms={} by={} {} domid={} uuid={} reason={}\n", at.count(),
                   self->in_refresh_ ? "refresh" : "libxl", event_name(e->type), e->domid,
                   uuid_text(e->uuid), e->shutdown_reason);
        std::fflush(stdout);
    }

    static void on_log(void*, xenpack_log_level level, const char* message) {
        if (level <= XENPACK_LOG_WARNING) {
            fmt::print(stderr, "log level={} {}\n", static_cast<int>(level), message);
        }
    }

    PollLoop loop_;
    HostStore store_;
    xenpack_watcher_ops watcher_{XENPACK_TOOLSTACK_VERSION,
                                 PollLoop::ops(),
                                 &loop_,
                                 HostStore::ops(),
                                 &store_,
                                 on_event,
                                 on_log,
                                 this};
    const xenpack_toolstack_ops* ops_ = nullptr;
    xenpack_toolstack* ts_ = nullptr;
    Clock::time_point start_ = Clock::now();
    bool in_refresh_ = false;
    bool quiet_ = false;
};

xenpack_target_way way(const std::string& text) {
    if (text != "short" && text != "libxl") {
        die("the way is short or libxl");
    }
    return text == "short" ? XENPACK_TARGET_SHORT : XENPACK_TARGET_LIBXL;
}

int run(Probe& probe, const std::vector<std::string>& a) {
    const std::string command = a.empty() ? "" : a[0];
    const auto domid = [&] { return static_cast<std::uint32_t>(number(a[1])); };
    const auto is = [&](const char* name, std::size_t least) {
        return command == name && a.size() > least;
    };
    if (is("host", 0)) {
        return probe.host();
    }
    if (is("list", 0)) {
        return probe.list();
    }
    if (is("config", 1)) {
        return probe.config(domid());
    }
    if (is("state", 1)) {
        return probe.state(domid());
    }
    if (is("watch", 1)) {
        const std::uint64_t every = a.size() > 2 ? number(a[2]) : 500;
        return probe.watch(std::chrono::seconds(number(a[1])), milliseconds(every));
    }
    if (is("set", 3)) {
        const std::uint64_t times = a.size() > 4 ? number(a[4]) : 1;
        return probe.set(domid(), number(a[2]), way(a[3]), times, a.size() > 5);
    }
    if (is("limit", 2)) {
        return probe.limit(domid(), number(a[2]));
    }
    if (is("compare", 2)) {
        return probe.compare(domid(), number(a[2]));
    }
    if (is("cost", 0)) {
        return probe.cost({std::istreambuf_iterator<char>(std::cin), {}});
    }
    die("say what to do: host, list, config, state, watch, set, limit, compare or cost");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        die("usage: plugin_probe PLUGIN.so COMMAND ...");
    }
    Probe probe(argv[1]);
    return run(probe, {argv + 2, argv + argc});
}
