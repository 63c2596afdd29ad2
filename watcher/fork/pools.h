// SPDX-License-Identifier: LGPL-2.1-or-later
// Pools: keeps forks standing ready, as the configuration's [pool NAME] say, and hands them out.
// The watcher owns one and has it look after Forks has. How many are made and given up is pool.h's
// to say; making, handing out and taking away are Forks'. Who belongs to a pool stands in the
// store.
//
// What it promises: nothing is polled; of one cause one line is said; who waits for a fork gets the
// next, first come, first served, or is told why there will be none.
//
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watcher/config/config.h"
#include "watcher/fork/forks.h"
#include "watcher/fork/pool.h"
#include "watcher/loop/loop.h"
#include "watcher/zones/zones.h"

namespace xenpack {

// For status.
struct PoolState {
    PoolConfig config;
    PoolSeen seen;
    std::string why_not;  // it is not full; empty: it is, or is about to be
};

class Pools {
  public:
    class Mediator {
      public:
        virtual ~Mediator() = default;
        // Look soon, and call follow().
        virtual void pools_changed() = 0;
        // For the journal.
        virtual void pool_said(const std::string& sentence) = 0;
        // To one who waited for a fork and gets none.
        virtual void take_refused(std::uint64_t caller, const Error& why) = 0;
    };

    // All must outlive it.
    Pools(Loop& loop, Zones& zones, Forks& forks, Mediator& mediator);
    ~Pools();
    Pools(const Pools&) = delete;
    Pools& operator=(const Pools&) = delete;

    void configure(const std::vector<PoolConfig>& pools);
    // Answered later through Forks, or with take_refused(), unless an error is returned. ENOENT:
    // there is no such pool; EINVAL, EEXIST: no fork of it can be what is asked for; EAGAIN: there
    // is none to hand out, and may be later.
    [[nodiscard]] Expected<void> take(const std::string& pool, const TakeRequest& asked,
                                      std::uint64_t caller);
    void caller_gone(std::uint64_t caller);
    // At each look, when Forks has followed.
    void follow();
    // Forks' answer, where it is to one of this: says whether it was.
    bool forks_answered(std::uint64_t caller, const Expected<std::vector<MadeFork>>& made);
    // Forks that were held at the last follow(), and for which somebody waits, go on: follow() has
    // something to hand out once zones have been synced.
    [[nodiscard]] bool can_go_on() const;
    // That domain has gone.
    void forget(const Zone& gone);
    [[nodiscard]] std::vector<PoolState> states() const;
    // It can be handed out now.
    [[nodiscard]] bool stands_ready(const Zone& fork) const;

  private:
    struct Taker {
        std::uint64_t caller = 0;
        TakeRequest asked;
        std::int64_t until_ms = 0;
    };
    struct Pool {
        PoolConfig config;
        std::deque<Taker> takers{};
        PoolTrouble trouble{};
        std::string why_not{};
        std::string said{};  // of why_not, in the journal
        bool lacks_template = false;
        std::string template_uuid{};
    };

    [[nodiscard]] PoolSeen see(const Pool& pool) const;
    // It stands ready, and nothing is under way with it.
    [[nodiscard]] bool is_left(const Zone& fork) const;
    // Why the pool, as it is now, does not hand that one out; empty: it does.
    [[nodiscard]] std::string why_not_of(const Pool& pool, const std::string& template_uuid,
                                         const Zone& fork) const;
    [[nodiscard]] std::vector<const Zone*> standing(const Pool& pool) const;
    [[nodiscard]] std::vector<const Zone*> held(const Pool& pool) const;
    [[nodiscard]] bool is_whole(const Pool& pool, const std::string& template_uuid,
                                const Zone& zone) const;
    [[nodiscard]] bool waits(const ZoneKey& fork) const;
    [[nodiscard]] std::vector<const Zone*> whole(const Pool& pool, bool waiting) const;
    [[nodiscard]] std::string why_not(const Pool& pool) const;
    [[nodiscard]] std::string uuid_of_template(const Pool& pool) const;
    [[nodiscard]] Expected<void> check_take(const Pool& pool, const TakeRequest& asked) const;
    void follow_template(Pool& pool);
    std::optional<std::int64_t> forgive(Pool& pool, std::int64_t now_ms);
    void serve_takers(Pool& pool);
    void refuse_late(Pool& pool, std::int64_t now_ms);
    void make(Pool& pool, std::size_t count);
    void stop_making(const std::string& pool);
    void give_up(Pool& pool, std::size_t count);
    void give_up_strangers();
    void note_end(const Zone& fork);
    void dismiss(const Zone& fork, const std::string& why);
    void failed(Pool& pool, const Error& why);
    void tell(Pool& pool, std::string why_not, bool lacks_template);
    // What is said to one who gets none: ENOMEM where it is for want of memory, else EAGAIN.
    [[nodiscard]] Error refusal(const Pool& pool, const std::string& what) const;
    void refuse_all(Pool& pool, const Error& why);
    [[nodiscard]] std::size_t in_hand(const std::string& pool) const;

    Zones& zones_;
    Forks& forks_;
    Mediator& mediator_;
    std::map<std::string, Pool, std::less<>> pools_;
    std::map<std::uint64_t, std::string> making_;  // by caller: for which pool
    // Those that this daemon has made, until they end: handed out or not.
    std::map<ZoneKey, std::int64_t> made_ms_;
    std::vector<ZoneKey> waited_for_;  // held, while somebody waits for a fork
    std::uint64_t last_caller_ = 0;
    std::unique_ptr<Loop::Timer> wake_;
};

}  // namespace xenpack
