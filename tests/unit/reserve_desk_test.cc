// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/reserve/{desk,book_file,process}.h promise: answers, owners and their ends, and that
// a restart forgets no promise. On a real loop, with real processes and files.
#include "watcher/reserve/desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/unit/http_client_fixture.h"
#include "watcher/reserve/book_file.h"

namespace xenpack {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_until;

constexpr std::uint64_t kMib = 1024;
constexpr StartSupply kPlenty{1000 * kMib, 0};

// A process that waits to be killed.
class Child {
  public:
    Child() : pid_(fork()) {
        if (pid_ == 0) {
            for (;;) {
                pause();
            }
        }
    }
    ~Child() { end(); }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void end() {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
            pid_ = -1;
        }
    }
    [[nodiscard]] int pid() const { return pid_; }

  private:
    pid_t pid_;
};

struct FakeWatcher final : Desk::Mediator {
    void reservations_changed() override { ++looks; }
    void reservation_said(const std::string& sentence) override { said.push_back(sentence); }
    void reservation_answered(std::uint64_t caller, const Reservation& reservation,
                              const Expected<void>& granted) override {
        answers.emplace_back(caller, granted ? "granted" : granted.error().what);
        last = reservation;
    }

    int looks = 0;
    std::vector<std::string> said;
    std::vector<std::pair<std::uint64_t, std::string>> answers;
    Reservation last;
};

class DeskTest : public ::testing::Test {
  protected:
    DeskTest() { restart(); }

    void restart() {
        desk_.reset();
        desk_ = std::make_unique<Desk>(loop_, path_, watcher_);
        desk_->take_up();
    }
    Reservation wanting(std::uint64_t mib, int pid = 0, const std::string& uuid = "") {
        Reservation r;
        r.size_kib = mib * kMib;
        r.owner = "web";
        r.pid = pid;
        r.uuid = uuid;
        r.wait_until_ms = Loop::now_ms() + 60'000;
        r.deadline_ms = Loop::now_ms() + 90'000;
        return r;
    }
    // As the watcher does, with so much free in Xen.
    void look(std::uint64_t free_mib, const std::vector<StartedDomain>& domains = {}) {
        desk_->follow(domains);
        const std::uint64_t held = desk_->book().held_kib();
        desk_->grant(free_mib * kMib - std::min(free_mib * kMib, held));
        desk_->expire({free_mib * kMib, 0});
    }
    bool looks_again() {
        const int before = watcher_.looks;
        return run_until(loop_, [&] { return watcher_.looks > before; });
    }

    testing::TemporaryDirectory directory_;
    std::string path_ = directory_ / "reservations.json";
    Loop loop_;
    FakeWatcher watcher_;
    std::unique_ptr<Desk> desk_;
};

TEST_F(DeskTest, AnswersWhenTheMemoryIsThereAndInOrder) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    ASSERT_TRUE(desk_->ask(wanting(50), kPlenty, 2));
    EXPECT_GT(watcher_.looks, 0);
    look(60);
    EXPECT_THAT(watcher_.answers, IsEmpty());
    look(120);
    EXPECT_THAT(watcher_.answers, ElementsAre(std::pair(1ul, "granted")));
    look(150);
    EXPECT_THAT(watcher_.answers, Contains(std::pair(2ul, "granted")));
    EXPECT_EQ(desk_->book().held_kib(), 150 * kMib);
}

TEST_F(DeskTest, WhatIsUsedBitByBitIsHandedOverInTheEnd) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    look(100);
    const std::uint64_t id = watcher_.last.id;
    desk_->use(id, 60 * kMib);
    EXPECT_EQ(desk_->book().held_kib(), 40 * kMib);
    watcher_.said.clear();
    desk_->hand_over(id);
    EXPECT_EQ(desk_->book().held_kib(), 0U);
    EXPECT_THAT(watcher_.said, ElementsAre("web has the 100 MiB that were kept for it"));
    desk_->use(id, kMib);
    desk_->hand_over(id);
    EXPECT_EQ(watcher_.said.size(), 1U);
}

TEST_F(DeskTest, RefusesAtOnceWhatCouldNotBeServed) {
    const auto refused = desk_->ask(wanting(2000), kPlenty, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_THAT(refused.error().what, HasSubstr("1000 MiB are missing"));
    EXPECT_THAT(desk_->book().entries(), IsEmpty());
}

TEST_F(DeskTest, OfWhoDoesNotWaitNothingIsSaidInTheJournal) {
    Reservation at_once = wanting(100);
    at_once.wait_until_ms = Loop::now_ms();
    at_once.at_once = true;
    ASSERT_TRUE(desk_->ask(at_once, kPlenty, 1));
    look(60);
    ASSERT_EQ(watcher_.answers.size(), 1U);
    EXPECT_THAT(watcher_.answers.front().second, HasSubstr("web needs 100 MiB"));
    EXPECT_THAT(watcher_.said, IsEmpty());
}

// Whoever asks, the daemon's looks stay short and its descriptors enough.
TEST_F(DeskTest, ThereAreOnlySoManyReservations) {
    std::vector<Reservation> many(kMostReservations, wanting(0));
    for (std::size_t i = 0; i < many.size(); ++i) {
        many[i].id = i + 1;
        many[i].state = ReservationState::granted;
    }
    ASSERT_TRUE(store_book(path_, Book(many, many.size() + 1)));
    restart();
    const auto refused = desk_->ask(wanting(1), kPlenty, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EAGAIN);
    EXPECT_THAT(refused.error().what, HasSubstr("1024 reservations"));
    ASSERT_TRUE(desk_->release(1));
    EXPECT_TRUE(desk_->ask(wanting(1), kPlenty, 2));
}

TEST_F(DeskTest, WhoWaitsInVainIsToldWhatWasMissing) {
    Reservation brief = wanting(100);
    brief.wait_until_ms = Loop::now_ms();
    ASSERT_TRUE(desk_->ask(brief, kPlenty, 1));
    ASSERT_TRUE(looks_again());
    look(60);
    ASSERT_EQ(watcher_.answers.size(), 1u);
    EXPECT_THAT(watcher_.answers[0].second,
                HasSubstr("web needs 100 MiB; 60 MiB are free to give"));
    EXPECT_THAT(watcher_.answers[0].second, HasSubstr("did not become free in time"));
}

TEST_F(DeskTest, WhoHangsUpIsOutOfTheQueue) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    ASSERT_TRUE(desk_->ask(wanting(50), kPlenty, 2));
    desk_->caller_gone(1);
    look(60);
    EXPECT_THAT(watcher_.answers, ElementsAre(std::pair(2ul, "granted")));
    EXPECT_EQ(desk_->book().entries().size(), 1u);
    desk_->caller_gone(2);  // it has its answer, and need not stay connected
    EXPECT_EQ(desk_->book().entries().size(), 1u);
}

TEST_F(DeskTest, TheOwnersEndReleases) {
    Child owner;
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid()), kPlenty, 1));
    look(100);
    EXPECT_EQ(desk_->book().held_kib(), 100 * kMib);
    owner.end();
    ASSERT_TRUE(looks_again());
    look(100);
    EXPECT_EQ(desk_->book().held_kib(), 0u);
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("its owner has ended")));
}

TEST_F(DeskTest, TheOwnersEndDoesNotEndATransfer) {
    Child owner;
    Reservation r = wanting(104, owner.pid(), "a");
    r.overhead_kib = 4 * kMib;
    ASSERT_TRUE(desk_->ask(r, kPlenty, 1));
    look(200);
    owner.end();
    ASSERT_TRUE(looks_again());
    look(150, {{"a", 50 * kMib, 0, std::nullopt, false}});
    EXPECT_EQ(desk_->book().held_kib(), 50 * kMib);
    look(100, {{"a", 100 * kMib, 0, std::nullopt, true}});
    EXPECT_THAT(desk_->book().entries(), IsEmpty());
}

TEST_F(DeskTest, AnOwnerThatIsNoMoreGetsNothing) {
    Child owner;
    const int pid = owner.pid();
    owner.end();
    const auto asked = desk_->ask(wanting(100, pid), kPlenty, 1);
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, ESRCH);
}

TEST_F(DeskTest, ADeadlineIsSaidAndReleases) {
    Reservation brief = wanting(100);
    brief.deadline_ms = Loop::now_ms() + 1500;
    ASSERT_TRUE(desk_->ask(brief, kPlenty, 1));
    look(100);
    EXPECT_EQ(desk_->book().held_kib(), 100 * kMib);
    ASSERT_TRUE(looks_again());
    look(100);
    EXPECT_EQ(desk_->book().held_kib(), 0u);
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("its deadline has passed")));
}

TEST_F(DeskTest, ReleasesByItsIdOnce) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    look(100);
    const std::uint64_t id = watcher_.last.id;
    EXPECT_TRUE(desk_->release(id));
    EXPECT_EQ(desk_->book().held_kib(), 0u);
    EXPECT_EQ(desk_->release(id).error().code, ENOENT);
}

TEST_F(DeskTest, ReleasingWhatWaitsAnswersIt) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    EXPECT_TRUE(desk_->release(desk_->book().entries()[0].id));
    ASSERT_EQ(watcher_.answers.size(), 1u);
    EXPECT_THAT(watcher_.answers[0].second, HasSubstr("released"));
}

TEST_F(DeskTest, OneDomainHasOneReservation) {
    Child one;
    Child two;
    ASSERT_TRUE(desk_->ask(wanting(100, one.pid(), "a"), kPlenty, 1));
    EXPECT_EQ(desk_->ask(wanting(100, two.pid(), "a"), kPlenty, 2).error().code, EBUSY);
}

TEST_F(DeskTest, WhoAsksTheSameAgainLeavesNoRequestWithoutAnAnswer) {
    ASSERT_TRUE(desk_->ask(wanting(100, getpid(), "a"), kPlenty, 1));
    ASSERT_TRUE(desk_->ask(wanting(100, getpid(), "a"), kPlenty, 2));
    ASSERT_EQ(watcher_.answers.size(), 1u);
    EXPECT_EQ(watcher_.answers[0].first, 1u);
    EXPECT_THAT(watcher_.answers[0].second, HasSubstr("asked for the same again"));
    desk_->caller_gone(1);
    EXPECT_EQ(desk_->book().entries().size(), 1u) << "it is the second one's now";
    look(100);
    EXPECT_EQ(watcher_.answers.back(), std::pair(2ul, std::string("granted")));
}

TEST_F(DeskTest, NothingWasKeptForWhoHangsUpWhileItWaits) {
    ASSERT_TRUE(desk_->ask(wanting(100, getpid()), kPlenty, 1));
    desk_->caller_gone(1);
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("waits for 100 MiB no more")));
}

// Nothing is told to the first desk: it is as if its process had been killed.
TEST_F(DeskTest, ARestartForgetsNothing) {
    Child owner;
    Reservation first = wanting(104, owner.pid(), "a");
    first.overhead_kib = 4 * kMib;
    ASSERT_TRUE(desk_->ask(first, kPlenty, 1));
    look(200);
    ASSERT_TRUE(desk_->ask(wanting(500, owner.pid(), "b"), kPlenty, 2));
    restart();
    EXPECT_EQ(desk_->book().held_kib(), 104 * kMib);
    EXPECT_EQ(desk_->book().waiting_kib(), 500 * kMib);
    // In its old place, before one that asks since.
    ASSERT_TRUE(desk_->ask(wanting(10), kPlenty, 3));
    ASSERT_TRUE(desk_->ask(wanting(500, owner.pid(), "b"), kPlenty, 4));
    EXPECT_EQ(desk_->book().entries().size(), 3u);
    watcher_.answers.clear();
    look(604);
    EXPECT_THAT(watcher_.answers, ElementsAre(std::pair(4ul, "granted")));
    // What is granted already is told again to its owner.
    ASSERT_TRUE(desk_->ask(wanting(104, owner.pid(), "a"), kPlenty, 5));
    EXPECT_TRUE(run_until(loop_, [&] { return watcher_.answers.size() == 2; }));
    EXPECT_EQ(watcher_.answers[1], std::pair(5ul, std::string("granted")));
    owner.end();
    ASSERT_TRUE(looks_again());
    look(100, {{"a", 50 * kMib, 0, std::nullopt, false}});
    EXPECT_EQ(desk_->book().held_kib("a"), 50 * kMib)
        << "a transfer, and one that has no owner to lose";
}

TEST_F(DeskTest, WithoutADomainOnlyARestartMakesItTheSameRequestAgain) {
    Child owner;
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid()), kPlenty, 1));
    look(100);
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid()), kPlenty, 2));
    EXPECT_EQ(desk_->book().entries().size(), 2u) << "it may want two of them";
    restart();
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid()), kPlenty, 3));
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid()), kPlenty, 4));
    EXPECT_EQ(desk_->book().entries().size(), 2u);
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid()), kPlenty, 5));
    EXPECT_EQ(desk_->book().entries().size(), 3u);
}

TEST_F(DeskTest, AnOwnerThatEndedMeanwhileIsReleasedAfterARestart) {
    Child owner;
    ASSERT_TRUE(desk_->ask(wanting(100, owner.pid(), "a"), kPlenty, 1));
    look(100);
    desk_.reset();
    owner.end();
    restart();
    look(100, {});
    EXPECT_EQ(desk_->book().held_kib(), 0u);
}

TEST_F(DeskTest, AnotherProcessOfTheSameNumberIsNotTheOwner) {
    Child owner;
    Reservation r = wanting(100, owner.pid());
    r.id = 1;
    r.pid_started = *process_started(owner.pid()) - 1;
    r.state = ReservationState::granted;
    ASSERT_TRUE(store_book(path_, Book({r}, 2)));
    restart();
    look(100);
    EXPECT_THAT(desk_->book().entries(), IsEmpty());
}

TEST_F(DeskTest, ABookThatCannotBeReadIsSaidAndStartsEmpty) {
    std::ofstream(path_) << "{\"boot\": ";
    restart();
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("damaged")));
    EXPECT_THAT(desk_->book().entries(), IsEmpty());
    look(100);
    EXPECT_THAT(desk_->faults(), ElementsAre(AllOf(HasSubstr("damaged"), HasSubstr("xl list"))));
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    EXPECT_THAT(desk_->faults(), IsEmpty());
    EXPECT_TRUE(load_book(path_));
}

// Sizes whose sum is nothing would promise all memory again.
TEST_F(DeskTest, ABookWithNumbersThatItNeverHasIsDamaged) {
    ASSERT_TRUE(store_book(path_, Book({wanting(100)}, 2)));
    std::string good;
    std::getline(std::ifstream(path_), good, '\0');
    const std::string size = "\"size_kib\": 102400";
    ASSERT_NE(good.find(size), std::string::npos);
    ASSERT_TRUE(load_book(path_));
    for (const char* wrong : {"-5", "18446744073709551615", "1e30", "1.5", "null"}) {
        std::string text = good;
        text.replace(good.find(size), size.size(), std::string("\"size_kib\": ") + wrong);
        std::ofstream(path_) << text;
        const auto book = load_book(path_);
        ASSERT_FALSE(book) << wrong;
        EXPECT_THAT(book.error().what, HasSubstr("size_kib")) << wrong;
    }
}

// To release one by its id would leave the other, or take the wrong one.
TEST_F(DeskTest, ABookInWhichTwoHaveOneIdIsDamaged) {
    Reservation first = wanting(1);
    first.id = 3;
    Reservation second = wanting(2);
    second.id = 4;
    ASSERT_TRUE(store_book(path_, Book({first, second}, 5)));
    ASSERT_TRUE(load_book(path_));
    second.id = 3;
    ASSERT_TRUE(store_book(path_, Book({first, second}, 5)));
    EXPECT_THAT(load_book(path_).error().what, HasSubstr("ids do not ascend"));
    second.id = 5;
    ASSERT_TRUE(store_book(path_, Book({first, second}, 5)));
    EXPECT_THAT(load_book(path_).error().what, HasSubstr("next_id, 5, is in use"));
}

// Opened as a file it would hold up the daemon's start for ever.
TEST_F(DeskTest, ABookThatIsAPipeIsDamaged) {
    ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
    EXPECT_THAT(load_book(path_).error().what, HasSubstr("no regular file"));
}

TEST_F(DeskTest, ABookThatCannotBeWrittenIsSaidAndThePromiseHolds) {
    std::filesystem::create_directory(path_);
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("would not survive a restart")));
    look(100);
    EXPECT_THAT(watcher_.answers, ElementsAre(std::pair(1ul, "granted")));
}

// As once a full disk has room again; what was said of it is not said at each look.
TEST_F(DeskTest, ABookThatCouldNotBeWrittenIsWrittenLater) {
    std::filesystem::create_directory(path_);
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    look(100);
    look(100);
    EXPECT_EQ(std::ranges::count_if(
                  watcher_.said,
                  [](const auto& line) { return line.find("not survive") != std::string::npos; }),
              1);
    EXPECT_THAT(desk_->faults(), ElementsAre(HasSubstr("not survive a restart")));
    std::filesystem::remove(path_);
    look(100);
    EXPECT_EQ(load_book(path_).value().held_kib(), 100 * kMib);
    EXPECT_THAT(desk_->faults(), IsEmpty());
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("on disk again")));
}

// The last one has gone, and still stands in the book: nothing else would bring a look about.
TEST_F(DeskTest, ABookThatIsEmptyAndCouldNotBeWrittenIsWrittenLaterToo) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    look(100);
    std::filesystem::remove(path_);
    std::filesystem::create_directory(path_);
    ASSERT_TRUE(desk_->release(desk_->book().entries().front().id));
    EXPECT_THAT(desk_->faults(), ElementsAre(HasSubstr("not survive a restart")));
    std::filesystem::remove(path_);
    look(100);
    EXPECT_THAT(desk_->faults(), IsEmpty());
    EXPECT_TRUE(book_is_there(path_));
}

TEST_F(DeskTest, ABookThatSomebodyRemovedIsWrittenAgain) {
    ASSERT_TRUE(desk_->ask(wanting(100), kPlenty, 1));
    look(100);
    std::filesystem::remove(path_);
    look(100);
    EXPECT_EQ(load_book(path_).value().held_kib(), 100 * kMib);
    EXPECT_THAT(watcher_.said, Contains(HasSubstr("removed " + path_)));
}

TEST_F(DeskTest, TheBookIsForItsOwnerOnlyAndKeepsAllThereIs) {
    Reservation r;
    r.id = 41;
    r.size_kib = 1;
    r.overhead_kib = 2;
    r.owner = "\xff name \" with all";
    r.pid = 3;
    r.pid_started = 4;
    r.uuid = "u";
    r.wait_until_ms = 5;
    r.deadline_ms = 6;
    r.state = ReservationState::in_transfer;
    r.taken_kib = 7;
    r.owner_gone = true;
    ASSERT_TRUE(store_book(path_, Book({r}, 42)));
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    const Book book = load_book(path_).value();
    EXPECT_EQ(book.next_id(), 42u);
    ASSERT_EQ(book.entries().size(), 1u);
    const Reservation& read = book.entries()[0];
    EXPECT_EQ(
        std::tie(read.id, read.size_kib, read.overhead_kib, read.pid, read.pid_started, read.uuid,
                 read.wait_until_ms, read.deadline_ms, read.state, read.taken_kib, read.owner_gone),
        std::tie(r.id, r.size_kib, r.overhead_kib, r.pid, r.pid_started, r.uuid, r.wait_until_ms,
                 r.deadline_ms, r.state, r.taken_kib, r.owner_gone));
    EXPECT_THAT(read.owner, HasSubstr("name \" with all"));
}

TEST_F(DeskTest, ABookOfAnEarlierBootIsEmpty) {
    ASSERT_TRUE(store_book(path_, Book({wanting(100)}, 2)));
    std::string text;
    std::getline(std::ifstream(path_), text, '\0');
    const std::size_t at = text.find("\"boot\": \"") + 9;
    text[at] = text[at] == '0' ? '1' : '0';
    std::ofstream(path_) << text;
    EXPECT_THAT(load_book(path_).value().entries(), IsEmpty());
}

TEST(Process, BeganAtATimeOfItsOwnWhateverItsName) {
    EXPECT_TRUE(process_started(getpid()));
    EXPECT_FALSE(process_started(-5));
    const Child child;
    EXPECT_GE(*process_started(child.pid()), *process_started(getpid()));
}

}  // namespace
}  // namespace xenpack
