// SPDX-License-Identifier: LGPL-2.1-or-later
// OwnStore: class Store over a store that a plugin brings along (xenpack_own_store of
// plugin/toolstack.h), where there is no xenstored. Made by PluginObject::open_store(), owned by
// xenpackd. It must outlive the toolstack, which is given the plugin's handle back.
#pragma once

#include <functional>
#include <memory>

#include "plugin/toolstack.h"
#include "watcher/store/store.h"

namespace xenpack {

// `close` is called with `store` when the result is destroyed.
[[nodiscard]] std::unique_ptr<Store> make_own_store(const xenpack_own_store& ops, void* store,
                                                    std::function<void(void*)> close);

}  // namespace xenpack
