// SPDX-License-Identifier: LGPL-2.1-or-later
// RequestPipe against a xenstored of a few lines in a thread, which keeps what it was sent and
// answers as it is told to.
#include "watcher/store/request_pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include <xen/io/xs_wire.h>
}

namespace xenpack {
namespace {

using Strings = std::vector<std::string>;

class RequestPipeTest : public testing::Test {
  protected:
    // Answers to a request: "" is "OK"; "EAGAIN" and the like are errors; "-" ends the connection.
    using Answer = std::function<std::string(const std::string& request)>;

    void serve(Answer answer) {
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        pipe_ = std::make_unique<RequestPipe>(ends[0]);
        server_ = std::thread([this, fd = ends[1], answer = std::move(answer)] {
            xsd_sockmsg header{};
            while (recv(fd, &header, sizeof header, MSG_WAITALL) == sizeof header) {
                std::string payload(header.len, '\0');
                if (header.len > 0) {
                    recv(fd, payload.data(), header.len, MSG_WAITALL);
                }
                const std::string said = told(header, payload);
                heard_.push_back(said);
                const std::string reply = answer(said);
                if (reply == "-") {
                    break;
                }
                send_answer(fd, header, reply);
            }
            close(fd);
        });
    }
    void TearDown() override {
        pipe_.reset();
        if (server_.joinable()) {
            server_.join();
        }
    }
    // What the server has heard, once it has ended.
    const Strings& heard() {
        TearDown();
        return heard_;
    }

    static std::string told(const xsd_sockmsg& header, std::string payload) {
        for (char& c : payload) {
            c = c == '\0' ? '|' : c;
        }
        return fmt::format("{} t{} {}", header.type, header.tx_id, payload);
    }
    void send_answer(int fd, xsd_sockmsg header, const std::string& reply) {
        const bool error = reply.starts_with('E');
        std::string payload = reply.empty() ? "OK" : reply;
        if (header.type == XS_TRANSACTION_START && !error) {
            payload = "77";
        }
        payload += '\0';
        if (error) {
            header.type = XS_ERROR;
        }
        header.len = static_cast<std::uint32_t>(payload.size());
        payload.insert(0, reinterpret_cast<const char*>(&header), sizeof header);
        const std::size_t step = in_bytes_ ? 1 : payload.size();
        for (std::size_t at = 0; at < payload.size(); at += step) {
            send(fd, payload.data() + at, step, MSG_NOSIGNAL);
        }
    }

    bool in_bytes_ = false;  // each answer comes a byte at a time
    std::unique_ptr<RequestPipe> pipe_;
    std::thread server_;
    Strings heard_;
};

const std::vector<RequestPipe::Request> kTwo{
    {XS_WRITE, std::string("/a") + '\0' + "1"},
    {XS_SET_PERMS, std::string("/a") + '\0' + "n0" + '\0'}};

TEST_F(RequestPipeTest, SendsATransactionAndEndsIt) {
    serve([](const std::string&) { return ""; });
    EXPECT_TRUE(pipe_->transaction(kTwo));
    EXPECT_EQ(heard(), (Strings{fmt::format("{} t0 |", +XS_TRANSACTION_START),
                                fmt::format("{} t77 /a|1", +XS_WRITE),
                                fmt::format("{} t77 /a|n0|", +XS_SET_PERMS),
                                fmt::format("{} t77 T|", +XS_TRANSACTION_END)}));
}

TEST_F(RequestPipeTest, WhatIsRefusedIsSaidAndNothingIsDone) {
    serve([](const std::string& said) { return said.ends_with("/a|1") ? "ENOSPC" : ""; });
    const auto made = pipe_->transaction(kTwo);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ENOSPC);
    EXPECT_NE(made.error().what.find("/a"), std::string::npos);
    EXPECT_EQ(heard().back(), fmt::format("{} t77 F|", +XS_TRANSACTION_END));
}

TEST_F(RequestPipeTest, AConflictIsSaidAndItCanBeTriedAgain) {
    int ends = 0;
    serve([&ends](const std::string& said) {
        return said.ends_with("T|") && ++ends == 1 ? "EAGAIN" : "";
    });
    const auto first = pipe_->transaction(kTwo);
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().code, EAGAIN);
    EXPECT_TRUE(pipe_->transaction(kTwo));
    EXPECT_EQ(heard().size(), 8U);
}

TEST_F(RequestPipeTest, ManyGoTogetherAndAllAreAnswered) {
    serve([](const std::string&) { return ""; });
    std::vector<RequestPipe::Request> many;
    for (int i = 0; i < 1000; ++i) {
        many.push_back({XS_WRITE, fmt::format("/a/{}", i) + '\0' + std::string(500, 'v')});
    }
    EXPECT_TRUE(pipe_->transaction(many));
    EXPECT_EQ(heard().size(), 1002U);
}

TEST_F(RequestPipeTest, AnswersMayComeInPieces) {
    in_bytes_ = true;
    serve([](const std::string& said) { return said.ends_with("/a|1") ? "ENOSPC" : ""; });
    const auto made = pipe_->transaction(kTwo);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ENOSPC);
    EXPECT_EQ(heard().size(), 4U);
}

TEST_F(RequestPipeTest, WithoutATransactionNothingIsSent) {
    serve([](const std::string&) { return "ENOSPC"; });
    const auto made = pipe_->transaction(kTwo);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ENOSPC);
    EXPECT_EQ(heard().size(), 1U);
}

TEST_F(RequestPipeTest, TheEndOfTheConnectionIsSaid) {
    serve([](const std::string& said) { return said.ends_with("/a|1") ? "-" : ""; });
    const auto made = pipe_->transaction(kTwo);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, EPIPE);
}

TEST_F(RequestPipeTest, ThereMayBeNothingToDo) {
    serve([](const std::string&) { return ""; });
    EXPECT_TRUE(pipe_->transaction({}));
    EXPECT_EQ(heard().size(), 2U);
}

}  // namespace
}  // namespace xenpack
