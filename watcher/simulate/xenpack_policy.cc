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
#include "watcher/zones/look.h"

namespace xenpack::simulate {
namespace {

constexpr std::uint64_t kMib = 1024;
// A distribution's kernel and its start need so much, whatever the workload.
constexpr std::uint64_t kBootsWithKib = 96 * kMib;

class XenpackPolicy final : public Policy, private Hands {
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
        host_ = &host;
        HostFacts facts;
        facts.total_kib = host.config().total_kib;
        facts.free_kib = host.free_kib();
        facts.starts_wait_for_kib = wanted_by_start_kib_;
        std::vector<Zone*> by_slot;
        Ledger views;
        for (const auto& domain : host.domains()) {
            const auto found = zones_.find(domain->domid);
            if (found == zones_.end()) {
                continue;
            }
            look_at(*domain, found->second, now_ms);
            Zone& zone = found->second.zone;
            views.put(by_slot.size(), prepare(zone, facts, config_, host_state_, now_ms, *this));
            by_slot.push_back(&zone);
        }
        const Plan decided = plan(host_view(facts, config_, views), views, now_ms);
        host_state_ = decided.state;
        carry_out(decided, by_slot, now_ms, *this);
        next_look_ms_ = decided.look_again_ms.value_or(now_ms + kLongestMs);
        for (const Zone* zone : by_slot) {
            if (zone->wake_ms > now_ms) {
                next_look_ms_ = std::min(next_look_ms_, zone->wake_ms);
            }
        }
    }

    // Hands
    bool set_target(Zone& zone, std::uint64_t target_kib, bool keep_limit) override {
        host_->set_target(*host_->find(zone.key.domid), target_kib, keep_limit);
        ++target_changes_;
        return true;
    }
    bool set_limit(Zone& zone, std::uint64_t limit_kib) override {
        host_->set_limit(*host_->find(zone.key.domid), limit_kib);
        return true;
    }
    void change_done(Zone&, const Change&) override {}
    void was_stuck(Zone&, std::uint64_t) override {}

    // A look without cause, which the daemon would not take.
    static constexpr std::int64_t kLongestMs = 60'000;

    bool brake_;
    Config config_;
    sim::Host* host_ = nullptr;  // during a look
    HostState host_state_ = HostState::plenty;
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
