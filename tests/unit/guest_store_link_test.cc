// SPDX-License-Identifier: LGPL-2.1-or-later
// StoreLink against the other end of a socket: answers, watches in between, and that silence and
// nonsense end.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

extern "C" {
#include <xen/io/xs_wire.h>
}

#include "watcher/guest/store_link.h"

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kShortMs = 50;

std::string message(std::uint32_t type, const std::string& body) {
    xsd_sockmsg head{};
    head.type = type;
    head.len = static_cast<std::uint32_t>(body.size());
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) + body;
}

// The daemon's answers are put into the socket before they are asked for: the order is the same.
class StoreLinkTest : public testing::Test {
  protected:
    StoreLinkTest() {
        int ends[2] = {-1, -1};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        link_.emplace(Fd(ends[0]), kShortMs);
        daemon_ = Fd(ends[1]);
    }

    void say(const std::string& bytes) const {
        ASSERT_EQ(::write(daemon_.get(), bytes.data(), bytes.size()),
                  static_cast<ssize_t>(bytes.size()));
    }
    std::string heard() const {
        std::string bytes(4096, '\0');
        const ssize_t n = ::recv(daemon_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return bytes;
    }

    std::optional<StoreLink> link_;
    Fd daemon_;
};

TEST_F(StoreLinkTest, ReadsAndWritesNodes) {
    say(message(XS_READ, "value") + message(XS_WRITE, std::string("OK", 3)));
    const auto value = link_->read("a/b");
    ASSERT_TRUE(value);
    EXPECT_EQ(*value, "value");
    EXPECT_EQ(heard(), message(XS_READ, std::string("a/b", 4)));
    EXPECT_TRUE(link_->write("a", "x"));
    EXPECT_EQ(heard(), message(XS_WRITE, std::string("a\0x", 3)));
}

TEST_F(StoreLinkTest, OnlyENOENTMeansThatThereIsNoNode) {
    say(message(XS_ERROR, std::string("ENOENT", 7)) + message(XS_ERROR, std::string("EACCES", 7)));
    const auto absent = link_->read("a");
    ASSERT_TRUE(absent);
    EXPECT_FALSE(*absent);
    const auto refused = link_->read("a");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, "a: xenstore says EACCES");
}

TEST_F(StoreLinkTest, EventsBetweenAnswersAreNoAnswers) {
    const std::string event = message(XS_WATCH_EVENT, std::string("a\0fork", 7));
    say(event + message(XS_WATCH, std::string("OK", 3)) + event + message(XS_READ, "v"));
    EXPECT_TRUE(link_->watch("a"));
    EXPECT_EQ(heard(), message(XS_WATCH, std::string("a\0fork", 7)));
    EXPECT_EQ(**link_->read("a"), "v");
    say(event + event);
    EXPECT_TRUE(link_->take_events());
    say(message(XS_READ, "late"));
    EXPECT_FALSE(link_->take_events()) << "an answer nobody waits for: out of step";
}

TEST_F(StoreLinkTest, SilenceIsAnErrorAfterAWhile) {
    const auto value = link_->read("a");
    ASSERT_FALSE(value);
    EXPECT_EQ(value.error().code, ETIMEDOUT);
    say(message(XS_READ, "value").substr(0, 18));
    const auto half = link_->read("a");
    ASSERT_FALSE(half);
    EXPECT_EQ(half.error().code, ETIMEDOUT);
}

// A fork's clock has gone on for as long as its template was sealed.
TEST_F(StoreLinkTest, WhatIsThereIsHeardHoweverLateItIsLookedAt) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    StoreLink link{Fd(ends[0]), 0};
    daemon_ = Fd(ends[1]);
    say(message(XS_READ, "value"));
    const auto value = link.read("a");
    ASSERT_TRUE(value) << value.error().what;
    EXPECT_EQ(*value, "value");
}

TEST_F(StoreLinkTest, AMessageLongerThanTheProtocolAllowsIsRefused) {
    xsd_sockmsg head{};
    head.type = XS_READ;
    head.len = 0xffffffff;
    say(std::string(reinterpret_cast<const char*>(&head), sizeof head));
    EXPECT_FALSE(link_->read("a"));
}

TEST_F(StoreLinkTest, AClosedConnectionIsAnErrorAndNotAnAbsentNode) {
    ::shutdown(daemon_.get(), SHUT_WR);
    EXPECT_FALSE(link_->read("a"));
    EXPECT_FALSE(link_->take_events());
}

}  // namespace
}  // namespace xenpack::guest
