// SPDX-License-Identifier: LGPL-2.1-or-later
// Book: the memory that is promised to starts and forks: who waits, who has been promised what, and
// how much of that has become a domain's. The desk owns one. Pure: values in, values out; it asks
// no one, and what it is told of the host is what its caller has just read.
//
// What it promises:
//   - First in, first out: nobody is granted before one who asked earlier, however small.
//   - What is granted was free, and held back by no one else, when it was granted; and what is held
//     back for it is neither granted nor spent again before its domain has taken it.
//   - What a domain has taken is not held back as well: from its first page on, a promise holds
//   back
//     what is still to come.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xenpack {

enum class ReservationState {
    waiting,     // for memory; nothing is held back for it yet
    granted,     // all of it is held back
    in_transfer  // its domain is there, and takes it
};

struct Reservation {
    std::uint64_t id = 0;
    std::uint64_t size_kib = 0;      // all that the start takes from what is free in Xen
    std::uint64_t overhead_kib = 0;  // the part of it that never is the domain's; 0: not known
    std::string owner;               // for people
    int pid = 0;                     // whose end ends it; 0: nobody's
    std::uint64_t pid_started = 0;   // tells that process from another of the same number later
    std::string uuid;                // of the domain to come, as to_string(Uuid); empty: not known
    std::int64_t wait_until_ms = 0;  // on the monotonic clock: granted by then, or not at all
    std::int64_t deadline_ms = 0;    // the same: ends then, whatever it has come to
    ReservationState state = ReservationState::waiting;
    std::uint64_t taken_kib = 0;  // by its domain so far, overhead included
    bool owner_gone = false;      // a transfer goes on without its owner
    // It was there at once or not at all, and who asked says what comes of that; not kept on disk.
    bool at_once = false;
};

// What of the host's memory may go to starts.
struct StartSupply {
    std::uint64_t free_kib = 0;        // free in Xen, and promised to no one
    std::uint64_t could_give_kib = 0;  // what zones have above what they need, or are giving back
    std::uint64_t for_forks_kib = 0;   // taken off both: forks that wait come first, for now
};

// A domain of which a reservation may speak.
struct StartedDomain {
    std::string uuid;
    std::uint64_t current_kib = 0;
    std::uint64_t claimed_kib = 0;  // set aside for it by Xen, and in nobody's free memory
    std::optional<std::uint64_t> target_kib;  // memory/target
    bool ran = false;                         // it is not being built any more
};

enum class Ending {
    handed_over,   // its domain has its memory
    released,      // by its owner
    owner_ended,   // its owner's process is no more
    domain_gone,   // its domain went before it was complete
    came_without,  // its domain was started without waiting for it
    waited,        // nothing became free in time
    deadline       // it was not used in time
};

struct EndedReservation {
    Reservation reservation;
    Ending why = Ending::released;
};

// Pages that a domain may lack and have all its memory: where libxl leaves holes, as for a screen.
inline constexpr std::uint64_t kWholeWithinKib = 1024;

class Book {
  public:
    Book() = default;
    // As kept before: entries in order of arrival, `next_id` above all of them.
    Book(std::vector<Reservation> entries, std::uint64_t next_id);

    [[nodiscard]] const std::vector<Reservation>& entries() const { return entries_; }
    [[nodiscard]] std::uint64_t next_id() const { return next_id_; }
    [[nodiscard]] const Reservation* find(std::uint64_t id) const;

    // Whether it could be served if every zone gave what it can: nothing, or why not, as a sentence
    // that says what is missing and what to do. Who waits already comes first.
    [[nodiscard]] std::optional<std::string> objection(const Reservation& asked,
                                                       const StartSupply& supply) const;

    // Puts it at the queue's end, waiting. Returns its id.
    std::uint64_t add(Reservation asked);

    // Grants to the head of the queue, and so on, while `free_kib` lasts: what is free in Xen and
    // promised to no one, with held_kib() already taken off. Returns the ids, in order.
    std::vector<std::uint64_t> grant(std::uint64_t free_kib);

    // Takes note of how far domains have come, and ends what is over. `domains` are all there are.
    std::vector<EndedReservation> follow(const std::vector<StartedDomain>& domains);
    // Ends what is too late. To be called after grant(): who would not wait has had its chance
    // then.
    std::vector<EndedReservation> expire(std::int64_t now_ms);

    // That process has ended. Takes effect at the next follow(), which knows whether its domain
    // came before that.
    void owner_ended(int pid, std::uint64_t pid_started);
    std::optional<EndedReservation> release(std::uint64_t id);
    // So much of it has become somebody's, and is not free any more: for one that names no domain.
    void use(std::uint64_t id, std::uint64_t kib);
    // All of it has: it ends.
    std::optional<EndedReservation> hand_over(std::uint64_t id);

    // Free memory that is promised: not to be given to anybody else.
    [[nodiscard]] std::uint64_t held_kib() const;
    // The part of it that waits for the domain with this uuid.
    [[nodiscard]] std::uint64_t held_kib(std::string_view uuid) const;
    // What those that wait ask for, together.
    [[nodiscard]] std::uint64_t waiting_kib() const;
    // When expire() has something to do though nothing happens; nothing: never.
    [[nodiscard]] std::optional<std::int64_t> next_ms() const;

  private:
    std::vector<Reservation> entries_;
    std::uint64_t next_id_ = 1;
};

[[nodiscard]] std::uint64_t held_kib(const Reservation& reservation);
[[nodiscard]] std::string_view name_of(ReservationState state);
// For a person: "its owner has ended".
[[nodiscard]] std::string_view sentence_of(Ending why);
// "web needs 612 MiB; 120 MiB are free to give, ...: what to do"; `ahead_kib` is what others wait
// for who asked before.
[[nodiscard]] std::string shortage_sentence(const Reservation& asked, const StartSupply& supply,
                                            std::uint64_t ahead_kib);

}  // namespace xenpack
