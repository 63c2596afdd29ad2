// SPDX-License-Identifier: LGPL-2.1-or-later
// In the order of a step: the host moves, zones speak, a look is taken if one is due.
#include "tests/unit/watched_host.h"

#include <algorithm>

#include "watcher/zones/follow.h"

namespace xenpack::test {
namespace {

Config config_of(const HostRules& rules) {
    Config config;
    config.emergency_kib = rules.emergency_kib;
    config.start_reserve = {.kib = rules.start_reserve_kib, .percent = {}};
    if (rules.reserve_kib) {
        config.reserve = {.kib = *rules.reserve_kib, .percent = {}};
    }
    return config;
}

}  // namespace

std::shared_ptr<const sim::Trace> steady(const sim::Demand& demand) {
    return std::make_shared<sim::Trace>(sim::Trace{"steady", "a test", {{0, demand}}});
}

std::shared_ptr<const sim::Trace> rising(const sim::Demand& first, std::int64_t at_ms,
                                         const sim::Demand& later, std::uint64_t rate_kib_per_s) {
    const std::uint64_t more = std::max(first.anon_kib, later.anon_kib) -
                               std::min(first.anon_kib, later.anon_kib) + later.cache_kib;
    const auto rise_ms = static_cast<std::int64_t>(more * 1000 / rate_kib_per_s) + 1;
    return std::make_shared<sim::Trace>(sim::Trace{
        "rising",
        "a test",
        {{0, first}, {at_ms, first}, {at_ms + rise_ms, later}, {at_ms + 1'000'000'000, later}}});
}

WatchedHost::WatchedHost(const sim::HostConfig& config, const HostRules& rules)
    : rules_(rules), config_(config_of(rules)), host_(config) {}

WatchedZone* WatchedHost::start(const sim::DomainConfig& config,
                                std::shared_ptr<const sim::Trace> trace) {
    sim::Domain* domain = host_.create(config, std::move(trace));
    if (domain == nullptr) {
        return nullptr;
    }
    auto watched = std::make_unique<WatchedZone>();
    watched->domain = domain;
    watched->slot = free_slot();
    by_slot_[watched->slot] = watched.get();
    Zone& zone = watched->zone;
    zone.key.domid = domain->domid;
    zone.key.uuid.back() = ++uuids_;
    zone.name = "zone" + std::to_string(domain->domid);
    zone.managed = true;
    zone.created_with =
        xenpack_domain_config{domain->config.memory_kib, domain->config.max_memory_kib};
    zone.static_max_kib = domain->config.max_memory_kib;
    look_at(*watched);
    look_is_due_ = true;
    return zones_.emplace(domain->domid, std::move(watched)).first->second.get();
}

WatchedZone* WatchedHost::start(std::uint64_t memory_mib, std::uint64_t maxmem_mib,
                                std::shared_ptr<const sim::Trace> trace) {
    sim::DomainConfig config;
    config.memory_kib = memory_mib * kMib;
    config.max_memory_kib = maxmem_mib * kMib;
    return start(config, std::move(trace));
}

void WatchedHost::stop(WatchedZone& zone) {
    const std::uint32_t domid = zone.domain->domid;
    ledger_.drop(zone.slot);
    by_slot_[zone.slot] = nullptr;
    zones_.erase(domid);
    host_.destroy(domid);
    look_is_due_ = true;
}

sim::Domain* WatchedHost::start_unmanaged(std::uint64_t memory_kib) {
    static const std::shared_ptr<const sim::Trace> nothing = steady({});
    sim::DomainConfig config;
    config.memory_kib = config.max_memory_kib = memory_kib;
    return host_.create(config, nothing);
}

Ledger::Slot WatchedHost::free_slot() {
    const auto found = std::find(by_slot_.begin(), by_slot_.end(), nullptr);
    if (found != by_slot_.end()) {
        return static_cast<Ledger::Slot>(found - by_slot_.begin());
    }
    by_slot_.push_back(nullptr);
    return by_slot_.size() - 1;
}

void WatchedHost::step() {
    host_.step(rules_.step_ms);
    listen();
    if (look_is_due_ || wanted_kib_ > 0 || now_ms() >= next_look_ms_) {
        look();
    }
}

void WatchedHost::run(std::int64_t ms) {
    for (const std::int64_t end_ms = now_ms() + ms; now_ms() < end_ms;) {
        step();
    }
}

bool WatchedHost::run_until(const std::function<bool()>& done, std::int64_t most_ms) {
    for (const std::int64_t end_ms = now_ms() + most_ms; now_ms() < end_ms && !done();) {
        step();
    }
    return done();
}

void WatchedHost::listen() {
    for (const auto& [domid, watched] : zones_) {
        const sim::Domain& domain = *watched->domain;
        if (domain.paused || domain.guest.stats().uptime_ms < domain.config.balloon.boot_ms) {
            continue;
        }
        auto report = watched->reporter.look(domain.guest.stats());
        if (!report) {
            continue;
        }
        if (!watched->has_psi) {
            report->some_us.reset();
            report->full_us.reset();
        }
        const auto text =
            watched->speech ? watched->speech(*report) : std::optional(format_report(*report));
        if (text) {
            hear(*watched, *text);
        }
    }
}

// As Zones does with a report's key.
void WatchedHost::hear(WatchedZone& watched, const std::string& untrusted_text) {
    Zone& zone = watched.zone;
    const auto report = parse_report(untrusted_text);
    zone.changed = true;
    if (!report || report->total_kib > zone.static_max_kib.value_or(0)) {
        zone.garbled_why = report ? "it says it has more than it may have" : report.error().what;
        look_is_due_ = true;
        return;
    }
    const auto& last = zone.pressure.last_report;
    if (last && zone.garbled_why.empty() && last->sequence == report->sequence &&
        last->uptime_ms == report->uptime_ms) {
        return;  // no news
    }
    take_sample(zone, sample_of(*report), now_ms());
    look_is_due_ = true;
}

void WatchedHost::look_at(WatchedZone& watched) {
    const sim::Domain& domain = *watched.domain;
    Zone& zone = watched.zone;
    const std::uint32_t flags = (zone.domain.flags & ~std::uint32_t{XENPACK_DOMAIN_IS_PAUSED}) |
                                (domain.paused ? std::uint32_t{XENPACK_DOMAIN_IS_PAUSED} : 0U);
    zone.changed = zone.changed || zone.domain.flags != flags ||
                   zone.domain.current_kib != domain.current_kib ||
                   zone.domain.limit_kib != domain.limit_kib;
    zone.domain.domid = domain.domid;
    zone.domain.current_kib = domain.current_kib;
    zone.domain.limit_kib = domain.limit_kib;
    zone.domain.flags = flags;
    zone.target_kib = domain.target_kib;
    follow(zone, now_ms());
}

void WatchedHost::look() {
    ++looks_;
    look_is_due_ = false;
    HostFacts facts;
    facts.total_kib = host_.config().total_kib;
    facts.free_kib = host_.free_kib();
    facts.promised_to_starts_kib = promised_kib_;
    facts.starts_wait_for_kib = wanted_kib_;
    for (const auto& [domid, watched] : zones_) {
        look_at(*watched);
        Zone& zone = watched->zone;
        if (zone.changed || now_ms() >= zone.view_until_ms) {
            ledger_.put(watched->slot, prepare(zone, facts, config_, host_state_, now_ms(), *this));
        }
    }
    const HostView view = host_view(facts, config_, ledger_);
    last_plan_ = plan(view, ledger_, now_ms());
    if (on_plan) {
        on_plan(view, last_plan_);
    }
    apply(last_plan_);
    grant_request(last_plan_);
    if (host_state_ == HostState::plenty && last_plan_.state != HostState::plenty) {
        for (const auto& [domid, watched] : zones_) {
            watched->zone.changed = true;
        }
    }
    host_state_ = last_plan_.state;
    schedule(last_plan_);
}

// Of what zones have left.
void WatchedHost::grant_request(const Plan& decided) {
    if (wanted_kib_ > 0 && wanted_kib_ <= decided.left_kib) {
        promised_kib_ += wanted_kib_;
        wanted_kib_ = 0;
    }
}

void WatchedHost::apply(const Plan& decided) {
    std::vector<Zone*> by_slot;
    for (WatchedZone* watched : by_slot_) {
        by_slot.push_back(watched == nullptr ? nullptr : &watched->zone);
    }
    carry_out(decided, by_slot, now_ms(), *this);
    for (const auto& [domid, watched] : zones_) {
        watched->zone.waiting = false;
    }
    for (const Ledger::Slot slot : decided.waiting) {
        by_slot_[slot]->zone.waiting = true;
    }
}

bool WatchedHost::set_target(Zone& zone, std::uint64_t target_kib, bool keep_limit) {
    WatchedZone& watched = *zones_.at(zone.key.domid);
    if (on_set_target && !on_set_target(watched, target_kib)) {
        return false;
    }
    host_.set_target(*watched.domain, target_kib, keep_limit);
    watched.last_change_ms = now_ms();
    return true;
}

bool WatchedHost::set_limit(Zone& zone, std::uint64_t limit_kib) {
    host_.set_limit(*zones_.at(zone.key.domid)->domain, limit_kib);
    return true;
}

void WatchedHost::change_done(Zone& zone, const Change& change) {
    WatchedZone& watched = *zones_.at(zone.key.domid);
    ++(change.to_kib > change.from_kib ? watched.grown : watched.shrunk);
}

void WatchedHost::was_stuck(Zone& zone, std::uint64_t /*told_kib*/) {
    ++zones_.at(zone.key.domid)->moved_stuck;
}

void WatchedHost::schedule(const Plan& decided) {
    constexpr std::int64_t kNever = std::int64_t{1} << 62;
    std::int64_t next_ms = decided.look_again_ms.value_or(kNever);
    const auto consider = [&](std::int64_t at_ms) {
        if (at_ms > now_ms()) {
            next_ms = std::min(next_ms, at_ms);
        }
    };
    for (const auto& [domid, watched] : zones_) {
        consider(watched->zone.wake_ms);
    }
    next_look_ms_ = next_ms;
}

}  // namespace xenpack::test
