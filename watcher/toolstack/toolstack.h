// SPDX-License-Identifier: LGPL-2.1-or-later
// Toolstack: a plugin attached to its host; the one way the watcher reaches a host.
// xenpackd loads the plugin, the watcher owns one of these. The contracts of its calls stand in
// plugin/toolstack.h; here they return Expected, with Error::code holding the positive errno. It
// must not decide anything.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class Loop;
class Store;

using Uuid = std::array<std::uint8_t, 16>;

// "6f1a...-..." in the form xl prints.
[[nodiscard]] std::string to_string(const Uuid& uuid);

// A plugin's object, loaded: what it can do is known before it is attached to a host. It stays
// loaded for good.
class PluginObject {
  public:
    // `name` is a plugin's name ("libxl": PLUGIN_DIR/xenpack-libxl.so) or an absolute path.
    // Error code ENOEXEC: it does not fit this hypervisor.
    [[nodiscard]] static Expected<PluginObject> load(const std::string& name);
    // A table that is linked in (tests). It outlives this and the toolstack.
    explicit PluginObject(const xenpack_toolstack_ops& ops) : ops_(&ops) {}

    // The host's store: the plugin's own where it brings one, else xenstored's. `lost` is called
    // once when xenstored is gone. Called once for each Toolstack, which the store must outlive.
    [[nodiscard]] Expected<std::unique_ptr<Store>> open_store(Loop& loop,
                                                              std::function<void()> lost) const;
    [[nodiscard]] const xenpack_toolstack_ops& ops() const { return *ops_; }

  private:
    const xenpack_toolstack_ops* ops_;
};

// As xenpack_fork_request. The paths of `identity` are relative to the fork's xenpack/fork.
struct ForkRequest {
    std::uint32_t template_domid = 0;
    Uuid template_uuid{};
    std::string name;
    Uuid uuid{};
    std::vector<std::pair<std::string, std::string>> identity;
    bool paused = false;
};

// As xenpack_topology, with as much as there is.
struct Topology {
    std::vector<xenpack_node> nodes;
    std::vector<std::uint32_t> distances;  // node N's begin at N * nodes.size()
    std::vector<xenpack_cpu> cpus;
};

class Toolstack {
  public:
    struct Callbacks {
        std::function<void(const xenpack_event&)> on_event;
        std::function<void(xenpack_log_level, const char*)> log;
    };

    // Error code ENOEXEC: the plugin does not fit this hypervisor; EINVAL: what it was told to do
    // is wrong.
    [[nodiscard]] static Expected<std::unique_ptr<Toolstack>> open(const PluginObject& plugin,
                                                                   Loop& loop, Store& store,
                                                                   Callbacks callbacks);
    ~Toolstack();
    Toolstack(const Toolstack&) = delete;
    Toolstack& operator=(const Toolstack&) = delete;

    [[nodiscard]] std::string description() const;  // "libxl (Xen 4.17)"

    [[nodiscard]] Expected<xenpack_host> host();
    // The list is valid until the next call.
    [[nodiscard]] Expected<const std::vector<xenpack_domain>*> refresh();
    [[nodiscard]] Expected<xenpack_domain_config> domain_config(std::uint32_t domid,
                                                                const Uuid& uuid);
    // For accounting.
    [[nodiscard]] Expected<xenpack_host_books> host_books();
    [[nodiscard]] Expected<xenpack_domain_books> domain_books(std::uint32_t domid,
                                                              const Uuid& uuid);
    [[nodiscard]] Expected<Topology> topology();
    [[nodiscard]] Expected<void> set_target(std::uint32_t domid, const Uuid& uuid,
                                            std::uint64_t target_kib, std::uint64_t static_max_kib,
                                            bool keep_limit, xenpack_target_way way);
    // ENOSYS: this host cannot tell.
    [[nodiscard]] Expected<xenpack_start_cost> start_cost(const std::string& config_json);
    [[nodiscard]] Expected<void> set_limit(std::uint32_t domid, const Uuid& uuid,
                                           std::uint64_t limit_kib);

    // What forks need and this host has not, a sentence each: none, and there can be forks.
    [[nodiscard]] Expected<std::vector<std::string>> fork_missing();

    // These begin something. A failure returned is all there is: `done` is then never called. Else
    // it is called once, in the loop, never inside the call; destroying this calls it with
    // ECANCELED for what is under way. It may begin the next, but not destroy this.
    using Done = std::function<void(Expected<void>)>;
    using ForkDone = std::function<void(Expected<xenpack_fork_result>)>;
    // ETIMEDOUT: it did not suspend in time and runs on; ENOTSUP: it cannot be a template.
    [[nodiscard]] Expected<void> seal(std::uint32_t domid, const Uuid& uuid,
                                      const std::string& name, std::uint64_t timeout_ms, Done done);
    // EINVAL: it is no sealed template.
    [[nodiscard]] Expected<xenpack_fork_cost> fork_cost(std::uint32_t domid, const Uuid& uuid);
    // ENOMEM: Xen has not enough memory; EEXIST: the name is taken.
    [[nodiscard]] Expected<void> fork(const ForkRequest& request, ForkDone done);
    [[nodiscard]] Expected<void> destroy(std::uint32_t domid, const Uuid& uuid, Done done);

    // What keeps forks whole when memory runs out.
    // True: it is paused since its watcher ended, and is to be let go as one that was held.
    [[nodiscard]] Expected<bool> adopt(std::uint32_t domid, const Uuid& uuid);
    [[nodiscard]] Expected<void> feed(std::uint32_t domid, const Uuid& uuid);
    // These are to be paired.
    [[nodiscard]] Expected<void> hold(std::uint32_t domid, const Uuid& uuid);
    [[nodiscard]] Expected<void> let_go(std::uint32_t domid, const Uuid& uuid);

    // EEXIST: the name is taken.
    [[nodiscard]] Expected<void> rename(std::uint32_t domid, const Uuid& uuid,
                                        const std::string& name);
    // EINVAL: it is not paused.
    [[nodiscard]] Expected<void> unpause(std::uint32_t domid, const Uuid& uuid);

  private:
    Toolstack() = default;
    Expected<void> checked(int result) const;
    Expected<void> can_fork() const;
    using OfFork = int (*)(xenpack_toolstack*, std::uint32_t, const std::uint8_t*);
    Expected<int> tell(OfFork call, std::uint32_t domid, const Uuid& uuid) const;
    template <class Begin>
    Expected<void> begin(Done done, Begin&& begin_it);

    const xenpack_toolstack_ops* ops_ = nullptr;
    xenpack_toolstack* ts_ = nullptr;
    Callbacks callbacks_;
    std::vector<xenpack_domain> domains_;
};

}  // namespace xenpack
