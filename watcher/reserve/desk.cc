// SPDX-License-Identifier: LGPL-2.1-or-later
// Asked, granted, followed, ended; in the order of a reservation's life.
#include "watcher/reserve/desk.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "watcher/kib.h"
#include "watcher/reserve/book_file.h"

namespace xenpack {
namespace {

std::string whose(const Reservation& r) {
    return r.pid == 0 || r.owner == fmt::format("process {}", r.pid)
               ? r.owner
               : fmt::format("{} (process {})", r.owner, r.pid);
}

// What the journal says of an end; empty: nothing, as all went as it should.
std::string line_about(const EndedReservation& ended) {
    const Reservation& r = ended.reservation;
    switch (ended.why) {
        case Ending::handed_over:
            return fmt::format("{} has the {} MiB that were kept for it", r.owner, mib(r.size_kib));
        case Ending::released:
            if (r.state == ReservationState::waiting) {
                return fmt::format("{} waits for {} MiB no more: it was released or hung up",
                                   whose(r), mib(r.size_kib));
            }
            [[fallthrough]];
        case Ending::owner_ended:
        case Ending::domain_gone:
        case Ending::came_without:
        case Ending::deadline:
            return fmt::format("{} MiB are not kept for {} any more: {}", mib(r.size_kib), whose(r),
                               sentence_of(ended.why));
        case Ending::waited:
            return r.at_once ? std::string()
                             : fmt::format("{} is refused {} MiB: {}", whose(r), mib(r.size_kib),
                                           sentence_of(ended.why));
    }
    return {};
}

}  // namespace

Desk::Desk(Loop& loop, std::string path, Mediator& mediator)
    : loop_(loop),
      path_(std::move(path)),
      mediator_(mediator),
      next_(loop.make_timer([this] { mediator_.reservations_changed(); })) {}

void Desk::take_up() {
    auto book = load_book(path_);
    if (!book) {
        forgotten_ = book.error().what;
        mediator_.reservation_said(forgotten_);
        return;
    }
    book_ = std::move(*book);
    const std::vector<Reservation> entries = book_.entries();
    for (const Reservation& r : entries) {
        orphans_.insert(r.id);
        watch_owner(r);
    }
    if (!entries.empty()) {
        mediator_.reservation_said(
            fmt::format("{} reservations taken up again: {} MiB are kept for starts, {} MiB are "
                        "waited for",
                        entries.size(), mib(book_.held_kib()), mib(book_.waiting_kib())));
    }
    keep();
}

// The same process, for the same domain: it has lost its connection, and asks again. Where no
// domain is named, only after a restart: else it may want the same once more.
bool Desk::join(const Reservation& asked, std::uint64_t caller) {
    const auto found = std::ranges::find_if(book_.entries(), [&](const Reservation& r) {
        return r.uuid == asked.uuid && (!asked.uuid.empty() || orphans_.contains(r.id)) &&
               r.pid == asked.pid && r.pid_started == asked.pid_started &&
               r.size_kib == asked.size_kib;
    });
    if (found == book_.entries().end()) {
        return false;
    }
    const Reservation& joined = *found;
    answer(joined, fail_with(EBUSY, "{} has asked for the same again, and that request is answered",
                             whose(joined)));
    callers_[found->id] = caller;
    orphans_.erase(found->id);
    if (found->state != ReservationState::waiting) {
        loop_.defer([this, id = found->id, alive = std::weak_ptr(alive_)] {
            const Reservation* r = alive.expired() ? nullptr : book_.find(id);
            if (r != nullptr) {
                answer(*r, {});
            }
        });
    }
    return true;
}

const Reservation* Desk::of_domain(const std::string& uuid) const {
    const auto found = std::ranges::find(book_.entries(), uuid, &Reservation::uuid);
    return uuid.empty() || found == book_.entries().end() ? nullptr : &*found;
}

Expected<void> Desk::ask(Reservation asked, const StartSupply& supply, std::uint64_t caller) {
    if (asked.pid != 0 && asked.pid_started == 0) {
        const auto started = process_started(asked.pid);
        if (!started) {
            return fail_with(ESRCH, "there is no process {} that could own a reservation",
                             asked.pid);
        }
        asked.pid_started = *started;
    }
    if (join(asked, caller)) {
        mediator_.reservations_changed();
        return {};
    }
    if (const Reservation* other = of_domain(asked.uuid)) {
        return fail_with(EBUSY, "memory for the domain with uuid {} is reserved already, for {}",
                         asked.uuid, whose(*other));
    }
    if (book_.entries().size() >= kMostReservations) {
        return fail_with(EAGAIN,
                         "there are {} reservations, and there may be no more: release some "
                         "(xenpack status lists them), or try again later",
                         kMostReservations);
    }
    if (auto objection = book_.objection(asked, supply)) {
        return fail_with(ENOMEM, "{}", *objection);
    }
    const std::uint64_t id = book_.add(std::move(asked));
    callers_[id] = caller;
    watch_owner(*book_.find(id));
    unsaved_ = true;
    keep();
    mediator_.reservations_changed();
    return {};
}

void Desk::watch_owner(const Reservation& reservation) {
    const Process process{reservation.pid, reservation.pid_started};
    if (process.first == 0 || owners_.contains(process)) {
        return;
    }
    const auto ended = [this, process] {
        book_.owner_ended(process.first, process.second);
        // The watch stays readable; its own callback may not be what destroys it.
        loop_.defer([this, process, alive = std::weak_ptr(alive_)] {
            if (!alive.expired()) {
                owners_.erase(process);
            }
        });
        mediator_.reservations_changed();
    };
    auto watch = ProcessWatch::watch(loop_, process.first, process.second, ended);
    if (watch) {
        owners_[process] = std::move(*watch);
    } else if (watch.error().code == ESRCH) {
        book_.owner_ended(process.first, process.second);
        mediator_.reservations_changed();
    } else {
        mediator_.reservation_said(fmt::format("{}; what is kept for {} ends by its deadline only",
                                               watch.error().what, whose(reservation)));
    }
}

void Desk::grant(std::uint64_t free_kib) {
    const std::vector<std::uint64_t> granted = book_.grant(free_kib);
    if (!granted.empty()) {
        unsaved_ = true;
        keep();
    }
    for (const std::uint64_t id : granted) {
        const Reservation r = *book_.find(id);
        mediator_.reservation_said(
            fmt::format("{} MiB are kept for {}", mib(r.size_kib), whose(r)));
        answer(r, {});
    }
}

void Desk::follow(const std::vector<StartedDomain>& domains) {
    if (book_.entries().empty()) {
        return;
    }
    // How much a domain has taken is seen again after a restart; that it was there, is not.
    const auto in_transfer = [this] {
        return std::ranges::count(book_.entries(), ReservationState::in_transfer,
                                  &Reservation::state);
    };
    const auto before = in_transfer();
    const std::vector<EndedReservation> ended = book_.follow(domains);
    unsaved_ = unsaved_ || before != in_transfer();
    end(ended, nullptr);
}

void Desk::expire(const StartSupply& supply) {
    end(book_.expire(Loop::now_ms()), &supply);
}

Expected<void> Desk::release(std::uint64_t id) {
    const auto ended = book_.release(id);
    if (!ended) {
        return fail_with(ENOENT, "there is no reservation {}; it may have ended by itself", id);
    }
    end({*ended}, nullptr);
    return {};
}

void Desk::use(std::uint64_t id, std::uint64_t kib) {
    book_.use(id, kib);
    mediator_.reservations_changed();
}

void Desk::hand_over(std::uint64_t id) {
    if (const auto ended = book_.hand_over(id)) {
        end({*ended}, nullptr);
    }
}

void Desk::caller_gone(std::uint64_t caller) {
    const auto found =
        std::ranges::find_if(callers_, [caller](const auto& c) { return c.second == caller; });
    if (found == callers_.end()) {
        return;
    }
    const std::uint64_t id = found->first;
    callers_.erase(found);
    const Reservation* r = book_.find(id);
    if (r != nullptr && r->state == ReservationState::waiting) {
        end({*book_.release(id)}, nullptr);
    }
}

void Desk::end(const std::vector<EndedReservation>& ended, const StartSupply* supply) {
    unsaved_ = unsaved_ || !ended.empty();
    keep();
    for (const EndedReservation& e : ended) {
        const Reservation& r = e.reservation;
        if (const std::string line = line_about(e); !line.empty()) {
            mediator_.reservation_said(line);
        }
        const std::string why =
            e.why == Ending::waited && supply != nullptr
                ? shortage_sentence(r, *supply, 0) + "; " + std::string(sentence_of(e.why))
                : fmt::format("{} gets no {} MiB: {}", r.owner, mib(r.size_kib),
                              sentence_of(e.why));
        answer(r, fail_with(ENOMEM, "{}", why));
        const Process process{r.pid, r.pid_started};
        if (std::ranges::none_of(book_.entries(), [&](const Reservation& other) {
                return Process{other.pid, other.pid_started} == process;
            })) {
            owners_.erase(process);
        }
    }
    if (!ended.empty()) {  // what they leave may be enough for others
        mediator_.reservations_changed();
    }
}

void Desk::answer(const Reservation& reservation, const Expected<void>& granted) {
    const auto caller = callers_.find(reservation.id);
    if (caller != callers_.end()) {
        const std::uint64_t id = caller->second;
        callers_.erase(caller);
        mediator_.reservation_answered(id, reservation, granted);
    }
}

// Writes what has changed, and sets the one timer.
void Desk::keep() {
    // Somebody may have removed it. What is promised to no one needs no book.
    if (!unsaved_ && !book_.entries().empty() && !book_is_there(path_)) {
        unsaved_ = true;
        mediator_.reservation_said(
            fmt::format("somebody has removed {}; it is written again", path_));
    }
    if (unsaved_) {
        store();
    }
    const std::int64_t now_ms = Loop::now_ms();
    std::optional<std::int64_t> at_ms = book_.next_ms();
    if (unsaved_) {
        at_ms = std::min(at_ms.value_or(now_ms + kRetryMs), now_ms + kRetryMs);
    }
    if (at_ms) {
        next_->start(*at_ms - now_ms);
    } else {
        next_->stop();
    }
}

void Desk::store() {
    const auto stored = store_book(path_, book_);
    unsaved_ = !stored;
    if (stored) {
        if (!unsaved_why_.empty()) {
            mediator_.reservation_said("what is kept for starts is on disk again");
        }
        unsaved_why_.clear();
        forgotten_.clear();
        return;
    }
    const bool said = !unsaved_why_.empty();
    unsaved_why_ =
        fmt::format("what is kept for starts would not survive a restart: {}", stored.error().what);
    if (!said) {
        mediator_.reservation_said(unsaved_why_);
    }
}

std::vector<std::string> Desk::faults() const {
    std::vector<std::string> list;
    if (!forgotten_.empty()) {
        list.push_back(forgotten_ +
                       "; see with xl list whether what was starting has come up, and start it "
                       "again where not: the next reservation writes the file anew");
    }
    if (!unsaved_why_.empty()) {
        list.push_back(unsaved_why_ +
                       "; make room there, or make it writable: it is tried again all the time");
    }
    return list;
}

}  // namespace xenpack
