// SPDX-License-Identifier: LGPL-2.1-or-later
// The queue and the promises; in the order of a reservation's life. Pure.
#include "watcher/reserve/book.h"

#include <fmt/format.h>

#include <algorithm>

#include "watcher/kib.h"

namespace xenpack {
namespace {

// What Xen takes for a domain beside its pages comes before them, so it is taken once there are
// any.
std::uint64_t taken_kib(const Reservation& r, const StartedDomain& domain) {
    const std::uint64_t pages_kib = domain.current_kib + domain.claimed_kib;
    return pages_kib > 0 ? pages_kib + r.overhead_kib : 0;
}

// A balloon may already have made it smaller than it began.
bool is_whole(const Reservation& r, const StartedDomain& domain) {
    const std::uint64_t began_with = minus(r.size_kib, r.overhead_kib);
    const std::uint64_t goal = std::min(domain.target_kib.value_or(began_with), began_with);
    return domain.current_kib + kWholeWithinKib >= goal;
}

// How it stands with its domain; nothing: it goes on.
std::optional<Ending> progress(Reservation& r, const StartedDomain* domain) {
    if (domain == nullptr) {
        if (r.state == ReservationState::in_transfer) {
            return Ending::domain_gone;
        }
        return r.owner_gone ? std::optional(Ending::owner_ended) : std::nullopt;
    }
    if (r.state == ReservationState::waiting) {
        return Ending::came_without;
    }
    r.state = ReservationState::in_transfer;
    r.taken_kib = taken_kib(r, *domain);
    // One that its owner left paused does not run, and is complete all the same.
    const bool is_built = domain->ran || r.owner_gone;
    return is_built && is_whole(r, *domain) ? std::optional(Ending::handed_over) : std::nullopt;
}

std::optional<Ending> too_late(const Reservation& r, std::int64_t now_ms) {
    if (now_ms >= r.deadline_ms) {
        return r.state == ReservationState::waiting ? Ending::waited : Ending::deadline;
    }
    if (r.state == ReservationState::waiting && now_ms >= r.wait_until_ms) {
        return Ending::waited;
    }
    return std::nullopt;
}

// Takes out those for which `ending` names one.
template <class Judge>
std::vector<EndedReservation> end_those(std::vector<Reservation>& entries, Judge ending) {
    std::vector<EndedReservation> ended;
    for (auto it = entries.begin(); it != entries.end();) {
        if (const std::optional<Ending> why = ending(*it)) {
            ended.push_back({*it, *why});
            it = entries.erase(it);
        } else {
            ++it;
        }
    }
    return ended;
}

std::optional<EndedReservation> take_out(std::vector<Reservation>& entries, std::uint64_t id,
                                         Ending why) {
    const auto found = std::ranges::find(entries, id, &Reservation::id);
    if (found == entries.end()) {
        return std::nullopt;
    }
    EndedReservation ended{*found, why};
    entries.erase(found);
    return ended;
}

}  // namespace

Book::Book(std::vector<Reservation> entries, std::uint64_t next_id)
    : entries_(std::move(entries)), next_id_(next_id) {}

const Reservation* Book::find(std::uint64_t id) const {
    const auto found = std::ranges::find(entries_, id, &Reservation::id);
    return found == entries_.end() ? nullptr : &*found;
}

std::optional<std::string> Book::objection(const Reservation& asked,
                                           const StartSupply& supply) const {
    const std::uint64_t ahead_kib = waiting_kib();
    if (asked.size_kib + ahead_kib <=
        supply.free_kib + supply.could_give_kib + supply.for_forks_kib) {
        return std::nullopt;
    }
    return shortage_sentence(asked, supply, ahead_kib);
}

std::uint64_t Book::add(Reservation asked) {
    asked.id = next_id_++;
    asked.state = ReservationState::waiting;
    asked.taken_kib = 0;
    entries_.push_back(std::move(asked));
    return entries_.back().id;
}

std::vector<std::uint64_t> Book::grant(std::uint64_t free_kib) {
    std::vector<std::uint64_t> granted;
    for (Reservation& r : entries_) {
        if (r.state != ReservationState::waiting) {
            continue;
        }
        if (r.size_kib > free_kib) {
            break;
        }
        free_kib -= r.size_kib;
        r.state = ReservationState::granted;
        granted.push_back(r.id);
    }
    return granted;
}

std::vector<EndedReservation> Book::follow(const std::vector<StartedDomain>& domains) {
    return end_those(entries_, [&](Reservation& r) {
        const auto found = r.uuid.empty()
                               ? domains.end()
                               : std::ranges::find(domains, r.uuid, &StartedDomain::uuid);
        return progress(r, found == domains.end() ? nullptr : &*found);
    });
}

std::vector<EndedReservation> Book::expire(std::int64_t now_ms) {
    return end_those(entries_, [&](const Reservation& r) { return too_late(r, now_ms); });
}

void Book::owner_ended(int pid, std::uint64_t pid_started) {
    for (Reservation& r : entries_) {
        if (r.pid == pid && r.pid_started == pid_started) {
            r.owner_gone = true;
        }
    }
}

std::optional<EndedReservation> Book::release(std::uint64_t id) {
    return take_out(entries_, id, Ending::released);
}

void Book::use(std::uint64_t id, std::uint64_t kib) {
    const auto found = std::ranges::find(entries_, id, &Reservation::id);
    if (found != entries_.end()) {
        found->taken_kib += kib;
    }
}

std::optional<EndedReservation> Book::hand_over(std::uint64_t id) {
    return take_out(entries_, id, Ending::handed_over);
}

std::uint64_t Book::held_kib() const {
    std::uint64_t sum = 0;
    for (const Reservation& r : entries_) {
        sum += xenpack::held_kib(r);
    }
    return sum;
}

std::uint64_t Book::held_kib(std::string_view uuid) const {
    std::uint64_t sum = 0;
    for (const Reservation& r : entries_) {
        sum += r.uuid == uuid ? xenpack::held_kib(r) : 0;
    }
    return sum;
}

std::uint64_t Book::waiting_kib() const {
    std::uint64_t sum = 0;
    for (const Reservation& r : entries_) {
        sum += r.state == ReservationState::waiting ? r.size_kib : 0;
    }
    return sum;
}

std::optional<std::int64_t> Book::next_ms() const {
    std::optional<std::int64_t> next;
    for (const Reservation& r : entries_) {
        const std::int64_t at_ms = r.state == ReservationState::waiting
                                       ? std::min(r.wait_until_ms, r.deadline_ms)
                                       : r.deadline_ms;
        next = std::min(next.value_or(at_ms), at_ms);
    }
    return next;
}

std::uint64_t held_kib(const Reservation& reservation) {
    switch (reservation.state) {
        case ReservationState::waiting:
            return 0;
        case ReservationState::granted:
        case ReservationState::in_transfer:
            return minus(reservation.size_kib, reservation.taken_kib);
    }
    return 0;
}

std::string_view name_of(ReservationState state) {
    switch (state) {
        case ReservationState::waiting:
            return "waiting";
        case ReservationState::granted:
            return "granted";
        case ReservationState::in_transfer:
            return "in transfer";
    }
    return "";
}

std::string_view sentence_of(Ending why) {
    switch (why) {
        case Ending::handed_over:
            return "its domain has its memory";
        case Ending::released:
            return "released by its owner";
        case Ending::owner_ended:
            return "its owner has ended";
        case Ending::domain_gone:
            return "its domain went before it was complete";
        case Ending::came_without:
            return "its domain was started without waiting for it";
        case Ending::waited:
            return "the memory did not become free in time";
        case Ending::deadline:
            return "its deadline has passed before it was used";
    }
    return "";
}

std::string shortage_sentence(const Reservation& asked, const StartSupply& supply,
                              std::uint64_t ahead_kib) {
    const std::uint64_t wanted_kib = asked.size_kib + ahead_kib;
    const std::uint64_t missing_kib = minus(wanted_kib, supply.free_kib + supply.could_give_kib);
    std::string text = fmt::format(
        "{} needs {} MiB; {} MiB are free to give, other zones could give {} MiB down to what they "
        "need",
        asked.owner, mib_above(asked.size_kib), mib(supply.free_kib), mib(supply.could_give_kib));
    if (ahead_kib > 0) {
        text += fmt::format(", starts that asked before wait for {} MiB", mib(ahead_kib));
    }
    if (supply.for_forks_kib > 0) {
        text +=
            fmt::format(", forks that are held come first with {} MiB", mib(supply.for_forks_kib));
    }
    if (missing_kib > 0) {
        text += fmt::format(
            ", {} MiB are missing: stop a zone or lower one's floor (xenpack status shows them), "
            "or "
            "ask for less",
            mib_above(missing_kib));
    }
    return text;
}

}  // namespace xenpack
