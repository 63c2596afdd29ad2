// SPDX-License-Identifier: LGPL-2.1-or-later
// Loads a plugin and wraps its table. A plugin is never unloaded: its libraries keep state of their
// own and were not made to be.
#include "watcher/toolstack/toolstack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "watcher/loop/loop.h"
#include "watcher/store/own_store.h"
#include "watcher/store/store.h"

namespace xenpack {
namespace {

// Room for a plugin's sentences of what is missing.
constexpr std::size_t kMissingBytes = 4096;

Expected<const xenpack_toolstack_ops*> load_table(const std::string& name) {
    const std::string path =
        name.starts_with('/') ? name : fmt::format("{}/xenpack-{}.so", XENPACK_PLUGIN_DIR, name);
    void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (object == nullptr) {
        const char* reason = dlerror();
        const bool other_libxl = std::strstr(reason, "libxenlight") != nullptr ||
                                 std::strstr(reason, "libxenctrl") != nullptr;
        return fail_with(other_libxl ? ENOEXEC : ENOENT,
                         "cannot load the toolstack plugin {}: {}. {}", path, reason,
                         name == "libxl" ? "Install the xenpack-libxl package built for this Xen"
                                         : "Name an object that is there, by its whole path");
    }
    const auto entry =
        reinterpret_cast<xenpack_toolstack_fn>(dlsym(object, XENPACK_TOOLSTACK_SYMBOL));
    if (entry == nullptr) {
        return fail_with(ENOEXEC, "{} is not a toolstack plugin: it has no symbol {}", path,
                         XENPACK_TOOLSTACK_SYMBOL);
    }
    const xenpack_toolstack_ops* ops = entry();
    if (ops->version != XENPACK_TOOLSTACK_VERSION) {
        return fail_with(ENOEXEC,
                         "{} speaks version {} of the plugin interface, this xenpackd version {}: "
                         "install both from the same release",
                         path, ops->version, XENPACK_TOOLSTACK_VERSION);
    }
    return ops;
}

}  // namespace

// By hand, as it is called for each zone at each look while somebody starts.
std::string to_string(const Uuid& u) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    text.reserve(36);
    for (std::size_t i = 0; i < u.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            text += '-';
        }
        text += kDigits[u[i] >> 4U];
        text += kDigits[u[i] & 0xfU];
    }
    return text;
}

Expected<PluginObject> PluginObject::load(const std::string& name) {
    return load_table(name).map(
        [](const xenpack_toolstack_ops* ops) { return PluginObject(*ops); });
}

Expected<std::unique_ptr<Store>> PluginObject::open_store(Loop& loop,
                                                          std::function<void()> lost) const {
    if (ops_->open_store == nullptr) {
        return Store::connect(loop, std::move(lost));
    }
    const xenpack_own_store* store_ops = nullptr;
    void* store = nullptr;
    std::array<char, 512> error{};
    if (const int r = ops_->open_store(&Loop::plugin_ops(), &loop, &store_ops, &store, error.data(),
                                       error.size());
        r < 0) {
        return fail_with(-r, "{}", error.data());
    }
    return make_own_store(*store_ops, store, ops_->close_store);
}

Expected<std::unique_ptr<Toolstack>> Toolstack::open(const PluginObject& plugin, Loop& loop,
                                                     Store& store, Callbacks callbacks) {
    const xenpack_toolstack_ops& ops = plugin.ops();
    const Store::ForPlugin for_plugin = store.for_plugin();
    std::unique_ptr<Toolstack> toolstack(new Toolstack);
    toolstack->ops_ = &ops;
    toolstack->callbacks_ = std::move(callbacks);
    const xenpack_watcher_ops watcher{
        XENPACK_TOOLSTACK_VERSION,
        &Loop::plugin_ops(),
        &loop,
        for_plugin.ops,
        for_plugin.store,
        [](void* self, const xenpack_event* event) {
            static_cast<Toolstack*>(self)->callbacks_.on_event(*event);
        },
        [](void* self, xenpack_log_level level, const char* message) {
            static_cast<Toolstack*>(self)->callbacks_.log(level, message);
        },
        toolstack.get()};
    std::array<char, 512> error{};
    if (const int r = ops.open(&watcher, &toolstack->ts_, error.data(), error.size()); r < 0) {
        return fail_with(-r, "{}", error.data());
    }
    return toolstack;
}

Toolstack::~Toolstack() {
    if (ops_ != nullptr) {
        ops_->close(ts_);
    }
}

std::string Toolstack::description() const {
    return fmt::format("{} ({})", ops_->name, ops_->built_for);
}

Expected<void> Toolstack::checked(int result) const {
    if (result < 0) {
        return fail_with(-result, "{}", ops_->last_error(ts_));
    }
    return {};
}

Expected<xenpack_host> Toolstack::host() {
    xenpack_host host{};
    return checked(ops_->host(ts_, &host)).map([&] { return host; });
}

Expected<const std::vector<xenpack_domain>*> Toolstack::refresh() {
    for (;;) {
        domains_.resize(std::max<std::size_t>(domains_.capacity(), 16));
        const int n = ops_->refresh(ts_, domains_.data(), domains_.size());
        if (const auto ok = checked(n); !ok) {
            return tl::unexpected(ok.error());
        }
        const auto count = static_cast<std::size_t>(n);
        if (count <= domains_.size()) {
            domains_.resize(count);
            return &domains_;
        }
        domains_.reserve(count + count / 2);
    }
}

Expected<xenpack_domain_config> Toolstack::domain_config(std::uint32_t domid, const Uuid& uuid) {
    xenpack_domain_config config{};
    return checked(ops_->domain_config(ts_, domid, uuid.data(), &config)).map([&] {
        return config;
    });
}

Expected<xenpack_host_books> Toolstack::host_books() {
    xenpack_host_books books{};
    return checked(ops_->host_books(ts_, &books)).map([&] { return books; });
}

Expected<xenpack_domain_books> Toolstack::domain_books(std::uint32_t domid, const Uuid& uuid) {
    xenpack_domain_books books{};
    return checked(ops_->domain_books(ts_, domid, uuid.data(), &books)).map([&] { return books; });
}

Expected<Topology> Toolstack::topology() {
    Topology found;
    xenpack_topology asked{};
    for (;;) {
        found.nodes.resize(asked.nodes_n);
        found.distances.resize(asked.nodes_n * asked.nodes_n);
        found.cpus.resize(asked.cpus_n);
        asked.nodes = found.nodes.data();
        asked.distances = found.distances.data();
        asked.nodes_capacity = found.nodes.size();
        asked.cpus = found.cpus.data();
        asked.cpus_capacity = found.cpus.size();
        const int r = ops_->topology(ts_, &asked);
        if (const auto ok = checked(r); !ok) {
            return tl::unexpected(ok.error());
        }
        if (r == 0) {
            return found;
        }
    }
}

Expected<void> Toolstack::set_target(std::uint32_t domid, const Uuid& uuid,
                                     std::uint64_t target_kib, std::uint64_t static_max_kib,
                                     bool keep_limit, xenpack_target_way way) {
    return checked(ops_->set_target(ts_, domid, uuid.data(), target_kib, static_max_kib,
                                    keep_limit ? 1 : 0, way));
}

Expected<void> Toolstack::set_limit(std::uint32_t domid, const Uuid& uuid,
                                    std::uint64_t limit_kib) {
    return checked(ops_->set_limit(ts_, domid, uuid.data(), limit_kib));
}

Expected<xenpack_start_cost> Toolstack::start_cost(const std::string& config_json) {
    if (ops_->start_cost == nullptr) {
        return fail_with(ENOSYS, "{} cannot tell what a start costs: name its size_kib instead",
                         description());
    }
    xenpack_start_cost cost{};
    return checked(ops_->start_cost(ts_, config_json.c_str(), &cost)).map([&] { return cost; });
}

Expected<void> Toolstack::can_fork() const {
    if (ops_->fork_missing == nullptr) {
        return fail_with(ENOSYS, "{} makes no templates and no forks", description());
    }
    return {};
}

Expected<std::vector<std::string>> Toolstack::fork_missing() {
    if (auto ok = can_fork(); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    std::array<char, kMissingBytes> text{};
    if (auto ok = checked(ops_->fork_missing(ts_, text.data(), text.size())); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    std::vector<std::string> missing;
    std::string_view rest(text.data());
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        if (end > 0) {
            missing.emplace_back(rest.substr(0, end));
        }
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return missing;
}

// The plugin keeps `done`, as its argument, until it has called it; where it refuses at once it
// keeps nothing.
template <class Begin>
Expected<void> Toolstack::begin(Done done, Begin&& begin_it) {
    if (auto ok = can_fork(); !ok) {
        return ok;
    }
    auto kept = std::make_unique<Done>(std::move(done));
    const int r = std::forward<Begin>(begin_it)(
        [](void* arg, int result, const char* why) {
            const std::unique_ptr<Done> call(static_cast<Done*>(arg));
            (*call)(result < 0 ? Expected<void>(fail_with(-result, "{}", why)) : Expected<void>());
        },
        kept.get());
    if (r >= 0) {
        static_cast<void>(kept.release());
    }
    return checked(r);
}

Expected<void> Toolstack::seal(std::uint32_t domid, const Uuid& uuid, const std::string& name,
                               std::uint64_t timeout_ms, Done done) {
    return begin(std::move(done), [&](xenpack_done called, void* arg) {
        return ops_->seal(ts_, domid, uuid.data(), name.c_str(), timeout_ms, called, arg);
    });
}

Expected<xenpack_fork_cost> Toolstack::fork_cost(std::uint32_t domid, const Uuid& uuid) {
    if (auto ok = can_fork(); !ok) {
        return tl::unexpected(std::move(ok.error()));
    }
    xenpack_fork_cost cost{};
    return checked(ops_->fork_cost(ts_, domid, uuid.data(), &cost)).map([&] { return cost; });
}

Expected<void> Toolstack::destroy(std::uint32_t domid, const Uuid& uuid, Done done) {
    return begin(std::move(done), [&](xenpack_done called, void* arg) {
        return ops_->destroy(ts_, domid, uuid.data(), called, arg);
    });
}

Expected<void> Toolstack::rename(std::uint32_t domid, const Uuid& uuid, const std::string& name) {
    if (auto ok = can_fork(); !ok) {
        return ok;
    }
    return checked(ops_->rename(ts_, domid, uuid.data(), name.c_str()));
}

Expected<void> Toolstack::unpause(std::uint32_t domid, const Uuid& uuid) {
    if (auto ok = can_fork(); !ok) {
        return ok;
    }
    return checked(ops_->unpause(ts_, domid, uuid.data()));
}

Expected<void> Toolstack::fork(const ForkRequest& request, ForkDone done) {
    if (auto ok = can_fork(); !ok) {
        return ok;
    }
    std::vector<xenpack_store_write> identity;
    identity.reserve(request.identity.size());
    for (const auto& [path, value] : request.identity) {
        identity.push_back({path.c_str(), value.c_str()});
    }
    xenpack_fork_request plain{};
    plain.template_domid = request.template_domid;
    std::copy(request.template_uuid.begin(), request.template_uuid.end(), plain.template_uuid);
    plain.name = request.name.c_str();
    std::copy(request.uuid.begin(), request.uuid.end(), plain.uuid);
    plain.identity = identity.data();
    plain.identity_n = identity.size();
    plain.paused = request.paused ? 1 : 0;
    auto kept = std::make_unique<ForkDone>(std::move(done));
    const int r = ops_->fork(
        ts_, &plain,
        [](void* arg, int result, const char* why, const xenpack_fork_result* made) {
            const std::unique_ptr<ForkDone> call(static_cast<ForkDone*>(arg));
            (*call)(result < 0 ? Expected<xenpack_fork_result>(fail_with(-result, "{}", why))
                               : Expected<xenpack_fork_result>(*made));
        },
        kept.get());
    if (r >= 0) {
        static_cast<void>(kept.release());
    }
    return checked(r);
}

Expected<int> Toolstack::tell(OfFork call, std::uint32_t domid, const Uuid& uuid) const {
    if (auto ok = can_fork(); !ok) {
        return tl::unexpected(ok.error());
    }
    if (call == nullptr) {
        return fail_with(ENOSYS, "{} does not keep forks whole", description());
    }
    const int r = call(ts_, domid, uuid.data());
    return checked(r).map([r] { return r; });
}

Expected<bool> Toolstack::adopt(std::uint32_t domid, const Uuid& uuid) {
    return tell(ops_->adopt, domid, uuid).map([](int r) { return r > 0; });
}

Expected<void> Toolstack::feed(std::uint32_t domid, const Uuid& uuid) {
    return tell(ops_->feed, domid, uuid).map([](int) {});
}

Expected<void> Toolstack::hold(std::uint32_t domid, const Uuid& uuid) {
    return tell(ops_->hold, domid, uuid).map([](int) {});
}

Expected<void> Toolstack::let_go(std::uint32_t domid, const Uuid& uuid) {
    return tell(ops_->let_go, domid, uuid).map([](int) {});
}

}  // namespace xenpack
