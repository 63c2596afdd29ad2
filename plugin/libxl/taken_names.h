// SPDX-License-Identifier: LGPL-2.1-or-later
// TakenNames: whether a domain has a name. libxl asks the store for every domain's; so many forks
// would mean so many times so many round trips, so what was read is remembered for ten seconds.
// Called by Sealing and Forking. It must not decide what to do about it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

#include "plugin/libxl/hypervisor.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

// INVALID_DOMID, which C++ finds signed.
inline constexpr std::uint32_t kNoDomain = ~std::uint32_t{0};

class TakenNames {
  public:
    // Both must outlive this.
    TakenNames(const xenpack_watcher_ops& watcher, Hypervisor& xen)
        : watcher_{watcher}, xen_{xen} {}

    // By another domain than `except`.
    Expected<bool> is_taken(const std::string& name, std::uint32_t except);

  private:
    using Clock = std::chrono::steady_clock;
    // A domain that is created is seen at once, one that is renamed after this.
    static constexpr std::chrono::milliseconds kFresh{10000};
    struct Name {
        std::array<std::uint8_t, 16> uuid{};
        std::string name;
        Clock::time_point read_at;
    };

    Expected<void> look();

    const xenpack_watcher_ops& watcher_;
    Hypervisor& xen_;
    std::map<std::uint32_t, Name> names_;  // by domid
};

}  // namespace xenpack
