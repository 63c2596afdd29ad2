// SPDX-License-Identifier: LGPL-2.1-or-later
// Store: a xenstore in memory, with watches: what a simulated host has in place of xenstored.
// The toolstack's table makes one in open_store(); the plugin writes what libxl and guests would,
// the watcher reads, writes and watches through own_store_ops(). It must not interpret values.
//
// As in xenstored: parents of a written node come to be, empty; a write or removal tells the
// watches at and above its path, a removal also those on nodes that go with it; a new watch is told
// once. Each write is told by itself, in order, up to kMostDue a watch that nobody has seen yet:
// since what is told is "go and look", later ones are told by those. Permissions, quotas per guest
// and transactions that span calls are not simulated.
//
// Watches are called by the loop, never inside a call. A callback may call anything here, and end
// any watch. Threads: the loop's. Destroying the store ends all watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/toolstack.h"

namespace xenpack::sim {

// Of xenstored's protocol: XENSTORE_PAYLOAD_MAX and XENSTORE_ABS_PATH_MAX of xs_wire.h.
inline constexpr std::size_t kMostValueBytes = 4096;
inline constexpr std::size_t kMostPathBytes = 3072;
inline constexpr std::size_t kMostNodes = 1'000'000;
inline constexpr unsigned kMostDue = 64;

class Store {
  public:
    // `loop_ops` and `loop` outlive it.
    Store(const xenpack_loop_ops& loop_ops, void* loop);
    ~Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    using Writes = std::vector<std::pair<std::string, std::string>>;  // paths and values

    // All of them or none. 0; -EINVAL: a path that xenstored would refuse; -E2BIG: a value that is
    // too long; -ENOSPC: too many nodes; -ENOMEM. Throws std::bad_alloc.
    int write(const Writes& writes);
    // The same if `guard_path` holds exactly `guard_value`, else -ESRCH.
    int write_guarded(std::string_view guard_path, std::string_view guard_value,
                      const Writes& writes);
    // The node and all below it. Nothing where there is none, and never "/".
    void remove(std::string_view path);
    // Null: no such node. Valid until the next write or removal.
    [[nodiscard]] const std::string* read(std::string_view path) const;
    // The names of the nodes just below one, in order.
    [[nodiscard]] std::vector<std::string> list(std::string_view path) const;
    // Tells the watches on a special path, "@introduceDomain" or "@releaseDomain".
    void announce(std::string_view special);

    struct Watch;
    // `changed` is called with `arg`. Null where the path is none (-EINVAL) or memory is short
    // (-ENOMEM), with the reason in *error_r. Ends with unwatch(), or with the store.
    Watch* watch(std::string_view path, void (*changed)(void*), void* arg, int* error_r);
    void unwatch(Watch* watch) noexcept;

    [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }

  private:
    using Nodes = std::map<std::string, std::string, std::less<>>;

    [[nodiscard]] int check(const Writes& writes) const;
    void stage(std::string_view path, std::string value, Nodes& staged) const;
    void find_watches_above(std::string_view path, std::vector<Watch*>& found) const;
    void tell(std::span<Watch* const> watches);
    [[nodiscard]] int arm() noexcept;
    void deliver() noexcept;

    const xenpack_loop_ops& loop_ops_;
    void* loop_;
    void* timeout_ = nullptr;
    Nodes nodes_;  // by whole path: what is below a node follows it, and nothing recurses
    std::map<std::string, std::vector<std::unique_ptr<Watch>>, std::less<>> watches_;
    std::deque<Watch*> queue_;  // one entry for each call that is due
};

// The table for a `store` that is a Store. Static.
[[nodiscard]] const xenpack_own_store& own_store_ops();

}  // namespace xenpack::sim
