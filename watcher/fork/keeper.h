// SPDX-License-Identifier: LGPL-2.1-or-later
// Keeper: keeps forks whole when memory runs out: sees them at each look, asks guard.h whom to
// hold, and does it. Forks owns one. It must not decide whom, nor take memory from anybody.
//
// Whom it holds stands in the store, in kHeldPath of the fork: the node is there before the hold
// and goes after its end, so that the next daemon knows whom this one held. Where the node is there
// and the domain runs, nobody holds it: the node goes. Where somebody else unpauses a fork that is
// held (Xen counts pauses, not who made them), it is not held any more, and may be again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "watcher/fork/guard.h"
#include "watcher/store/store.h"
#include "watcher/toolstack/toolstack.h"
#include "watcher/zones/zone.h"

namespace xenpack {

inline constexpr char kHeldPath[] = "xenpack/held";
inline constexpr char kHeldByGuard[] = "guard";

// A fork grows if it has taken so much within so long: less is what an idle kernel does.
inline constexpr std::uint64_t kGrowsKib = 256;
inline constexpr std::int64_t kGrowsWithinMs = 1'000;
// After a fork could not be served, as Xen had no page for that.
inline constexpr std::int64_t kServeAgainMs = 200;
// A look that came late is reckoned with for so long.
inline constexpr std::int64_t kLateWithinMs = 10'000;
// When nobody has been held for so long, it is said to be over: it may come and go.
inline constexpr std::int64_t kKeeperCalmMs = 5'000;
// When none of those that wait has gone on for so long, somebody has to make room; and how often
// that is said, as guests can make it come and go.
inline constexpr std::int64_t kStandstillMs = 10'000;
inline constexpr std::int64_t kStandstillAgainMs = 600'000;

class Keeper {
  public:
    // `fork` is null for what concerns the host.
    using Say = std::function<void(const Zone* fork, bool fault, const std::string& sentence)>;

    // What a look has found besides the forks.
    struct Host {
        std::uint64_t free_kib = 0;  // as in GuardView
        std::uint64_t floor_kib = 0;
        std::uint64_t could_come_kib = 0;
        unsigned cpus = 1;
        // What every fork writes in its first moments: that much says nothing of what it will want.
        std::uint64_t fork_reserve_kib = 0;
    };

    // For status. Times are on the loop's clock.
    struct Waiting {
        bool held = false;
        bool starved = false;
        std::int64_t since_ms = 0;
        std::string why;  // a sentence
    };

    // All outlive it.
    Keeper(Store& store, Toolstack& toolstack, Say say);

    // After each sync of the domains, with all that there are: takes in forks that are new, and
    // sees what others have done to those that it holds.
    void follow(const std::vector<Zone*>& zones, std::int64_t now_ms);
    // After that, once in a look: holds, serves those that are new, feeds and lets go.
    void act(const Host& host, const std::vector<Zone*>& zones, std::int64_t now_ms);
    // How long what was done in the last look took, from what it knew of: as late as that the
    // forks have been held.
    void acted(std::int64_t began_ms, std::int64_t ended_ms);
    // XENPACK_FORK_STARVED.
    void starved(const ZoneKey& key, std::int64_t now_ms);
    void forget(const ZoneKey& key);

    [[nodiscard]] bool has_forks() const { return !kept_.empty(); }
    // It is held, or a processor of it waits for memory: it cannot be asked to hurry.
    [[nodiscard]] bool stands_still(const ZoneKey& key) const;
    // It is paused by the guard, which alone may end that.
    [[nodiscard]] bool holds(const ZoneKey& key) const;
    // Its ring could not be served so far: it must not run.
    [[nodiscard]] bool cannot_serve(const ZoneKey& key) const;
    [[nodiscard]] std::optional<Waiting> waiting(const ZoneKey& key) const;
    // What should be there above the floor for forks, by the last act(); as in GuardPlan.
    struct Wanted {
        std::uint64_t all_kib = 0;
        std::uint64_t waiting_kib = 0;
        std::uint64_t first_kib = 0;
    };
    [[nodiscard]] const Wanted& wanted() const { return wanted_; }
    // Said of forks that wait and of which none goes on; empty: there are none.
    [[nodiscard]] const std::string& standstill() const { return standstill_; }
    // When to act again though nothing happens.
    [[nodiscard]] std::optional<std::int64_t> next_look_ms() const { return next_look_ms_; }

  private:
    struct Kept {
        bool served = false;
        std::int64_t serve_ms = 0;  // when that is to be tried
        bool held = false;
        bool starved = false;
        bool held_said = false;  // since holding has begun
        bool starved_said = false;
        std::int64_t waits_since_ms = 0;
        std::uint64_t last_kib = 0;  // at the last act()
        std::uint64_t base_kib = 0;  // from which growth is counted, and since when
        std::int64_t base_ms = 0;
        std::optional<std::int64_t> grew_ms{};
        std::string fault{};  // said, and nothing has gone well since
    };

    void take_in(const Zone& fork, std::int64_t now_ms);
    void note_others(const Zone& fork, Kept& kept, std::int64_t now_ms);
    [[nodiscard]] static GuardFork view_of(const Zone& fork, Kept& kept, const Host& host,
                                           std::int64_t now_ms);
    void note_held(const Zone& fork, Kept& kept);
    void hold(const Zone& fork, Kept& kept, std::int64_t now_ms);
    std::optional<std::int64_t> serve_all(const std::vector<const Zone*>& forks,
                                          std::int64_t now_ms);
    void serve(const Zone& fork, Kept& kept, std::int64_t now_ms);
    void feed(const Zone& fork, Kept& kept);
    void let_go(const Zone& fork, Kept& kept, std::int64_t now_ms);
    void remove_node(const Zone& fork);
    void fault(const Zone& fork, Kept& kept, const Error& error, const char* during);
    void tell(const GuardPlan& plan, const std::vector<const Zone*>& forks, std::int64_t now_ms);
    void note_standstill(const GuardPlan& plan, const Host& host,
                         const std::vector<const Zone*>& forks, std::int64_t now_ms);

    Store& store_;
    Toolstack& toolstack_;
    Say say_;
    std::map<ZoneKey, Kept> kept_;
    std::set<ZoneKey> starved_early_;  // before they were seen to run
    Wanted wanted_;
    std::uint64_t spendable_kib_ = 0;
    std::optional<std::int64_t> next_look_ms_;
    std::int64_t late_now_ms_ = 0;  // of the last act()
    std::int64_t late_ms_ = 0;      // the most of late, and since when
    std::int64_t late_at_ms_ = 0;
    std::optional<std::int64_t> began_ms_;  // said to have begun, and not to be over
    std::int64_t last_waiting_ms_ = 0;
    std::optional<std::int64_t> none_goes_on_ms_;  // since when, while it is so
    std::optional<std::int64_t> standstill_said_ms_;
    std::string standstill_;
};

}  // namespace xenpack
