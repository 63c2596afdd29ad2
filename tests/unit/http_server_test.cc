// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/loop/http_server.h promises of limits, of bad clients and of an idle daemon.
#include "watcher/loop/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fcntl.h>

#include "tests/unit/http_client_fixture.h"
#include "watcher/control/unix_socket.h"

namespace xenpack {
namespace {

using ::testing::ElementsAre;
using testing::get;
using ::testing::HasSubstr;
using testing::post;
using testing::RawClient;
using testing::run_until;

class HttpServerTest : public ::testing::Test {
  protected:
    void serve(HttpServer::Handler handler, HttpServer::Limits limits = {}) {
        socket_ = std::move(UnixSocket::listen(path_).value());
        server_ =
            std::move(HttpServer::serve(loop_, socket_->fd(), std::move(handler), limits).value());
    }
    void serve_streams() {
        serve([](const HttpRequest& request) {
            return HttpResponse{200, "{}\n", request.path == std::vector<std::string>{"stream"}};
        });
    }
    // A client whose stream is open.
    std::unique_ptr<RawClient> listener() {
        auto client = std::make_unique<RawClient>(loop_, path_);
        const std::size_t before = server_->streams();
        client->send(get("/stream"));
        EXPECT_TRUE(run_until(loop_, [&] { return server_->streams() > before; }));
        return client;
    }
    bool answers() {
        RawClient client(loop_, path_);
        client.send(get("/"));
        return run_until(loop_, [&] { return client.status() == 200; });
    }

    testing::TemporaryDirectory directory_;
    std::string path_ = directory_ / "socket";
    Loop loop_;
    std::unique_ptr<UnixSocket> socket_;
    std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, GivesTheHandlerMethodPathAndBody) {
    HttpRequest seen;
    serve([&](const HttpRequest& request) {
        seen = request;
        return HttpResponse{201, "answer\n", false};
    });
    RawClient client(loop_, path_);
    client.send(post("/a/b%2Fc%00d/?x=1", "body"));
    ASSERT_TRUE(run_until(loop_, [&] { return client.status() == 201; }));
    EXPECT_EQ(client.body(), "answer\n");
    EXPECT_EQ(seen.method, "POST");
    EXPECT_THAT(seen.path, ElementsAre("a", std::string("b/c\0d", 5), ""));
    EXPECT_EQ(seen.body, "body");
}

TEST_F(HttpServerTest, AnswersSeveralRequestsOnOneConnection) {
    int calls = 0;
    serve([&](const HttpRequest&) { return HttpResponse{200, std::to_string(++calls), false}; });
    RawClient client(loop_, path_);
    client.send(get("/") + get("/"));
    EXPECT_TRUE(run_until(loop_, [&] { return calls == 2; }));
}

TEST_F(HttpServerTest, AnswersAThrowingHandlerWith500) {
    serve([](const HttpRequest&) -> HttpResponse { throw std::runtime_error("broken"); });
    RawClient client(loop_, path_);
    client.send(get("/"));
    EXPECT_TRUE(run_until(loop_, [&] { return client.status() == 500; }));
    EXPECT_THAT(client.body(), HasSubstr("\"error\""));
}

TEST_F(HttpServerTest, TakesABodyAsLargeAsAllowedAndNoLargerOne) {
    std::size_t taken = 0;
    serve([&](const HttpRequest& request) {
        taken = request.body.size();
        return HttpResponse{200, "", false};
    });
    RawClient largest(loop_, path_);
    largest.send(post("/", std::string(kHttpBodyMaxBytes, 'x')));
    EXPECT_TRUE(run_until(loop_, [&] { return largest.status() == 200; }));
    EXPECT_EQ(taken, kHttpBodyMaxBytes);

    taken = 0;
    RawClient larger(loop_, path_);
    larger.send(post("/", std::string(kHttpBodyMaxBytes + 1, 'x')));
    EXPECT_TRUE(run_until(loop_, [&] { return larger.closed() || larger.status() >= 400; }));
    RawClient endless(loop_, path_);
    endless.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    endless.send("fffff\r\n" + std::string(kHttpBodyMaxBytes + 4096, 'x'));
    EXPECT_TRUE(run_until(loop_, [&] { return endless.closed() || endless.status() >= 400; }));
    EXPECT_EQ(taken, 0u);
    EXPECT_TRUE(answers());
}

TEST_F(HttpServerTest, RefusesAnEndlessHead) {
    bool called = false;
    serve([&](const HttpRequest&) {
        called = true;
        return HttpResponse{};
    });
    RawClient client(loop_, path_);
    client.send("GET / HTTP/1.1\r\nX: " + std::string(2 * kHttpHeadMaxBytes, 'x'));
    EXPECT_TRUE(run_until(loop_, [&] { return client.closed() || client.status() >= 400; }));
    EXPECT_FALSE(called);
}

TEST_F(HttpServerTest, RefusesWhatIsNotHttp) {
    serve_streams();
    RawClient client(loop_, path_);
    client.send(std::string("\0\xff\n\n\r\n\r\n", 8));
    EXPECT_TRUE(run_until(loop_, [&] { return client.closed() || client.status() >= 400; }));
    EXPECT_TRUE(answers());
}

TEST_F(HttpServerTest, CutsOffAClientThatSendsNothing) {
    serve([](const HttpRequest&) { return HttpResponse{}; }, {.idle_ms = 50});
    RawClient silent(loop_, path_);
    RawClient half(loop_, path_);
    half.send("GET / HT");
    EXPECT_TRUE(run_until(loop_, [&] { return silent.closed() && half.closed(); }));
}

TEST_F(HttpServerTest, SlowClientsDoNotHoldUpAnother) {
    serve_streams();
    std::vector<std::unique_ptr<RawClient>> slow;
    for (int i = 0; i < 60; ++i) {
        slow.push_back(std::make_unique<RawClient>(loop_, path_));
        slow.back()->send("POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc");
        slow.back()->read_off();
    }
    EXPECT_TRUE(answers());
}

TEST_F(HttpServerTest, BroadcastReachesEveryStreamInOrder) {
    serve_streams();
    const auto one = listener();
    const auto two = listener();
    server_->broadcast("first\n");
    server_->broadcast("second\n");
    EXPECT_TRUE(run_until(loop_, [&] {
        return testing::unchunked(one->received()) == "first\nsecond\n" &&
               testing::unchunked(two->received()) == "first\nsecond\n";
    }));
}

TEST_F(HttpServerTest, AStreamIsNotCutOffForBeingQuiet) {
    serve(
        [](const HttpRequest& request) {
            return HttpResponse{200, "", request.path[0] == "stream"};
        },
        {.idle_ms = 50});
    const auto client = listener();
    RawClient silent(loop_, path_);
    ASSERT_TRUE(run_until(loop_, [&] { return silent.closed(); }));
    RawClient later(loop_, path_);
    ASSERT_TRUE(run_until(loop_, [&] { return later.closed(); }));
    EXPECT_EQ(server_->streams(), 1u);
    server_->broadcast("still here\n");
    EXPECT_TRUE(
        run_until(loop_, [&] { return testing::unchunked(client->received()) == "still here\n"; }));
}

TEST_F(HttpServerTest, CutsOffAStreamThatIsNotReadAndNoOther) {
    serve_streams();
    const auto lazy = listener();
    const auto keen = listener();
    lazy->read_off();
    const std::string line = std::string(64 << 10, 'x') + "\n";
    std::size_t sent = 0;
    while (server_->streams() == 2 && sent < 16 * kHttpStreamBacklogBytes) {
        server_->broadcast(line);
        sent += line.size();
        ASSERT_TRUE(
            run_until(loop_, [&] { return testing::unchunked(keen->received()).size() == sent; }));
    }
    EXPECT_EQ(server_->streams(), 1u);
    EXPECT_FALSE(keen->closed());
    lazy->read_on();
    EXPECT_TRUE(run_until(loop_, [&] { return lazy->closed(); }));
    EXPECT_LT(lazy->received().size(), 2 * kHttpStreamBacklogBytes);
}

TEST_F(HttpServerTest, ForgetsAStreamWhoseClientHangsUp) {
    serve_streams();
    const auto client = listener();
    client->hang_up();
    EXPECT_TRUE(run_until(loop_, [&] { return server_->streams() == 0; }));
    server_->broadcast("nobody\n");
    EXPECT_TRUE(answers());
}

TEST_F(HttpServerTest, AStreamsClientMaySendWhatItLikesInVain) {
    serve_streams();
    const auto client = listener();
    client->send(get("/") + get("/stream") + std::string(100'000, 'x'));
    EXPECT_TRUE(answers());
    EXPECT_EQ(server_->streams(), 1u);
    server_->broadcast("line\n");
    EXPECT_TRUE(
        run_until(loop_, [&] { return testing::unchunked(client->received()) == "line\n"; }));
}

TEST_F(HttpServerTest, RefusesMoreStreamsThanItWillFeed) {
    serve_streams();
    std::vector<std::unique_ptr<RawClient>> clients;
    for (std::size_t i = 0; i < kHttpMaxStreams; ++i) {
        clients.push_back(listener());
    }
    RawClient last(loop_, path_);
    last.send(get("/stream"));
    EXPECT_TRUE(run_until(loop_, [&] { return last.status() == 503; }));
    EXPECT_EQ(server_->streams(), kHttpMaxStreams);
}

TEST_F(HttpServerTest, EndsWithItsStreamsOpen) {
    serve_streams();
    const auto client = listener();
    server_.reset();
    EXPECT_TRUE(run_until(loop_, [&] { return client->closed(); }));
}

// Answers later whatever is asked below /later, and keeps what it was asked.
class LateAnswersTest : public HttpServerTest {
  protected:
    void serve_late(HttpServer::Limits limits = {}) {
        serve(
            [this](const HttpRequest& request) {
                if (request.path[0] != "later") {
                    return HttpResponse{200, "{}\n"};
                }
                asked_.push_back(request.id);
                client_pid_ = request.client_pid;
                return HttpResponse{200, "", false, true};
            },
            limits);
        server_->on_gone([this](std::uint64_t id) { gone_.push_back(id); });
    }
    // A client that waits for its answer.
    std::unique_ptr<RawClient> waiter() {
        auto client = std::make_unique<RawClient>(loop_, path_);
        const std::size_t before = server_->waiting();
        client->send(post("/later", "{}"));
        EXPECT_TRUE(run_until(loop_, [&] { return server_->waiting() > before; }));
        return client;
    }

    std::vector<std::uint64_t> asked_;
    std::vector<std::uint64_t> gone_;
    int client_pid_ = 0;
};

TEST_F(LateAnswersTest, EachClientGetsItsOwnAnswerWhenItIsGiven) {
    serve_late();
    const auto first = waiter();
    const auto second = waiter();
    ASSERT_EQ(asked_.size(), 2u);
    EXPECT_NE(asked_[0], asked_[1]);
    EXPECT_TRUE(answers());
    EXPECT_EQ(first->status(), 0);
    server_->answer(asked_[1], {201, "to the second\n"});
    EXPECT_TRUE(run_until(loop_, [&] { return second->status() == 201; }));
    EXPECT_EQ(second->body(), "to the second\n");
    EXPECT_EQ(first->status(), 0);
    server_->answer(asked_[0], {507, "to the first\n"});
    EXPECT_TRUE(run_until(loop_, [&] { return first->status() == 507; }));
    EXPECT_EQ(server_->waiting(), 0u);
    EXPECT_TRUE(gone_.empty());
}

TEST_F(LateAnswersTest, TellsWhoAsks) {
    serve_late();
    const auto client = waiter();
    EXPECT_EQ(client_pid_, getpid());
}

TEST_F(LateAnswersTest, AClientThatWaitsIsNotCutOff) {
    serve_late({.idle_ms = 50});
    const auto client = waiter();
    RawClient silent(loop_, path_);
    ASSERT_TRUE(run_until(loop_, [&] { return silent.closed(); }));
    RawClient later(loop_, path_);
    ASSERT_TRUE(run_until(loop_, [&] { return later.closed(); }));
    server_->answer(asked_[0], {200, "at last\n"});
    EXPECT_TRUE(run_until(loop_, [&] { return client->status() == 200; }));
    // Once answered it is a client like any other.
    EXPECT_TRUE(run_until(loop_, [&] { return client->closed(); }));
}

TEST_F(LateAnswersTest, TellsOfAClientThatHangsUpAndAnswersItNoMore) {
    serve_late();
    const auto stays = waiter();
    const auto goes = waiter();
    goes->hang_up();
    EXPECT_TRUE(run_until(loop_, [&] { return !gone_.empty(); }));
    EXPECT_THAT(gone_, ElementsAre(asked_[1]));
    EXPECT_EQ(server_->waiting(), 1u);
    server_->answer(asked_[1], {200, "nobody\n"});
    server_->answer(asked_[0], {200, "somebody\n"});
    EXPECT_TRUE(run_until(loop_, [&] { return stays->status() == 200; }));
    EXPECT_TRUE(answers());
}

TEST_F(LateAnswersTest, AClientMaySendWhatItLikesWhileItWaits) {
    serve_late();
    const auto client = waiter();
    client->send(get("/") + std::string(100'000, 'x'));
    EXPECT_TRUE(answers());
    EXPECT_EQ(server_->waiting(), 1u);
    server_->answer(asked_[0], {200, "answer\n"});
    EXPECT_TRUE(run_until(loop_, [&] { return client->status() == 200; }));
    EXPECT_EQ(asked_.size(), 1u);
    EXPECT_TRUE(answers());
}

// However much it has sent before.
TEST_F(LateAnswersTest, SeesTheEndOfAClientThatSentMoreThanItShould) {
    serve_late();
    const auto client = waiter();
    client->send(std::string(100'000, 'x'));
    EXPECT_TRUE(answers());
    client->hang_up();
    EXPECT_TRUE(run_until(loop_, [&] { return !gone_.empty(); }));
    EXPECT_EQ(server_->waiting(), 0u);
}

TEST_F(LateAnswersTest, RefusesMoreThanMayWaitAndForgetsThem) {
    serve_late();
    const std::int64_t began_ms = Loop::now_ms();
    std::vector<std::unique_ptr<RawClient>> clients;
    for (std::size_t i = 0; i < kHttpMaxWaiting; ++i) {
        clients.push_back(waiter());
    }
    RawClient last(loop_, path_);
    last.send(post("/later", "{}"));
    EXPECT_TRUE(run_until(loop_, [&] { return last.status() == 503; }));
    EXPECT_THAT(gone_, ElementsAre(asked_.back()));
    EXPECT_EQ(server_->waiting(), kHttpMaxWaiting);
    EXPECT_LT(Loop::now_ms() - began_ms, 1000 * static_cast<std::int64_t>(kHttpMaxWaiting) / 4)
        << "it has let them in one a second, as where there are no descriptors left";
}

TEST_F(LateAnswersTest, HangsUpOnThoseThatWaitWhenItEnds) {
    serve_late();
    const auto client = waiter();
    server_.reset();
    EXPECT_TRUE(run_until(loop_, [&] { return client->closed(); }));
    EXPECT_TRUE(gone_.empty());
}

// Rounds of the loop in which something happened, within `ms`.
int rounds_within(Loop& loop, std::int64_t ms) {
    bool over = false;
    const auto end = loop.make_timer([&over] { over = true; });
    end->start(ms);
    int rounds = 0;
    while (!over) {
        loop.run_once();
        ++rounds;
    }
    return rounds;
}

TEST_F(HttpServerTest, NeverWakesAnIdleDaemon) {
    serve(
        [](const HttpRequest& request) {
            return HttpResponse{200, "", !request.path[0].empty()};
        },
        {.idle_ms = 50});
    ASSERT_TRUE(answers());
    const auto stream = listener();  // waits for ever, and costs nothing
    rounds_within(loop_, 100);       // the answered client is gone
    EXPECT_EQ(rounds_within(loop_, 300), 1);
}

// Takes all descriptors of the process until it ends.
class NoDescriptorsLeft {
  public:
    NoDescriptorsLeft() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest = fcntl(0, F_DUPFD_CLOEXEC, 0);
        close(lowest);
        rlimit limit = before_;
        limit.rlim_cur = static_cast<rlim_t>(lowest);
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    }
    ~NoDescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
    NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;

  private:
    rlimit before_{};
};

TEST_F(HttpServerTest, DoesNotSpinWithoutDescriptorsAndRecovers) {
    serve_streams();
    auto client = std::make_unique<RawClient>(loop_, path_);
    client->send(get("/"));
    {
        const NoDescriptorsLeft none;
        EXPECT_LT(rounds_within(loop_, 500), 10);
        EXPECT_EQ(client->status(), 0);
    }
    EXPECT_TRUE(run_until(loop_, [&] { return client->status() == 200; }));
    EXPECT_TRUE(answers());
}

TEST_F(HttpServerTest, SlowsDownWhenClientsHoldManyDescriptors) {
    serve([](const HttpRequest&) { return HttpResponse{200, "{}\n"}; }, {.many_descriptors = 256});
    std::vector<int> held;
    const int high = fcntl(0, F_DUPFD_CLOEXEC, 300);
    ASSERT_GE(high, 300);
    for (int fd = 0; (fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) < 300;) {
        held.push_back(fd);
        ASSERT_LT(held.size(), 400u);
    }
    RawClient first(loop_, path_);
    RawClient second(loop_, path_);
    first.send(get("/"));
    second.send(get("/"));
    EXPECT_TRUE(run_until(loop_, [&] { return first.status() == 200; }));
    EXPECT_EQ(second.status(), 0);
    EXPECT_TRUE(run_until(loop_, [&] { return second.status() == 200; }));
    for (const int fd : held) {
        close(fd);
    }
    close(high);
}

}  // namespace
}  // namespace xenpack
