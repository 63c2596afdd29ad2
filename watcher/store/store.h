// SPDX-License-Identifier: LGPL-2.1-or-later
// Store: the watcher's client of xenstore: reads, guarded writes, watches. xenpackd owns one.
// xenstore.cc is the only file of the watcher that includes xenstore.h; own_store.cc is the same
// for a store that comes with a plugin. It must not interpret values.
//
// A watch says "go and look": its callback learns only that something at or below the path may have
// changed, is called once soon after the watch is set, and may be called when nothing has changed.
//
// Threads: the loop's. Reads and writes block for one round trip to xenstored each.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/toolstack.h"
#include "watcher/error.h"
#include "watcher/store/untrusted.h"

namespace xenpack {

class Loop;

class Store {
  public:
    using Changed = std::function<void()>;

    // A watch; destroying it ends it, also inside a callback. No callback comes after that.
    class Watch {
      public:
        virtual ~Watch() = default;
    };
    using WatchHandle = std::unique_ptr<Watch>;

    // `lost` is called once when xenstored is gone: it cannot be restarted, so the caller must
    // exit.
    [[nodiscard]] static Expected<std::unique_ptr<Store>> connect(Loop& loop,
                                                                  std::function<void()> lost);
    virtual ~Store() = default;

    // nullopt: no such node.
    [[nodiscard]] virtual Expected<std::optional<std::string>> read(const std::string& path) = 0;
    // The same for a node below what a guest may write.
    [[nodiscard]] Expected<std::optional<Untrusted<std::string>>> read_untrusted(
        const std::string& path);
    // In one transaction: writes all of `writes` if `guard_path` holds exactly `guard_value`.
    // Error code ESRCH where it does not.
    [[nodiscard]] virtual Expected<void> write_guarded(
        const std::string& guard_path, const std::string& guard_value,
        const std::vector<std::pair<std::string, std::string>>& writes) = 0;

    // As make, remove and introduce of xenpack_store_ops say.
    struct Node {
        std::string path;
        std::string value;
        xenpack_store_access access = XENPACK_STORE_AS_PARENT;
        std::uint32_t domid = 0;
    };
    [[nodiscard]] virtual Expected<void> make(const std::vector<Node>& nodes) = 0;
    [[nodiscard]] virtual Expected<void> remove(const std::string& path) = 0;
    // The names of the nodes just below one; none where it is not there.
    [[nodiscard]] virtual Expected<std::vector<std::string>> list(const std::string& path) = 0;
    [[nodiscard]] virtual Expected<void> introduce(std::uint32_t domid, std::uint64_t gfn,
                                                   std::uint32_t port) = 0;

    [[nodiscard]] virtual Expected<WatchHandle> watch(const std::string& path, Changed changed) = 0;

    // What the store offers to a plugin: store_ops and `store` of xenpack_watcher_ops. Lives as
    // long as this object.
    struct ForPlugin {
        const xenpack_store_ops* ops;
        void* store;
    };
    [[nodiscard]] virtual ForPlugin for_plugin();
};

// "/local/domain/7/memory/target" for (7, "memory/target").
[[nodiscard]] std::string domain_path(std::uint32_t domid, std::string_view below);

}  // namespace xenpack
