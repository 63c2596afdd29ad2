// SPDX-License-Identifier: LGPL-2.1-or-later
// Watcher: look, decide, apply, tell. xenpackd's main owns one and gives it the rooms it works
// with. It carries out what balance/ plans; it must not have opinions of its own.
//
// Everything that may matter ends in look_soon(); the look itself runs once, after the callbacks of
// that round. look() reads the truth from Xen, plans, applies growth that is backed, then shrinks,
// and sets the one timer for the next look if pages or waits are under way.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "watcher/balance/balance.h"
#include "watcher/config/config.h"
#include "watcher/control/control.h"
#include "watcher/fork/forks.h"
#include "watcher/fork/pools.h"
#include "watcher/fork/self_forks.h"
#include "watcher/loop/loop.h"
#include "watcher/publish/journal.h"
#include "watcher/reserve/desk.h"
#include "watcher/zones/look.h"
#include "watcher/zones/overrides.h"
#include "watcher/zones/zones.h"

namespace xenpack {

class Store;

class Watcher final : public Zones::Mediator,
                      public Control::Mediator,
                      public Desk::Mediator,
                      public Forks::Mediator,
                      public Pools::Mediator,
                      public SelfForks::Mediator,
                      private Hands {
  public:
    struct Rooms {
        Loop& loop;
        const PluginObject& plugin;
        Store& store;  // the plugin's
        const Journal& journal;
    };

    // `reload` reads the configuration file again. `failed` is called when the host is lost.
    Watcher(Rooms rooms, Config config, OverridesFile overrides,
            std::function<Expected<Config>()> reload, std::function<void()> failed);
    ~Watcher() override;

    // Attaches to the host and takes the first look.
    [[nodiscard]] Expected<void> start();
    // Decisions are also given to `control` from now on; null: to no one.
    void attach(Control* control) { control_ = control; }
    void look_soon();

    // Control::Mediator
    [[nodiscard]] nlohmann::json status() override;
    [[nodiscard]] Expected<nlohmann::json> account() override;
    [[nodiscard]] Expected<nlohmann::json> cost(const nlohmann::json& asked) override;
    [[nodiscard]] Expected<nlohmann::json> set_zone(const std::string& zone,
                                                    const nlohmann::json& settings) override;
    [[nodiscard]] Expected<void> reload() override;
    [[nodiscard]] Expected<void> reserve(const nlohmann::json& asked,
                                         const Control::Caller& caller) override;
    void caller_gone(std::uint64_t request) override;
    [[nodiscard]] Expected<void> release(std::uint64_t reservation) override;
    [[nodiscard]] Expected<void> make_template(const nlohmann::json& asked,
                                               const Control::Caller& caller) override;
    [[nodiscard]] Expected<void> remove_template(const std::string& name,
                                                 const Control::Caller& caller) override;
    [[nodiscard]] Expected<void> make_forks(const nlohmann::json& asked,
                                            const Control::Caller& caller) override;
    [[nodiscard]] Expected<void> take_fork(const std::string& pool, const nlohmann::json& asked,
                                           const Control::Caller& caller) override;

  private:
    // Desk::Mediator
    void reservations_changed() override { look_soon(); }
    void reservation_said(const std::string& sentence) override;
    void reservation_answered(std::uint64_t caller, const Reservation& reservation,
                              const Expected<void>& granted) override;

    // Forks::Mediator: in watcher_fork.cc
    void forks_changed() override { look_soon(); }
    void fork_news(const ForkNews& news) override;
    [[nodiscard]] Expected<void> ask_memory(std::uint64_t request, std::size_t forks,
                                            const std::string& owner,
                                            std::int64_t wait_ms) override;
    void memory_not_wanted(std::uint64_t request) override;
    void memory_taken(std::uint64_t reservation) override;
    void memory_done(std::uint64_t reservation, bool all_taken) override;
    void template_answered(std::uint64_t caller, const Expected<MadeTemplate>& made) override;
    void removal_answered(std::uint64_t caller, const Expected<void>& removed) override;
    void forks_answered(std::uint64_t caller, const Expected<std::vector<MadeFork>>& made) override;

    // Pools::Mediator: in watcher_pools.cc
    void pools_changed() override { look_soon(); }
    void pool_said(const std::string& sentence) override;
    void take_refused(std::uint64_t caller, const Error& why) override;

    // SelfForks::Mediator: in watcher_pools.cc
    void self_forks_changed() override { look_soon(); }
    void self_fork_said(const Zone& zone, bool fault, const std::string& sentence) override;

    // Zones::Mediator
    void zones_changed() override { look_soon(); }
    void zone_found(const Zone& zone) override;
    void zone_gone(Zone& zone) override;
    void zone_fault(Zone& zone, const std::string& sentence) override;
    void target_was_changed(Zone& zone, std::uint64_t from_kib, std::uint64_t to_kib) override;
    void dom0_was_changed(std::uint64_t from_kib, std::uint64_t to_kib);
    [[nodiscard]] ZoneConfig config_for(const std::string& name) override;

    // Hands
    [[nodiscard]] bool set_target(Zone& zone, std::uint64_t target_kib, bool keep_limit) override;
    [[nodiscard]] bool set_limit(Zone& zone, std::uint64_t limit_kib) override;
    void change_done(Zone& zone, const Change& change) override;
    void was_stuck(Zone& zone, std::uint64_t told_kib) override;

    void look();
    [[nodiscard]] Expected<void> learn();
    [[nodiscard]] HostFacts host_facts(std::int64_t now_ms) const;
    void refresh_views(const HostFacts& facts, std::int64_t now_ms);
    void refresh_view(Zone& zone, const HostFacts& facts, std::int64_t now_ms);
    void forget_view(Zone& zone);
    void note_silence(Zone& zone, std::int64_t now_ms);
    void note_waiting(const Plan& plan);
    // Returns what it has promised to dom0 of the free memory.
    std::uint64_t keep_dom0(const HostView& host, std::int64_t now_ms);
    void note_host(const Plan& decided, std::int64_t now_ms);
    // Starts: in watcher_reserve.cc, and in the order of a look.
    void follow_starts();
    // What is still to come to a domain, without what its reservation holds back for it already.
    [[nodiscard]] std::uint64_t beyond_promise(const Zone& zone, std::uint64_t coming_kib) const;
    void grant_starts(const Plan& decided);
    [[nodiscard]] StartSupply supply() const;
    // With so much kept for forks.
    [[nodiscard]] StartSupply supply_beside(std::uint64_t forks_kib) const;
    [[nodiscard]] nlohmann::json reservations_json() const;
    // Who holds what: in watcher_account.cc.
    struct Counted;
    [[nodiscard]] Expected<Counted> count();
    [[nodiscard]] Expected<Counted> count_once();
    [[nodiscard]] Expected<nlohmann::json> fork_cost(const std::string& name);
    // Templates and forks: in watcher_fork.cc.
    [[nodiscard]] Expected<void> look_at_forks();
    // What the plan promises to zones is not the forks'.
    void guard_forks(const HostView& host, const Plan& decided, std::int64_t now_ms);
    [[nodiscard]] static bool is_for_forks(std::uint64_t caller);
    void forks_memory_answered(std::uint64_t caller, const Reservation& reservation,
                               const Expected<void>& granted);
    [[nodiscard]] std::vector<std::string> host_faults(std::int64_t now_ms) const;
    [[nodiscard]] nlohmann::json templates_json() const;
    [[nodiscard]] nlohmann::json template_json(const Zone& zone) const;
    void add_fork_json(const Zone& zone, nlohmann::json& members) const;
    // Pools, and what forks need of the host: in watcher_pools.cc.
    void say_what_forks_lack();
    [[nodiscard]] nlohmann::json pools_json() const;
    [[nodiscard]] static nlohmann::json taken_json(const MadeFork& fork);
    void schedule(const Plan& plan, std::int64_t now_ms);
    void publish(const Decision& decision);
    void on_host_event(const xenpack_event& event);

    Rooms rooms_;
    Config config_;
    OverridesFile overrides_;
    std::function<Expected<Config>()> read_config_;
    std::function<void()> failed_;
    std::unique_ptr<Toolstack> toolstack_;
    std::unique_ptr<Zones> zones_;
    std::unique_ptr<Desk> desk_;
    std::unique_ptr<Forks> forks_;
    std::unique_ptr<Pools> pools_;
    std::unique_ptr<SelfForks> self_forks_;
    std::vector<std::string> forks_lack_;  // of this host, when that was last asked
    bool lack_warned_ = false;
    std::unique_ptr<Loop::Timer> next_look_;
    Control* control_ = nullptr;
    bool look_is_due_ = false;
    bool looking_ = false;
    Ledger ledger_;
    std::vector<Zone*> by_slot_;         // null: a slot that is free
    std::vector<Ledger::Slot> waiting_;  // by the last plan
    HostState host_state_ = HostState::plenty;
    bool shortage_said_ = false;
    std::int64_t shortage_ms_ = 0;
    xenpack_host host_{};
    std::uint64_t spendable_kib_ = 0;
    std::uint64_t reserve_kib_ = 0;
    std::int64_t dom0_tried_ms_ = 0;
    std::string dom0_reason_;
    std::uint64_t dom0_told_kib_ = 0;  // 0: never
    std::int64_t dom0_hands_until_ms_ = 0;
    std::string dom0_hands_who_;  // as it was found when that began
    std::string dom0_hands_fault_;
    std::string host_fault_;
};

}  // namespace xenpack
