// SPDX-License-Identifier: LGPL-2.1-or-later
// Each simulated zone has a reporter that looks when the real one would; each step has a look when
// the real watcher would take one.
#include "watcher/simulate/xenpack_policy.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "plugin/sim/reporter.h"
#include "watcher/balance/balance.h"
#include "watcher/config/config.h"
#include "watcher/simulate/static_policy.h"
#include "watcher/zones/follow.h"
#include "watcher/zones/zone.h"

namespace xenpack::simulate {
namespace {

constexpr std::uint64_t kMib = 1024;
// A distribution's kernel and its start need so much, whatever the workload.
constexpr std::uint64_t kBootsWithKib = 96 * kMib;

class XenpackPolicy final : public Policy {
  public:
    XenpackPolicy(Config config, bool brake) : brake_(brake), config_(std::move(config)) {}

    [[nodiscard]] std::string_view name() const override {
        return brake_ ? "xenpack+brake" : "xenpack";
    }

    // As xenpack(1) says: maxmem is what it would have as a fixed size, memory a quarter of it, but
    // not less than the floor and what a kernel starts with.
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override {
        sim::DomainConfig config;
        config.max_memory_kib = (size_for_peak_kib(peak_kib) + kMib - 1) / kMib * kMib;
        config.memory_kib =
            std::max({config.max_memory_kib / 4, floor_for_size_kib(config.max_memory_kib),
                      std::min(kBootsWithKib, config.max_memory_kib)}) /
            kMib * kMib;
        config.guest.brake = brake_;
        return config;
    }

    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override {
        Managed& managed = zones_[domain.domid];
        managed.reporter = sim::Reporter(30, brake_);
        managed.zone.key.domid = domain.domid;
        managed.zone.managed = true;
        managed.zone.created_with =
            xenpack_domain_config{domain.config.memory_kib, domain.config.max_memory_kib};
        managed.zone.static_max_kib = domain.config.max_memory_kib;
        look_at(domain, managed, now_ms);
        look_is_due_ = true;
    }

    void zone_gone(std::uint32_t domid) override {
        zones_.erase(domid);
        look_is_due_ = true;
    }

    void step(sim::Host& host, std::int64_t now_ms) override {
        listen(host, now_ms);
        if (look_is_due_ || now_ms >= next_look_ms_) {
            look(host, now_ms);
        }
        wanted_by_start_kib_ = 0;  // whoever still waits asks again
    }

    [[nodiscard]] std::uint64_t target_changes() const override { return target_changes_; }

    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override {
        const std::uint64_t usable_kib = spendable_kib(host);
        if (usable_kib >= cost_kib) {
            return true;
        }
        wanted_by_start_kib_ = cost_kib;
        look_is_due_ = true;
        return false;
    }

  private:
    struct Managed {
        Zone zone;
        sim::Reporter reporter;
        std::optional<std::int64_t> booted_ms;
    };

    static void look_at(const sim::Domain& domain, Managed& managed, std::int64_t now_ms) {
        Zone& zone = managed.zone;
        zone.domain.domid = domain.domid;
        zone.domain.current_kib = domain.current_kib;
        zone.domain.limit_kib = domain.limit_kib;
        zone.domain.flags = domain.paused ? std::uint32_t{XENPACK_DOMAIN_IS_PAUSED} : 0U;
        zone.target_kib = domain.target_kib;
        follow(zone, now_ms);
    }

    void listen(sim::Host& host, std::int64_t now_ms) {
        for (const auto& domain : host.domains()) {
            const auto found = zones_.find(domain->domid);
            if (found == zones_.end() || domain->paused ||
                domain->guest.stats().uptime_ms < domain->config.balloon.boot_ms) {
                continue;
            }
            if (const auto report = found->second.reporter.look(domain->guest.stats())) {
                take_sample(found->second.zone, sample_of(*report), now_ms);
                look_is_due_ = true;
            }
        }
    }

    [[nodiscard]] std::uint64_t spendable_kib(const sim::Host& host) const {
        std::uint64_t pending_kib = config_.emergency_kib;
        for (const auto& domain : host.domains()) {
            pending_kib += domain->target_kib - std::min(domain->target_kib, domain->current_kib);
        }
        return host.free_kib() - std::min(host.free_kib(), pending_kib);
    }

    void look(sim::Host& host, std::int64_t now_ms) {
        look_is_due_ = false;
        std::vector<Managed*> managed;
        std::vector<sim::Domain*> domains;
        Ledger views;
        for (const auto& domain : host.domains()) {
            const auto found = zones_.find(domain->domid);
            if (found == zones_.end()) {
                continue;
            }
            look_at(*domain, found->second, now_ms);
            Zone& zone = found->second.zone;
            excuse(zone, host.free_kib(), config_.emergency_kib, now_ms);
            if (const auto holds = target_if_stuck_kib(zone, now_ms)) {
                set_target(host, *domain, zone, *holds, false, now_ms);
            }
            managed.push_back(&found->second);
            domains.push_back(domain.get());
            views.put(managed.size() - 1, view_of(zone, now_ms));
        }
        HostView view;
        view.free_kib = host.free_kib();
        view.reserve_kib = learned_reserve_kib(views, host.config().total_kib);
        view.emergency_kib = config_.emergency_kib;
        view.start_reserve_kib = config_.start_reserve.of(host.config().total_kib);
        view.reserve_kib = std::max(view.reserve_kib, view.emergency_kib + view.start_reserve_kib);
        view.wanted_by_starts_kib = wanted_by_start_kib_;
        const Plan decided = plan(view, views, now_ms);
        for (const Change& change : decided.grow) {
            set_target(host, *domains[change.zone], managed[change.zone]->zone, change.to_kib,
                       false, now_ms);
            managed[change.zone]->zone.last_grow_ms = now_ms;
        }
        for (const Change& change : decided.shrink) {
            set_target(host, *domains[change.zone], managed[change.zone]->zone, change.to_kib, true,
                       now_ms);
            managed[change.zone]->zone.last_shrink_ms = now_ms;
        }
        next_look_ms_ = decided.look_again_ms.value_or(now_ms + kLongestMs);
        for (Managed* one : managed) {
            if (grace_ends_ms(one->zone) > now_ms) {
                next_look_ms_ = std::min(next_look_ms_, grace_ends_ms(one->zone));
            }
            if (one->zone.progress.stuck_until_ms > now_ms) {
                next_look_ms_ = std::min(next_look_ms_, one->zone.progress.stuck_until_ms);
            }
        }
    }

    void set_target(sim::Host& host, sim::Domain& domain, Zone& zone, std::uint64_t target_kib,
                    bool keep_limit, std::int64_t now_ms) {
        host.set_target(domain, target_kib, keep_limit);
        zone.target_kib = target_kib;
        zone.progress = advance(zone.progress, target_kib, domain.current_kib, now_ms);
        ++target_changes_;
    }

    // A look without cause, which the daemon would not take.
    static constexpr std::int64_t kLongestMs = 60'000;

    bool brake_;
    Config config_;
    std::map<std::uint32_t, Managed> zones_;
    bool look_is_due_ = false;
    std::int64_t next_look_ms_ = 0;
    std::uint64_t wanted_by_start_kib_ = 0;
    std::uint64_t target_changes_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_xenpack_policy() {
    return make_xenpack_policy(Config{}, false);
}

std::unique_ptr<Policy> make_xenpack_brake_policy() {
    return make_xenpack_policy(Config{}, true);
}

std::unique_ptr<Policy> make_xenpack_policy(const Config& config, bool brake) {
    return std::make_unique<XenpackPolicy>(config, brake);
}

}  // namespace xenpack::simulate
