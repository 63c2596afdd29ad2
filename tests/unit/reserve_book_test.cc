// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/reserve/book.h promises: order, hand-over without counting twice, deadlines; and
// over many random steps, that promised memory is never used twice.
#include "watcher/reserve/book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace xenpack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t kMib = 1024;

Reservation wanting(std::uint64_t mib, const std::string& uuid = "") {
    Reservation r;
    r.size_kib = mib * kMib;
    r.owner = "web";
    r.uuid = uuid;
    r.pid = 7;
    r.pid_started = 70;
    r.wait_until_ms = 1'000;
    r.deadline_ms = 10'000;
    return r;
}

// One whose domain shall have `mib`, and whose overhead is 4 MiB more.
Reservation starting(std::uint64_t mib, const std::string& uuid) {
    Reservation r = wanting(mib + 4, uuid);
    r.overhead_kib = 4 * kMib;
    return r;
}

StartedDomain domain(const std::string& uuid, std::uint64_t current_mib, bool ran = false) {
    return {uuid, current_mib * kMib, 0, std::nullopt, ran};
}

std::vector<Ending> endings(const std::vector<EndedReservation>& ended) {
    std::vector<Ending> list;
    for (const EndedReservation& e : ended) {
        list.push_back(e.why);
    }
    return list;
}

TEST(Book, GrantsInOrderOfArrivalAndNobodyBeforeTheFirst) {
    Book book;
    const auto big = book.add(wanting(500));
    const auto small = book.add(wanting(10));
    EXPECT_THAT(book.grant(499 * kMib), IsEmpty());
    EXPECT_EQ(book.waiting_kib(), 510 * kMib);
    EXPECT_THAT(book.grant(509 * kMib), ElementsAre(big));
    EXPECT_EQ(book.held_kib(), 500 * kMib);
    EXPECT_THAT(book.grant(10 * kMib), ElementsAre(small));
    EXPECT_THAT(book.grant(1000 * kMib), IsEmpty());
    EXPECT_EQ(book.waiting_kib(), 0u);
}

TEST(Book, GrantsNoMoreThanIsFreeThoughSeveralWouldFit) {
    Book book;
    for (int i = 0; i < 3; ++i) {
        book.add(wanting(100));
    }
    EXPECT_EQ(book.grant(250 * kMib).size(), 2u);
    EXPECT_EQ(book.held_kib(), 200 * kMib);
}

TEST(Book, RefusesWhatCouldNotBeServedAndSaysWhatIsMissing) {
    Book book;
    const StartSupply supply{120 * kMib, 230 * kMib};
    EXPECT_FALSE(book.objection(wanting(350), supply));
    const auto objection = book.objection(wanting(612), supply);
    ASSERT_TRUE(objection);
    EXPECT_THAT(*objection, HasSubstr("web needs 612 MiB; 120 MiB are free to give, other zones "
                                      "could give 230 MiB down to what they need, 262 MiB are "
                                      "missing: "));
    EXPECT_THAT(*objection, Not(HasSubstr("asked before")));
}

TEST(Book, WhoWaitsAlreadyComesBeforeANewRequest) {
    Book book;
    book.add(wanting(300));
    const StartSupply supply{120 * kMib, 230 * kMib};
    EXPECT_FALSE(book.objection(wanting(50), supply));
    const auto objection = book.objection(wanting(51), supply);
    ASSERT_TRUE(objection);
    EXPECT_THAT(*objection, HasSubstr("asked before wait for 300 MiB, 1 MiB are missing"));
}

// A set of forks: it names no domain, and says itself how far it is.
TEST(Book, WhatOneThatNamesNoDomainHasUsedIsNotHeldBackAsWell) {
    Book book;
    const auto id = book.add(wanting(40));
    ASSERT_THAT(book.grant(40 * kMib), ElementsAre(id));
    book.use(id, 8 * kMib);
    EXPECT_EQ(book.held_kib(), 32 * kMib);
    EXPECT_THAT(book.follow({}), IsEmpty());
    EXPECT_EQ(book.held_kib(), 32 * kMib) << "nobody forgets it";
    book.use(id, 100 * kMib);
    EXPECT_EQ(book.held_kib(), 0U);
    const auto ended = book.hand_over(id);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->why, Ending::handed_over);
    EXPECT_FALSE(book.hand_over(id));
    book.use(id, kMib);
}

TEST(Book, ADomainsPagesAreNotHeldBackAsWell) {
    Book book;
    book.add(starting(200, "a"));
    ASSERT_EQ(book.grant(300 * kMib).size(), 1u);
    EXPECT_EQ(book.held_kib(), 204 * kMib);
    EXPECT_THAT(book.follow({domain("b", 100)}), IsEmpty());
    EXPECT_EQ(book.held_kib(), 204 * kMib);
    EXPECT_THAT(book.follow({domain("a", 0)}), IsEmpty());
    EXPECT_EQ(book.entries()[0].state, ReservationState::in_transfer);
    EXPECT_EQ(book.held_kib(), 204 * kMib) << "it has not taken anything";
    EXPECT_THAT(book.follow({domain("a", 50)}), IsEmpty());
    EXPECT_EQ(book.held_kib(), 150 * kMib) << "its overhead was taken before its first page";
    StartedDomain claiming = domain("a", 100);
    claiming.claimed_kib = 90 * kMib;
    EXPECT_THAT(book.follow({claiming}), IsEmpty());
    EXPECT_EQ(book.held_kib(), 10 * kMib) << "what Xen has set aside is in nobody's free memory";
    EXPECT_EQ(book.held_kib("a"), 10 * kMib);
    EXPECT_EQ(book.held_kib("b"), 0u);
    EXPECT_THAT(book.follow({domain("a", 205)}), IsEmpty());
    EXPECT_EQ(book.held_kib(), 0u) << "more than it asked for is no debt of others";
    EXPECT_THAT(endings(book.follow({domain("a", 200, true)})), ElementsAre(Ending::handed_over));
    EXPECT_THAT(book.entries(), IsEmpty());
}

TEST(Book, ATransferEndsWhenTheDomainRunsAndHasItsMemoryAndNotBefore) {
    Book book;
    book.add(starting(200, "a"));
    ASSERT_EQ(book.grant(300 * kMib).size(), 1u);
    EXPECT_THAT(book.follow({domain("a", 200, false)}), IsEmpty()) << "it is being built";
    EXPECT_THAT(book.follow({domain("a", 150, true)}), IsEmpty()) << "it lacks 50 MiB";
    StartedDomain shrunk = domain("a", 150, true);
    shrunk.target_kib = 150 * kMib;
    EXPECT_THAT(endings(book.follow({shrunk})), ElementsAre(Ending::handed_over));
}

TEST(Book, ATransferEndsWhenItsDomainGoes) {
    Book book;
    book.add(starting(200, "a"));
    book.grant(300 * kMib);
    book.follow({domain("a", 100)});
    EXPECT_THAT(endings(book.follow({domain("b", 100)})), ElementsAre(Ending::domain_gone));
}

TEST(Book, AnOwnersEndReleasesWhatHasNoDomain) {
    Book book;
    book.add(wanting(100));
    Reservation others = wanting(100);
    others.pid_started = 71;  // the same number, another process
    book.add(others);
    book.grant(100 * kMib);
    book.owner_ended(7, 70);
    EXPECT_EQ(book.held_kib(), 100 * kMib) << "its domain may have come: a look decides";
    EXPECT_THAT(endings(book.follow({})), ElementsAre(Ending::owner_ended));
    EXPECT_EQ(book.held_kib(), 0u);
    EXPECT_EQ(book.entries().size(), 1u);
}

TEST(Book, AnOwnersEndDoesNotEndATransfer) {
    Book book;
    book.add(starting(200, "a"));
    book.grant(300 * kMib);
    book.owner_ended(7, 70);
    EXPECT_THAT(book.follow({domain("a", 100)}), IsEmpty());
    EXPECT_EQ(book.held_kib(), 100 * kMib);
    // Paused when its owner left it: it may not run for days.
    EXPECT_THAT(endings(book.follow({domain("a", 200)})), ElementsAre(Ending::handed_over));
}

TEST(Book, ADomainThatDidNotWaitEndsItsRequest) {
    Book book;
    book.add(starting(200, "a"));
    EXPECT_THAT(endings(book.follow({domain("a", 0)})), ElementsAre(Ending::came_without));
}

TEST(Book, NobodyWaitsLongerThanItSaidNorHoldsLonger) {
    Book book;
    book.add(wanting(100));
    book.add(wanting(200));
    EXPECT_EQ(book.next_ms(), 1'000);
    book.grant(100 * kMib);
    EXPECT_THAT(book.expire(999), IsEmpty());
    EXPECT_THAT(endings(book.expire(1'000)), ElementsAre(Ending::waited));
    EXPECT_EQ(book.next_ms(), 10'000);
    EXPECT_THAT(book.expire(9'999), IsEmpty());
    EXPECT_THAT(endings(book.expire(10'000)), ElementsAre(Ending::deadline));
    EXPECT_FALSE(book.next_ms());
}

TEST(Book, WhoDoesNotWaitAtAllIsGrantedWhatIsFreeNow) {
    Book book;
    Reservation now = wanting(100);
    now.wait_until_ms = 0;
    const auto id = book.add(now);
    EXPECT_THAT(book.follow({}), IsEmpty());
    EXPECT_THAT(book.grant(100 * kMib), ElementsAre(id));
    EXPECT_THAT(book.expire(0), IsEmpty());
}

TEST(Book, ADeadlineEndsATransferToo) {
    Book book;
    book.add(starting(200, "a"));
    book.grant(300 * kMib);
    book.follow({domain("a", 100)});
    EXPECT_THAT(endings(book.expire(10'000)), ElementsAre(Ending::deadline));
}

TEST(Book, ReleaseFreesOnceAndOnlyWhatThereIs) {
    Book book;
    const auto id = book.add(wanting(100));
    book.grant(100 * kMib);
    const auto ended = book.release(id);
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->why, Ending::released);
    EXPECT_EQ(book.held_kib(), 0u);
    EXPECT_FALSE(book.release(id));
    EXPECT_NE(book.add(wanting(1)), id) << "an id is never used again";
}

// ---- Random steps: a host on which domains are started, some through the book, some fail
// half-way.

class RandomHost {
  public:
    explicit RandomHost(unsigned seed) : random_(seed) {}

    void step() {
        switch (pick(8)) {
            case 0:
            case 1:
                ask();
                break;
            case 2:
            case 3:
            case 4:
                build();
                break;
            case 5:
                fail_one();
                break;
            case 6:
                die();
                break;
            case 7:
                if (pick(10) == 0) {  // a restart of the daemon
                    book_ = Book(book_.entries(), book_.next_id());
                }
                break;
        }
        look();
    }

    [[nodiscard]] std::uint64_t granted() const { return granted_; }
    [[nodiscard]] std::uint64_t completed() const { return completed_; }

  private:
    struct Start {
        std::uint64_t memory_kib;
        std::uint64_t overhead_kib;
        std::uint64_t current_kib = 0;
        bool exists = false;
        bool ran = false;
        int pid = 0;
    };

    std::uint64_t pick(std::uint64_t n) {
        return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random_);
    }

    void ask() {
        Start start{(1 + pick(64)) * kMib, pick(4) * kMib};
        start.pid = ++last_pid_;
        Reservation r = wanting(0, "uuid-" + std::to_string(last_pid_));
        r.size_kib = start.memory_kib + start.overhead_kib;
        r.overhead_kib = start.overhead_kib;
        r.pid = start.pid;
        r.wait_until_ms = now_ms_ + 50;
        r.deadline_ms = now_ms_ + 200 + static_cast<std::int64_t>(pick(200));
        const StartSupply supply{free_kib_ - book_.held_kib(), 0};
        if (!book_.objection(r, supply) || pick(2) == 0) {
            book_.add(r);
            starts_[r.uuid] = start;
        }
    }

    // Every start with a promise may take what is still to come, whenever it likes.
    void build() {
        for (const Reservation& r : book_.entries()) {
            const auto it = starts_.find(r.uuid);
            if (r.state == ReservationState::waiting || it == starts_.end() || pick(2) == 0) {
                continue;
            }
            Start& start = it->second;
            if (!start.exists || start.current_kib == 0) {
                take(start.overhead_kib, r);
            }
            start.exists = true;
            const std::uint64_t more =
                std::min(start.memory_kib - start.current_kib, (1 + pick(16)) * kMib);
            take(more, r);
            start.current_kib += more;
            start.ran = start.current_kib == start.memory_kib;
        }
    }

    void take(std::uint64_t kib, const Reservation& r) {
        ASSERT_GE(free_kib_, kib) << "memory promised to " << r.uuid << " was used twice";
        free_kib_ -= kib;
    }

    // A creation fails: its pages come back, and its process ends.
    void fail_one() {
        for (auto& [uuid, start] : starts_) {
            if (start.exists && !start.ran && pick(4) == 0) {
                free_kib_ += start.current_kib + start.overhead_kib;
                start = {start.memory_kib, start.overhead_kib, 0, false, false, start.pid};
                book_.owner_ended(start.pid, 70);
                return;
            }
        }
    }

    void die() {
        for (auto it = starts_.begin(); it != starts_.end(); ++it) {
            if (it->second.ran && pick(3) == 0) {
                free_kib_ += it->second.current_kib + it->second.overhead_kib;
                starts_.erase(it);
                return;
            }
        }
    }

    void look() {
        ++now_ms_;
        std::vector<StartedDomain> domains;
        for (const auto& [uuid, start] : starts_) {
            if (start.exists) {
                domains.push_back({uuid, start.current_kib, 0, std::nullopt, start.ran});
            }
        }
        forget(book_.follow(domains));
        ASSERT_LE(book_.held_kib(), free_kib_) << "more is promised than there is";
        granted_ += book_.grant(free_kib_ - book_.held_kib()).size();
        ASSERT_LE(book_.held_kib(), free_kib_) << "granted what was not there";
        forget(book_.expire(now_ms_));
    }

    // A start without a promise does not go on: what it has begun is taken down.
    void forget(const std::vector<EndedReservation>& ended) {
        for (const EndedReservation& e : ended) {
            completed_ += e.why == Ending::handed_over ? 1 : 0;
            const auto it = starts_.find(e.reservation.uuid);
            if (e.why == Ending::handed_over || it == starts_.end()) {
                continue;
            }
            if (it->second.exists) {
                free_kib_ += it->second.current_kib +
                             (it->second.current_kib > 0 ? it->second.overhead_kib : 0);
            }
            starts_.erase(it);
        }
    }

    std::mt19937 random_;
    std::uint64_t free_kib_ = 512 * kMib;
    std::int64_t now_ms_ = 0;
    int last_pid_ = 0;
    Book book_;
    std::map<std::string, Start> starts_;
    std::uint64_t granted_ = 0;
    std::uint64_t completed_ = 0;
};

TEST(Book, PromisedMemoryIsNeverUsedTwiceInRandomSequences) {
    std::uint64_t granted = 0;
    std::uint64_t completed = 0;
    for (unsigned seed = 1; seed <= 20; ++seed) {
        RandomHost host(seed);
        for (int i = 0; i < 5'000; ++i) {
            host.step();
            ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed << ", step " << i;
        }
        granted += host.granted();
        completed += host.completed();
    }
    // It was tried at all.
    EXPECT_GT(granted, 5'000u);
    EXPECT_GT(completed, 2'000u);
}

}  // namespace
}  // namespace xenpack
