// SPDX-License-Identifier: LGPL-2.1-or-later
// WatchedHost: a simulated host and what the watcher keeps of it, in virtual time: the same looks,
// the same order of deeds, the same code that decides. Tests start zones on it, let time pass, make
// things go wrong, and see each change before it is carried out. It decides nothing itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/sim/generate.h"
#include "plugin/sim/host.h"
#include "plugin/sim/reporter.h"
#include "watcher/balance/balance.h"
#include "watcher/config/config.h"
#include "watcher/zones/look.h"

namespace xenpack::test {

inline constexpr std::uint64_t kMib = 1024;  // KiB

struct HostRules {
    std::uint64_t emergency_kib = Config{}.emergency_kib;
    std::optional<std::uint64_t> reserve_kib =
        std::nullopt;  // unset: learned, as the configuration's default
    std::uint64_t start_reserve_kib = 0;
    std::int64_t step_ms = 100;
};

// One zone. Its address is stable until stop().
struct WatchedZone {
    // What is written to xenstore in place of an honest report; nothing: silence.
    using Speech = std::function<std::optional<std::string>(const Report& honest)>;

    Zone zone;
    Ledger::Slot slot = 0;
    sim::Domain* domain = nullptr;
    sim::Reporter reporter;
    Speech speech;  // empty: honest
    bool has_psi = true;

    unsigned grown = 0;        // times its target was raised
    unsigned shrunk = 0;       // and lowered
    unsigned moved_stuck = 0;  // and set to where it was stuck
    std::int64_t last_change_ms = -1;

    [[nodiscard]] unsigned changes() const { return grown + shrunk + moved_stuck; }
    [[nodiscard]] std::uint64_t held_kib() const { return domain->current_kib; }
    [[nodiscard]] std::uint64_t told_kib() const { return domain->target_kib; }
};

// A trace that asks for the same all the time.
[[nodiscard]] std::shared_ptr<const sim::Trace> steady(const sim::Demand& demand);
// That, until `at_ms`, and then `later`, reached at rate_kib_per_s.
[[nodiscard]] std::shared_ptr<const sim::Trace> rising(const sim::Demand& first, std::int64_t at_ms,
                                                       const sim::Demand& later,
                                                       std::uint64_t rate_kib_per_s = 200 * kMib);

class WatchedHost : private Hands {
  public:
    explicit WatchedHost(const sim::HostConfig& config, const HostRules& rules = {});

    // Null where the host has no room.
    WatchedZone* start(const sim::DomainConfig& config, std::shared_ptr<const sim::Trace> trace);
    WatchedZone* start(std::uint64_t memory_mib, std::uint64_t maxmem_mib,
                       std::shared_ptr<const sim::Trace> trace);
    void stop(WatchedZone& zone);
    // A domain of somebody else, who asked nobody. Null where the host has no room.
    sim::Domain* start_unmanaged(std::uint64_t memory_kib);
    void stop_unmanaged(std::uint32_t domid) { host_.destroy(domid); }

    void step();
    void run(std::int64_t ms);
    // Until `done` is so or the time is over; says whether it was.
    bool run_until(const std::function<bool()>& done, std::int64_t most_ms);

    // Asks for room, again in each step until there is: then that much is promised to the one who
    // asked until it is handed over.
    void ask(std::uint64_t kib) { wanted_kib_ = kib; }
    [[nodiscard]] std::uint64_t promised_kib() const { return promised_kib_; }
    void hand_over() { promised_kib_ = 0; }

    [[nodiscard]] sim::Host& host() { return host_; }
    [[nodiscard]] const sim::Host& host() const { return host_; }
    [[nodiscard]] std::int64_t now_ms() const { return host_.now_ms(); }
    [[nodiscard]] const Plan& last_plan() const { return last_plan_; }
    [[nodiscard]] const Ledger& ledger() const { return ledger_; }
    [[nodiscard]] const HostRules& rules() const { return rules_; }
    [[nodiscard]] std::uint64_t looks() const { return looks_; }
    [[nodiscard]] const std::map<std::uint32_t, std::unique_ptr<WatchedZone>>& zones() const {
        return zones_;
    }
    // As after an admin's word, or news from elsewhere.
    void look_soon(WatchedZone& zone) { zone.zone.changed = look_is_due_ = true; }

    // Before a plan is carried out; `view` is what it was made from.
    std::function<void(const HostView& view, const Plan& plan)> on_plan;
    // Before each target is set. False: setting it fails, as a toolstack's call may.
    std::function<bool(WatchedZone& zone, std::uint64_t target_kib)> on_set_target;

  private:
    void listen();
    void hear(WatchedZone& zone, const std::string& untrusted_text);
    void look();
    void look_at(WatchedZone& zone);
    void grant_request(const Plan& plan);
    void apply(const Plan& plan);
    void schedule(const Plan& plan);
    // Hands
    bool set_target(Zone& zone, std::uint64_t target_kib, bool keep_limit) override;
    bool set_limit(Zone& zone, std::uint64_t limit_kib) override;
    void change_done(Zone& zone, const Change& change) override;
    void was_stuck(Zone& zone, std::uint64_t told_kib) override;
    [[nodiscard]] Ledger::Slot free_slot();

    HostRules rules_;
    Config config_;
    sim::Host host_;
    std::map<std::uint32_t, std::unique_ptr<WatchedZone>> zones_;
    std::vector<WatchedZone*> by_slot_;
    Ledger ledger_;  // kept from look to look, as zones come and go
    Plan last_plan_;
    std::uint64_t wanted_kib_ = 0;
    std::uint64_t promised_kib_ = 0;
    std::uint64_t looks_ = 0;
    std::uint8_t uuids_ = 0;
    HostState host_state_ = HostState::plenty;
    bool look_is_due_ = false;
    std::int64_t next_look_ms_ = 0;
};

}  // namespace xenpack::test
