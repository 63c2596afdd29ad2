// SPDX-License-Identifier: LGPL-2.1-or-later
// World: a scenario that runs: the simulated host, its zones' lives from start to end, what libxl
// and the zones write into the store, and what has happened. Owned by the toolstack's table, which
// steps it in real time; tests step it as they like. It decides nothing about memory, and calls no
// one but the store and `say`.
//
// A zone is built in the step that its start falls into, runs from the next one, and shuts down
// when its end has come; one step later it is gone. While it is saved it is paused and busy. A zone
// that does not fit is tried again each second.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/sim/host.h"
#include "plugin/sim/reporter.h"
#include "plugin/sim/scenario.h"
#include "plugin/sim/store.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"
#include "watcher/guest/forking.h"

namespace xenpack::sim {

inline constexpr std::int64_t kStepMs = 100;

class World {
  public:
    using Say = std::function<void(xenpack_log_level, const std::string&)>;

    // Starts what the scenario starts at 0. `store` outlives it.
    World(Scenario scenario, Store& store, Say say);

    // Lets dt_ms pass, best kStepMs at a time.
    void step(std::int64_t dt_ms);
    [[nodiscard]] std::int64_t now_ms() const { return host_.now_ms(); }
    [[nodiscard]] bool lives() const { return !living_.empty(); }
    // Until something may happen: kStepMs while anything lives; nullopt: nothing will.
    [[nodiscard]] std::optional<std::int64_t> next_step_ms() const;
    // What has happened since the last call, dom0's creation first, in order.
    [[nodiscard]] std::vector<xenpack_event> take_events();

    // The calls of plugin/toolstack.h, with their errors.
    using Uuid = std::array<std::uint8_t, 16>;
    [[nodiscard]] xenpack_host host() const;
    [[nodiscard]] std::vector<xenpack_domain> domains() const;
    [[nodiscard]] Expected<xenpack_domain> domain(std::uint32_t domid, const Uuid& uuid) const;
    [[nodiscard]] Expected<xenpack_domain_config> domain_config(std::uint32_t domid,
                                                                const Uuid& uuid) const;
    [[nodiscard]] xenpack_host_books host_books() const;
    [[nodiscard]] Expected<xenpack_domain_books> domain_books(std::uint32_t domid,
                                                              const Uuid& uuid) const;
    struct Target {
        std::uint64_t kib = 0;
        std::uint64_t static_max_kib = 0;
        bool keep_limit = false;
    };
    [[nodiscard]] Expected<void> set_target(std::uint32_t domid, const Uuid& uuid,
                                            const Target& target);
    [[nodiscard]] Expected<void> set_limit(std::uint32_t domid, const Uuid& uuid,
                                           std::uint64_t limit_kib);

    // Templates and forks. `done` is what take_finished() gives back, in a later step: with 0 and
    // what came of a fork, or a negative errno and a sentence.
    using Done =
        std::function<void(int result, const std::string& why, const xenpack_fork_result* fork)>;
    [[nodiscard]] std::vector<std::string> fork_missing() const;
    [[nodiscard]] Expected<void> seal(std::uint32_t domid, const Uuid& uuid,
                                      const std::string& name, std::int64_t timeout_ms, Done done);
    [[nodiscard]] Expected<xenpack_fork_cost> fork_cost(std::uint32_t domid,
                                                        const Uuid& uuid) const;
    struct ForkOrder {
        std::uint32_t template_domid = 0;
        Uuid template_uuid{};
        std::string name;
        Uuid uuid{};
        Store::Writes identity;  // paths below xenpack/fork
        bool paused = false;
    };
    [[nodiscard]] Expected<void> fork(const ForkOrder& order, Done done);
    [[nodiscard]] Expected<void> destroy(std::uint32_t domid, const Uuid& uuid, Done done);
    // What keeps forks whole: a fork is served from the start.
    [[nodiscard]] Expected<void> adopt(std::uint32_t domid, const Uuid& uuid);
    [[nodiscard]] Expected<void> feed(std::uint32_t domid, const Uuid& uuid);
    [[nodiscard]] Expected<void> hold(std::uint32_t domid, const Uuid& uuid);
    [[nodiscard]] Expected<void> let_go(std::uint32_t domid, const Uuid& uuid);
    [[nodiscard]] Expected<void> rename(std::uint32_t domid, const Uuid& uuid,
                                        const std::string& name);
    [[nodiscard]] Expected<void> unpause(std::uint32_t domid, const Uuid& uuid);
    // Calls to be made, in order, of what has ended since the last time.
    [[nodiscard]] std::vector<std::function<void()>> take_finished();
    // All that is under way ends with ECANCELED.
    void cancel();

  private:
    enum class Life {
        to_come,
        built,
        runs,
        saved,
        shut_down,
        suspending,  // to be sealed
        sealing,     // suspended
        sealed,
        ordered,  // a fork without a domain
        forking,  // not complete
        held,     // a fork that was left paused
        gone
    };

    struct Zone {
        Zone(ZonePlan zone_plan, const Uuid& zone_uuid)
            : plan(std::move(zone_plan)),
              uuid(zone_uuid),
              reporter(plan.heartbeat_s, plan.config.guest.brake) {}

        ZonePlan plan;
        Uuid uuid;
        Reporter reporter;
        Life life = Life::to_come;
        Domain* domain = nullptr;  // from built to shut_down
        std::int64_t next_try_ms = 0;
        bool said_why_not = false;
        std::string last_report;
        std::uint64_t lies = 0;

        guest::ForkKept kept;    // by its reporter
        std::string quiet_said;  // what that has written of it
        std::string forked_said;
        std::optional<ForkOrder> order;  // it is a fork
        unsigned holds = 0;              // pauses by hold()
        bool starved_said = false;
        int shutdown_reason = 0;
        std::string new_name;  // once it is sealed
        std::int64_t began_ms = 0;
        std::int64_t deadline_ms = 0;
        Done done;                     // of what is under way
        std::vector<Done> to_destroy;  // it is to go, and these wait for that
    };

    void live(Zone& zone);
    void live_as_template(Zone& zone);
    void live_as_fork(Zone& zone);
    static void settle_pause(Zone& zone);
    void say_low_memory();
    void begin_fork(Zone& zone);
    void complete_fork(Zone& zone);
    void suspended(Zone& zone);
    void sealed(Zone& zone);
    void obey(Zone& zone);
    void obey_step(Zone& zone, const guest::ForkSeen& seen);
    void finish(Zone& zone, int result, const std::string& why,
                const xenpack_fork_result* fork = nullptr);
    void destroy_now(Zone& zone);
    [[nodiscard]] bool name_taken(std::string_view name) const;
    void start(Zone& zone);
    void run(Zone& zone);
    void shut_down(Zone& zone, int reason);
    void bury(Zone& zone);
    void report(Zone& zone);
    [[nodiscard]] static std::optional<std::string> words_of(Zone& zone);
    [[nodiscard]] Expected<void> write_nodes(const Zone& zone);
    void write_dom0();
    void happened(xenpack_event_type type, std::uint32_t domid, const Uuid& uuid, int reason = -1);

    [[nodiscard]] xenpack_domain view_of(const Zone& zone) const;
    [[nodiscard]] xenpack_domain dom0() const;
    [[nodiscard]] Expected<Zone*> find(std::uint32_t domid, const Uuid& uuid) const;
    [[nodiscard]] Expected<Zone*> find_settable(std::uint32_t domid, const Uuid& uuid) const;

    Store& store_;
    Say say_;
    Host host_;
    unsigned cpus_;
    bool sharing_;
    std::uint64_t seen_free_kib_;                 // when that was last looked at
    std::uint64_t low_kib_;                       // at which Xen says so
    std::optional<std::uint64_t> low_again_kib_;  // and at which it takes back the last halving
    std::vector<std::unique_ptr<Zone>> zones_;    // in the scenario's order, and then the forks
    std::map<std::uint32_t, Zone*> living_;       // those with a domain, by domid
    std::vector<xenpack_event> events_;
    std::vector<std::function<void()>> finished_;
};

// The same name has the same uuid in each run, so that what was set for a zone holds in the next.
[[nodiscard]] World::Uuid uuid_of(std::string_view name);
[[nodiscard]] std::string uuid_text(const World::Uuid& uuid);

}  // namespace xenpack::sim
