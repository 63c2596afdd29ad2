// SPDX-License-Identifier: LGPL-2.1-or-later
// Desk: where starts ask for memory. It keeps the book, on disk too, watches the owners' processes
// and the deadlines, and remembers who waits for an answer. The watcher owns one and tells it at
// each look what there is; it must not touch Xen, and it decides nothing that the book does not
// say.
//
// Everything that may end a reservation ends in reservations_changed(): the watcher looks, and
// tells the desk of the domains before anything is judged. A book that could not be written is
// written at the next look, or after kRetryMs: only then does the desk wake an idle daemon.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "watcher/loop/loop.h"
#include "watcher/reserve/book.h"
#include "watcher/reserve/process.h"

namespace xenpack {

inline constexpr std::int64_t kRetryMs = 10'000;
// Each is looked at in every look, and its owner takes a descriptor.
inline constexpr std::size_t kMostReservations = 1024;

class Desk {
  public:
    class Mediator {
      public:
        virtual ~Mediator() = default;
        // Look soon, and call follow(), grant() and expire().
        virtual void reservations_changed() = 0;
        // A line for the journal.
        virtual void reservation_said(const std::string& sentence) = 0;
        // The answer to a request that waited: granted, or why not (error code ENOMEM).
        virtual void reservation_answered(std::uint64_t caller, const Reservation& reservation,
                                          const Expected<void>& granted) = 0;
    };

    // `mediator` must outlive it, and is never called inside the constructor.
    Desk(Loop& loop, std::string path, Mediator& mediator);

    // Takes over what was promised before a restart, and watches its owners again. A book that
    // cannot be read is told to the journal, and the desk begins with an empty one.
    void take_up();

    // A request; `caller` names who waits for its answer. Where the same process asks again for the
    // same domain, as after a restart of the daemon, it takes its old place. Fails with ENOMEM
    // where it could not be served whatever zones gave, ESRCH where its owner has ended, EAGAIN
    // where there are kMostReservations; else it is answered later, never inside this call.
    [[nodiscard]] Expected<void> ask(Reservation asked, const StartSupply& supply,
                                     std::uint64_t caller);
    // Error code ENOENT: there is none.
    [[nodiscard]] Expected<void> release(std::uint64_t id);
    // For one that names no domain: so much of it, and in the end all, has become somebody's and is
    // not free any more. Nothing happens where it has ended.
    void use(std::uint64_t id, std::uint64_t kib);
    void hand_over(std::uint64_t id);
    // Who waited has hung up: it is out of the queue.
    void caller_gone(std::uint64_t caller);

    // At each look, in this order: how far domains have come; what is free and promised to no one,
    // held_kib() taken off; and what is too late, with what there would be to give.
    void follow(const std::vector<StartedDomain>& domains);
    void grant(std::uint64_t free_kib);
    void expire(const StartSupply& supply);

    [[nodiscard]] const Book& book() const { return book_; }
    // What is wrong with the book on disk, and what to do: sentences, for status. None once it is
    // as it should be again.
    [[nodiscard]] std::vector<std::string> faults() const;

  private:
    using Process = std::pair<int, std::uint64_t>;

    [[nodiscard]] const Reservation* of_domain(const std::string& uuid) const;
    [[nodiscard]] bool join(const Reservation& asked, std::uint64_t caller);
    void watch_owner(const Reservation& reservation);
    void end(const std::vector<EndedReservation>& ended, const StartSupply* supply);
    void answer(const Reservation& reservation, const Expected<void>& granted);
    void keep();
    void store();

    Loop& loop_;
    std::string path_;
    Mediator& mediator_;
    Book book_;
    std::map<Process, std::unique_ptr<ProcessWatch>> owners_;
    std::map<std::uint64_t, std::uint64_t> callers_;  // by reservation: who waits for its answer
    std::set<std::uint64_t> orphans_;                 // taken up, and not asked for again yet
    std::unique_ptr<Loop::Timer> next_;
    bool unsaved_ = false;
    std::string unsaved_why_;  // empty: what there was to write is written
    std::string forgotten_;  // what was lost of the book from before; empty once there is a new one
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace xenpack
