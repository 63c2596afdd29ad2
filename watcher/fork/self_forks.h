// SPDX-License-Identifier: LGPL-2.1-or-later
// SelfForks: zones that ask to be forked, by one node that they write, as a process calls fork().
// The zone becomes a template, its first fork takes its place and its name, the others get names of
// their own. The watcher owns one and has it look after Forks has; what is asked it judges by the
// configuration, and Forks does it. The texts are fork_text.h's.
//
// What it promises:
//   - What a zone writes is bounded: in length, in number, and in how often it is looked at; and it
//     gets no names but such that begin with its own.
//   - A wish is answered where the zone can read it: accepted, or refused with the reason; one that
//     has been withdrawn is not accepted any more.
//   - Until it is sealed a zone of which forks cannot be made runs on. After that the fork that
//     takes its place is made, whatever has become of the others, and however often that has to be
//     tried; also by the next daemon.
//   - The template that came of a wish goes when its last fork has, however often that is tried.
//
// Threads: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "watcher/fork/forks.h"
#include "watcher/fork/pool.h"
#include "watcher/guest/fork_text.h"
#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/zones/flood.h"
#include "watcher/zones/zones.h"

namespace xenpack {

// Wishes of one zone that are looked at: so many at once, and one in ten seconds in the long run.
inline constexpr double kWishBurst = 5;
inline constexpr double kWishesPerS = 0.1;
// Of whatever else it writes there, as where it withdraws a wish or writes one again.
inline constexpr double kLookBurst = 30;
inline constexpr double kLooksPerS = 1;
// How long the refusal of a wish that was accepted first stands, before another one is heard that
// the zone has written meanwhile: there is one place for answers.
inline constexpr std::int64_t kRefusalStandsMs = 2'000;
// How long a zone that writes more often is not listened to, and the longest.
inline constexpr std::int64_t kWishPenaltyMs = 60'000;
inline constexpr std::int64_t kWishPenaltyMaxMs = 3'600'000;

class SelfForks {
  public:
    class Mediator {
      public:
        virtual ~Mediator() = default;
        // Look soon, and call follow().
        virtual void self_forks_changed() = 0;
        virtual void self_fork_said(const Zone& zone, bool fault, const std::string& sentence) = 0;
    };

    // All must outlive it.
    SelfForks(Loop& loop, Store& store, Zones& zones, Forks& forks, Mediator& mediator);
    ~SelfForks();
    SelfForks(const SelfForks&) = delete;
    SelfForks& operator=(const SelfForks&) = delete;

    // At each look, when Forks has followed.
    void follow();
    // Forks' answers, where they are to one of this: says whether they were.
    bool forks_answered(std::uint64_t caller, const Expected<std::vector<MadeFork>>& made);
    [[nodiscard]] static bool is_own(std::uint64_t caller);
    void forget(const Zone& gone);

  private:
    // A zone that is listened to.
    struct Ear {
        Store::WatchHandle watch{};
        Flood looks{kLookBurst, kLooksPerS};
        Flood wishes{kWishBurst, kWishesPerS};
        std::int64_t deaf_until_ms = 0;
    };
    // A wish that was accepted, until all has come of it that will.
    struct Wish {
        std::string id;
        std::string name;                // the zone's
        std::vector<std::string> names;  // of all forks: its own first
        std::uint64_t caller = 0;        // 0: nothing is under way
        PoolTrouble trouble{};
        std::string refused{};     // why only its place is taken
        bool place_taken = false;  // by an earlier daemon's doing, and for good
    };
    using Children = std::map<unsigned, const Zone*>;  // by their index

    void listen(const Zone& zone, std::int64_t now_ms);
    void hear(const ZoneKey& key);
    [[nodiscard]] bool has_answered(const ZoneKey& key, const guest::ForkWish& wish) const;
    void be_deaf(Ear& ear, std::int64_t until_ms);
    [[nodiscard]] Expected<std::vector<std::string>> judge(const Zone& zone,
                                                           const guest::ForkWish& wish) const;
    void accept(const Zone& zone, const guest::ForkWish& wish, const std::string& text,
                const std::vector<std::string>& names);
    void answer(const Zone& zone, const guest::WishAnswer& answer);
    void look_at_template(const Zone& zone);
    void look_for_record(const Zone& zone);
    void take_up(const Zone& zone, const std::string& text, const Children& there);
    [[nodiscard]] bool is_unsettled(const Zone& fork) const;
    [[nodiscard]] Children children_by_index(const Zone& zone) const;
    void not_made(const Zone& zone, Wish& wish, const Error& why);
    void try_again(const ZoneKey& key, Wish& wish);
    void finished(const Zone& zone);
    void record(const Zone& zone, const std::string& text);
    void forget_record(const Zone& zone);
    [[nodiscard]] Expected<void> begin(const ZoneKey& key, Wish& wish,
                                       const std::vector<unsigned>& which);

    Store& store_;
    Zones& zones_;
    Forks& forks_;
    Mediator& mediator_;
    std::map<ZoneKey, Ear> ears_;
    std::map<ZoneKey, Wish> wishes_;
    std::set<ZoneKey> looked_at_;  // templates, once
    // Templates of which nothing more is to come, until they go; and why one could not, as said.
    std::map<ZoneKey, std::string> ours_;
    std::uint64_t last_caller_ = 0;
    std::unique_ptr<Loop::Timer> wake_;
};

}  // namespace xenpack
