// SPDX-License-Identifier: LGPL-2.1-or-later
// HostStore: the promises of xenpack_store_ops over libxenstore, for programs that try a plugin on
// a real host without the watcher. Blocking, one connection. Not for the product.
#pragma once

#include <optional>
#include <string>

#include "plugin/toolstack.h"

struct xs_handle;

class HostStore {
  public:
    HostStore();
    ~HostStore();
    HostStore(const HostStore&) = delete;
    HostStore& operator=(const HostStore&) = delete;

    // The table to give a plugin, with this store as its `store`.
    static const xenpack_store_ops* ops() noexcept;

    // Nothing where the node does not exist.
    std::optional<std::string> read(const std::string& path);

  private:
    struct Table;

    xs_handle* xs_;
};
