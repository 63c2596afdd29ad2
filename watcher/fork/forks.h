// SPDX-License-Identifier: LGPL-2.1-or-later
// Forks: templates and their forks, from the request to the last page given back. The watcher owns
// one and tells it at each look what there is. It asks the toolstack to seal, fork and destroy,
// waits for what guests answer, joins networks, and takes up again what an earlier daemon has left.
// How far something is and what follows from that is progress.h's and brood.h's to say; memory is
// the mediator's to promise. It must not balloon anything.
//
// What it promises:
//   - A zone that does not become a template runs on. A template comes to be even if who asked for
//     it has hung up.
//   - Of a request's forks there are all, or none once it is answered. Who hangs up wants none.
//   - A fork that cannot take its identity does not live, whoever waits for it.
//   - At every start what is half made is finished or taken away, by what stands in the store and
//     by the intents on disk.
//
// Threads: the loop's. Nothing here calls its mediator inside make_template(), make_forks() and
// remove_template(), but for ask_memory().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watcher/fork/asked.h"
#include "watcher/fork/brood.h"
#include "watcher/fork/intents.h"
#include "watcher/fork/keeper.h"
#include "watcher/fork/progress.h"
#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/toolstack/toolstack.h"
#include "watcher/zones/zones.h"

namespace xenpack {

// Forks that the toolstack makes at the same time.
inline constexpr std::size_t kMostBuilding = 8;
// After a domain could not be destroyed.
inline constexpr std::int64_t kDestroyAgainMs = 10'000;

struct TemplateRequest {
    std::string zone;  // name or domid
    std::string name;  // empty: as the zone is called
    bool has_reporter = true;
    std::int64_t timeout_ms = kAnswerMs;
};

struct ForksRequest {
    std::string template_name;
    unsigned count = 1;
    std::string name;  // a pattern, see names.h; empty: TEMPLATE-%d
    Until until = Until::ready;
    bool paused = false;
    std::string address;  // for the guest's hooks; empty: none
    std::int64_t timeout_ms = kAnswerMs;
    std::string pool{};  // which they are made for; empty: none
    // How long memory may be waited for; unset: timeout_ms. 0: there now, or not at all.
    std::optional<std::int64_t> memory_wait_ms{};
};

// Of a fork that stands ready.
struct TakeRequest {
    std::string name{};  // its new one; empty: it keeps its own
    Until until = Until::ready;
    std::string address{};
    std::int64_t timeout_ms = kAnswerMs;
};

struct MadeTemplate {
    ZoneKey key;
    std::string name;
    std::int64_t took_ms = 0;
};

struct MadeFork {
    std::uint32_t domid = 0;
    Uuid uuid{};
    std::string name;
    bool paused = false;
    xenpack_fork_result parts{};
    std::optional<std::int64_t> ready_ms{};  // from its beginning; nothing: not waited for
    std::string taken_from{};                // a pool; empty: it was made for this request
};

// For the journal.
struct ForkNews {
    enum class Kind { sealed, fork, fault } kind = Kind::fork;
    std::string name;
    ZoneKey key;
    std::string sentence;
};

class Forks {
  public:
    class Mediator {
      public:
        virtual ~Mediator() = default;
        // Something is new: look soon, and call follow().
        virtual void forks_changed() = 0;
        virtual void fork_news(const ForkNews& news) = 0;
        // Memory for that many forks, to be promised within wait_ms: memory_answered() will be
        // called with `request`, not inside this call. An error refuses it at once.
        [[nodiscard]] virtual Expected<void> ask_memory(std::uint64_t request, std::size_t forks,
                                                        const std::string& owner,
                                                        std::int64_t wait_ms) = 0;
        // The request is over before that.
        virtual void memory_not_wanted(std::uint64_t request) = 0;
        // Of what was promised, that of one fork has been taken by it.
        virtual void memory_taken(std::uint64_t reservation) = 0;
        // No more of it is needed; all has been taken, or nobody will take the rest.
        virtual void memory_done(std::uint64_t reservation, bool all_taken) = 0;
        virtual void template_answered(std::uint64_t caller,
                                       const Expected<MadeTemplate>& made) = 0;
        virtual void removal_answered(std::uint64_t caller, const Expected<void>& removed) = 0;
        virtual void forks_answered(std::uint64_t caller,
                                    const Expected<std::vector<MadeFork>>& made) = 0;
    };

    struct Rooms {
        Loop& loop;
        Store& store;
        Toolstack& toolstack;
        Zones& zones;
        std::string intents;  // a folder
        std::string joiner;   // the program that joins networks, called vif-xenpack
    };

    // `mediator` must outlive it, and so must the rooms.
    Forks(Rooms rooms, Mediator& mediator);
    ~Forks();
    Forks(const Forks&) = delete;
    Forks& operator=(const Forks&) = delete;

    // Requests; `caller` names who waits, and is answered later unless an error is returned.
    [[nodiscard]] Expected<void> make_template(const TemplateRequest& asked, std::uint64_t caller);
    [[nodiscard]] Expected<void> make_forks(const ForksRequest& asked, std::uint64_t caller);
    // EBUSY: it has forks. What fails then is tried again, unless it is to be tried `once`.
    [[nodiscard]] Expected<void> remove_template(const std::string& name, std::uint64_t caller,
                                                 bool once = true);
    // Hands out a fork of a pool's that stands ready: from now on it is "taking", and "taken" once
    // it is answered for, as make_forks() is. It lets it run where it was left paused; one that the
    // guard holds goes on when that lets it. An error: it stands there as before. EEXIST: that name
    // is taken; EAGAIN: it must not run yet; ESRCH: it is not there any more.
    [[nodiscard]] Expected<void> take(const ZoneKey& key, const TakeRequest& asked,
                                      std::uint64_t caller);
    // Whether that can be asked of any fork. EINVAL; EEXIST: that name is taken.
    [[nodiscard]] Expected<void> check_take(const TakeRequest& asked) const;
    // Makes a template of a zone and forks of that, which are ready when it is answered: all of it,
    // or the zone runs on; but once it is sealed there is no way back, and only the forks may be
    // wanting. Of a template that is there the forks alone. Memory is promised before anything
    // happens. Answered as make_forks() is; who hangs up changes nothing.
    struct Itself {
        ZoneKey key;
        std::string template_name;
        std::vector<std::string> names;    // of the forks; the zone's own is free by then
        std::vector<std::string> indexes;  // what each has at xenpack/fork/index
    };
    [[nodiscard]] Expected<void> fork_itself(const Itself& asked, std::uint64_t caller);
    // Takes one away that stands ready and is not needed.
    void give_up_standing(const Zone& fork, const std::string& why);
    // That caller has hung up.
    void caller_gone(std::uint64_t caller);
    void memory_answered(std::uint64_t request, const Expected<std::uint64_t>& reservation);

    // At each look, when zones have been synced. The first time it takes up what was left.
    void follow();

    // A complete fork that has its identity, or needs none.
    [[nodiscard]] bool is_ready(const Zone& fork) const;
    // Being made at this moment, or just made: its coming has been said.
    [[nodiscard]] bool has_told_of(const Zone& fork) const { return told_.contains(fork.key); }
    void forget(const Zone& gone);
    // Keeps them whole when memory runs out; follow() tells it what there is.
    [[nodiscard]] Keeper& keeper() { return keeper_; }
    [[nodiscard]] const Keeper& keeper() const { return keeper_; }
    // Somebody waits for what becomes of it.
    [[nodiscard]] bool is_awaited(const Zone& fork) const;
    // It was left paused when it was made, and nobody has let it run; who is held runs otherwise.
    [[nodiscard]] bool is_left_paused(const Zone& fork) const;
    // It is being made a template at this moment.
    [[nodiscard]] bool is_being_sealed(const Zone& zone) const { return seals_.contains(zone.key); }
    // It is being destroyed.
    [[nodiscard]] bool is_leaving(const Zone& zone) const {
        return destroying_.contains(zone.key.uuid);
    }
    // EBUSY: it is not sealed (yet); ESTALE: it has run since; ENOENT, EPERM: there is none of that
    // name.
    [[nodiscard]] Expected<const Zone*> sealed_template(const std::string& name) const {
        return forkable_template(name);
    }
    // A sentence for each thing that forks need and this host lacks.
    [[nodiscard]] std::vector<std::string> missing();
    // The forks that there are of a template, by domid.
    [[nodiscard]] std::vector<const Zone*> children_of(const Uuid& template_uuid) const;

  private:
    struct Sealing;
    struct Request;
    struct Child;
    struct Destroying;

    // Templates: in forks_template.cc.
    [[nodiscard]] Expected<Zone*> zone_to_seal(const TemplateRequest& asked, std::uint64_t caller);
    [[nodiscard]] Expected<Zone*> find_template(const std::string& name) const;
    [[nodiscard]] Expected<Zone*> forkable_template(const std::string& name) const;
    void follow_template(const Zone& zone);
    [[nodiscard]] Expected<void> write_seal_nodes(const Sealing& sealing);
    void follow_sealing(const ZoneKey& key);
    void seal(const ZoneKey& key);
    void seal_ended(const ZoneKey& key, const Expected<void>& sealed);
    void take_up_template(const Zone& zone);
    void go_on_sealing(const Zone& zone, std::int64_t timeout_ms, std::uint64_t caller);
    [[nodiscard]] std::string clear_nodes(const ZoneKey& key);

    // Forks: in forks_making.cc.
    void begin_next();
    [[nodiscard]] Expected<void> begin(Request& request, std::size_t index);
    void fork_ended(const Uuid& uuid, const Expected<xenpack_fork_result>& made);
    void fork_made(Child& child, const xenpack_fork_result& parts);
    void await_ready(Child& child);
    // `fresh`: zones have just been synced, so one that is not there has gone.
    void follow_child(const Uuid& uuid, bool fresh);
    void join_networks(const Uuid& uuid);
    [[nodiscard]] Expected<void> begin_joining(Child& child);
    void network_joined(const Uuid& uuid, const Expected<void>& joined);
    void child_ready(const Uuid& uuid);
    void child_failed(const Uuid& uuid, const Error& why);
    // Of one whose failure has been said: it goes, and its request with it.
    void abandon_child(const Uuid& uuid, const Error& why);
    void undo_child(const Uuid& uuid);
    // Of that request: it is told when it has gone.
    void destroy_of(std::uint64_t request, std::size_t index, const ZoneKey& key,
                    const std::string& name);
    void give_up(Request& request, Error why);
    void settle(std::uint64_t id);
    void take_up_fork(const Zone& zone);
    [[nodiscard]] Request* request_of(const Child& child) const;

    // Those of pools: in forks_taking.cc.
    [[nodiscard]] Expected<void> enter_pool(const ZoneKey& key, const std::string& pool);
    // ESRCH: they have gone already, and stay so. Paths are below the domain's own.
    using NodesBelow = std::vector<std::pair<std::string_view, std::string>>;
    [[nodiscard]] Expected<void> write_nodes(const ZoneKey& key, const NodesBelow& nodes);
    [[nodiscard]] Expected<void> rename(const Zone& zone, const TakeRequest& asked);
    [[nodiscard]] Expected<const Zone*> can_be_taken(const ZoneKey& key,
                                                     const TakeRequest& asked) const;
    [[nodiscard]] Expected<void> let_out(const Zone& zone, const TakeRequest& asked);
    static void await_for(Child& child, const Request& taker);
    void take_back_name(const Zone& zone, const std::string& name);
    [[nodiscard]] Expected<void> keep_taken(const Request& request);
    [[nodiscard]] bool is_being_taken(const Zone& fork) const;

    // Zones that fork themselves: in forks_itself.cc.
    [[nodiscard]] Expected<void> check_itself(const Zone& zone, const Itself& asked);
    void seal_for_forks(Request& request);
    void template_came(const ZoneKey& key, const Expected<void>& sealed);

    // Both: in forks.cc.
    [[nodiscard]] Expected<void> check_host();
    [[nodiscard]] Zone* zone_of(const Uuid& uuid) const;
    [[nodiscard]] std::vector<std::string> names_below(const Uuid& template_uuid) const;
    [[nodiscard]] std::set<std::string, std::less<>> names_taken() const;
    [[nodiscard]] std::string read_node(std::uint32_t domid, std::string_view below) const;
    void settle_intents();
    [[nodiscard]] bool has_only_begun(const Zone& zone) const;
    void settle_whole(const Zone& zone, const Intent& intent);
    void forget_intent(const Uuid& uuid);
    // Calls `then` once it is gone. A failure is tried again, unless it is to be tried `once`: then
    // it is passed on.
    using Destroyed = std::function<void(Expected<void>)>;
    void destroy(const ZoneKey& key, const std::string& name, bool once, Destroyed then);
    void try_to_destroy(const Uuid& uuid);
    void destroy_ended(const Uuid& uuid, const Expected<void>& destroyed);
    void follow_zone(const Zone& zone);
    void take_away_half_made(const Zone& zone);
    void reap(const Zone& zone);
    void say(ForkNews::Kind kind, const std::string& name, const ZoneKey& key,
             std::string sentence);
    void wake();
    void arm();
    // Runs `work` later in the loop, unless this is gone by then.
    void later(std::function<void()> work);
    // A callback for others to keep: it does nothing once this is gone.
    template <class... Args>
    [[nodiscard]] std::function<void(Args...)> if_alive(std::function<void(Args...)> work) const {
        return [work = std::move(work), alive = std::weak_ptr(alive_)](Args... args) {
            if (!alive.expired()) {
                work(std::forward<Args>(args)...);
            }
        };
    }

    Rooms rooms_;
    Mediator& mediator_;
    Intents intents_;
    Keeper keeper_;
    std::uint64_t last_request_ = 0;
    std::map<ZoneKey, std::unique_ptr<Sealing>> seals_;
    std::map<std::uint64_t, std::unique_ptr<Request>> requests_;
    // From their intent on, until they are ready or are to be destroyed.
    std::map<Uuid, std::unique_ptr<Child>> children_;
    std::map<Uuid, std::unique_ptr<Destroying>> destroying_;
    std::set<ZoneKey> ready_;
    std::set<ZoneKey> told_;
    std::set<ZoneKey> tried_;   // sealings of an earlier daemon that were taken up
    std::set<ZoneKey> spoilt_;  // templates: it has been said
    std::size_t building_ = 0;
    bool settled_intents_ = false;
    std::unique_ptr<Loop::Timer> wake_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace xenpack
