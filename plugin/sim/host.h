// SPDX-License-Identifier: LGPL-2.1-or-later
// Host: a simulated Xen host: its memory, its domains, and each domain's balloon driver with the
// habits of Linux'. Stepped in virtual time by an experiment (watcher/simulate), or by the plugin
// in real time. Deterministic: the same calls give the same host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugin/sim/balloon_driver.h"
#include "plugin/sim/guest.h"

namespace xenpack::sim {

struct HostConfig {
    std::uint64_t total_kib = 0;
    std::uint64_t xen_kib = 0;   // the hypervisor's own
    std::uint64_t dom0_kib = 0;  // fixed
};

struct DomainConfig {
    std::uint64_t memory_kib = 0;      // xl.cfg memory=
    std::uint64_t max_memory_kib = 0;  // xl.cfg maxmem=
    unsigned vcpus = 1;
    GuestConfig guest;
    BalloonConfig balloon;
};

struct Domain {
    std::uint32_t domid = 0;
    DomainConfig config;
    std::uint64_t current_kib = 0;
    std::uint64_t target_kib = 0;    // memory/target
    std::uint64_t limit_kib = 0;     // set by max_mem: the most Xen lets it hold
    std::uint64_t overhead_kib = 0;  // paging pool and what Xen spends on it, not in current
    bool paused = false;
    Guest guest;
    BalloonDriver balloon;
};

class Host {
  public:
    explicit Host(const HostConfig& config);

    // Takes its memory at once. Null where there is not enough, and then nothing was taken.
    [[nodiscard]] Domain* create(const DomainConfig& config, std::shared_ptr<const Trace> trace);
    void destroy(std::uint32_t domid);
    [[nodiscard]] Domain* find(std::uint32_t domid);
    [[nodiscard]] const std::vector<std::unique_ptr<Domain>>& domains() const { return domains_; }

    // As XENPACK_TARGET_SHORT: limit, then target. With keep_limit the limit is not lowered.
    void set_target(Domain& domain, std::uint64_t target_kib, bool keep_limit);
    void set_limit(Domain& domain, std::uint64_t limit_kib);

    void step(std::int64_t dt_ms);
    [[nodiscard]] std::int64_t now_ms() const { return now_ms_; }
    [[nodiscard]] std::uint64_t free_kib() const { return free_kib_; }
    [[nodiscard]] const HostConfig& config() const { return config_; }

    // What Xen takes for such a domain, memory and all (paging pool of 1 MiB a vcpu and 1/256 of
    // maxmem, as libxl sizes it, and a constant).
    [[nodiscard]] static std::uint64_t start_cost_kib(const DomainConfig& config);

  private:
    HostConfig config_;
    std::vector<std::unique_ptr<Domain>> domains_;
    std::uint64_t free_kib_ = 0;
    std::int64_t now_ms_ = 0;
    std::uint32_t next_domid_ = 1;
};

}  // namespace xenpack::sim
