// SPDX-License-Identifier: LGPL-2.1-or-later
// Host: a simulated Xen host: its memory, its domains, and each domain's balloon driver with the
// habits of Linux'. Stepped in virtual time by an experiment (watcher/simulate), or by the plugin
// in real time. Deterministic: the same calls give the same host.
//
// Promised after every call: free + xen + dom0 + the sum of current and overhead of all domains is
// the total; no current is over the host's or the domain's most.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
    std::uint64_t max_memory_kib = 0;  // xl.cfg maxmem=; at least memory_kib is used
    unsigned vcpus = 1;
    GuestConfig guest;  // its static_max_kib is set by the host
    BalloonConfig balloon;
    // What a fork of it writes each second, over memory that it shares, until all is its own;
    // beside what its workload asks for.
    std::uint64_t fork_writes_kib_per_s = 0;
};

// A fork's memory is its template's until it writes: a page that it has written is its own, and
// Xen's free memory has one less.
struct ForkState {
    std::uint64_t shared_kib = 0;
    std::uint64_t used_before_kib = 0;  // by its guest when it was forked
    std::int64_t age_ms = 0;            // for which it has run
    bool starved = false;  // it writes where Xen had no page to give, and waits until it is fed
};

struct Domain {
    std::uint32_t domid = 0;
    DomainConfig config;
    std::uint64_t current_kib = 0;
    std::uint64_t target_kib = 0;    // memory/target
    std::uint64_t limit_kib = 0;     // set by max_mem: the most Xen lets it hold
    std::uint64_t overhead_kib = 0;  // paging pool and what Xen spends on it, not in current
    bool paused = false;             // neither its guest nor its driver runs
    Guest guest;
    BalloonDriver balloon;
    std::optional<ForkState> fork{};  // it is one

    // What its guest takes for its memory.
    [[nodiscard]] std::uint64_t held_kib() const {
        return current_kib + (fork ? fork->shared_kib : 0);
    }
};

// libxl keeps the limit this much over the target (LIBXL_MAXMEM_CONSTANT).
inline constexpr std::uint64_t kLimitSlackKib = 1024;

class Host {
  public:
    // libxl's slack for a PVH or HVM guest (LIBXL_HVM_EXTRA_MEMORY): Xen's records, grant tables,
    // rings.
    static constexpr std::uint64_t kRecordsKib = 2048;

    // Xen's and dom0's memory is cut to the total where it is over.
    explicit Host(const HostConfig& config);

    // Takes its memory at once. Null where there is not enough, and then nothing was taken. Domids
    // ascend from 1 and are never used again. The pointer lives until destroy(). Sizes are cut to
    // whole pages.
    [[nodiscard]] Domain* create(const DomainConfig& config, std::shared_ptr<const Trace> trace);
    // A copy of a domain that does not run, at that moment of its life; its memory is shared. Null
    // as above. The template must stay while it has forks.
    [[nodiscard]] Domain* fork(const Domain& source);
    // Gives back all of its memory at once. Nothing where there is no such domain.
    void destroy(std::uint32_t domid);
    [[nodiscard]] Domain* find(std::uint32_t domid);
    // In ascending domid.
    [[nodiscard]] const std::vector<std::unique_ptr<Domain>>& domains() const { return domains_; }

    // What a fork that is starved waits for is tried again.
    static void feed(Domain& domain);

    // As XENPACK_TARGET_SHORT: limit, then target. With keep_limit the limit is not lowered.
    void set_target(Domain& domain, std::uint64_t target_kib, bool keep_limit);
    // As set_limit() of a plugin: kLimitSlackKib is added. May go below what the domain holds:
    // then it keeps that and gets no more.
    void set_limit(Domain& domain, std::uint64_t limit_kib);

    // The driver of each domain moves, then its guest runs; in ascending domid.
    void step(std::int64_t dt_ms);
    [[nodiscard]] std::int64_t now_ms() const { return now_ms_; }
    [[nodiscard]] std::uint64_t free_kib() const { return free_kib_; }
    [[nodiscard]] const HostConfig& config() const { return config_; }

    // What a fork of such a domain takes at once.
    [[nodiscard]] static std::uint64_t fork_cost_kib(const DomainConfig& config);
    // What Xen takes for such a domain, memory and all (paging pool of 1 MiB a vcpu and 1/256 of
    // maxmem, as libxl sizes it, and a constant).
    [[nodiscard]] static std::uint64_t start_cost_kib(const DomainConfig& config);

  private:
    void run_balloon(Domain& domain, std::int64_t dt_ms);
    void write_pages(Domain& domain, std::int64_t dt_ms);

    HostConfig config_;
    std::vector<std::unique_ptr<Domain>> domains_;
    std::uint64_t free_kib_ = 0;
    std::int64_t now_ms_ = 0;
    std::uint32_t next_domid_ = 1;
};

}  // namespace xenpack::sim
