// SPDX-License-Identifier: LGPL-2.1-or-later
// The command line's HTTP client against the daemon's own server, each in a thread of its own, as
// they are in two processes: watcher/cli/client.h.
#include "watcher/cli/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/http_client_fixture.h"
#include "watcher/control/control.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

struct FakeMediator final : Control::Mediator {
    json status() override { return {{"version", "1"}}; }
    Expected<json> account() override { return json::object(); }
    Expected<json> cost(const json&) override { return json::object(); }
    Expected<json> set_zone(const std::string& zone, const json& settings) override {
        if (zone == "gone") {
            return fail_with(ENOENT, "there is no zone gone");
        }
        return json{{"zone", zone}, {"settings", settings}};
    }
    Expected<void> reload() override { return fail("x.conf:3: wrong"); }
    Expected<void> reserve(const json&, const Control::Caller&) override {
        if (lets_wait) {
            ++waiting;
            return {};
        }
        return fail_with(ENOMEM, "262 MiB are missing");
    }
    Expected<void> make_template(const json&, const Control::Caller&) override { return {}; }
    Expected<void> remove_template(const std::string& name, const Control::Caller&) override {
        return fail_with(EBUSY, "{} has forks", name);
    }
    Expected<void> make_forks(const json& asked, const Control::Caller& caller) override {
        return reserve(asked, caller);
    }
    Expected<void> take_fork(const std::string&, const json& asked,
                             const Control::Caller& caller) override {
        return reserve(asked, caller);
    }
    void caller_gone(std::uint64_t) override {}
    Expected<void> release(std::uint64_t) override { return {}; }

    std::atomic<bool> lets_wait = false;
    std::atomic<int> waiting = 0;
};

// A daemon without zones, on a thread, until the end of the scope.
class Daemon {
  public:
    explicit Daemon(const std::string& path)
        : control_(std::move(Control::listen(loop_, path, mediator_).value())) {
        EXPECT_EQ(pipe(orders_), 0);
        order_ = loop_.watch_readable(orders_[0], [this] { obey(); });
        thread_ = std::thread([this] { loop_.run(); });
    }
    ~Daemon() {
        order('q');
        thread_.join();
        close(orders_[0]);
        close(orders_[1]);
    }
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    void let_wait() { mediator_.lets_wait = true; }
    [[nodiscard]] int waiting() const { return mediator_.waiting; }
    void order(char what) const { EXPECT_EQ(write(orders_[1], &what, 1), 1); }

  private:
    void obey() {
        char what = 0;
        if (read(orders_[0], &what, 1) != 1 || what == 'q') {
            control_.reset();
            loop_.stop();
        } else {
            control_->publish({{"kind", std::string(1, what)}});
        }
    }

    Loop loop_;
    FakeMediator mediator_;
    std::unique_ptr<Control> control_;
    int orders_[2] = {-1, -1};
    Loop::Handle order_;
    std::thread thread_;
};

// What is left of a daemon that dies of each request: hangs up as soon as it has some of one.
class DyingDaemon {
  public:
    explicit DyingDaemon(const std::string& path) : listener_(socket(AF_UNIX, SOCK_STREAM, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listener_, 5), 0);
        thread_ = std::thread([this] {
            for (int client = accept(listener_, nullptr, nullptr); client >= 0;
                 client = accept(listener_, nullptr, nullptr)) {
                char first = 0;
                deaths_ += read(client, &first, 1) == 1 ? 1 : 0;
                close(client);
            }
        });
    }
    ~DyingDaemon() {
        shutdown(listener_, SHUT_RDWR);
        thread_.join();
        close(listener_);
    }
    DyingDaemon(const DyingDaemon&) = delete;
    DyingDaemon& operator=(const DyingDaemon&) = delete;

    [[nodiscard]] int deaths() const { return deaths_; }

  private:
    int listener_;
    std::atomic<int> deaths_ = 0;
    std::thread thread_;
};

class ClientTest : public ::testing::Test {
  protected:
    testing::TemporaryDirectory directory_;
    std::string path_ = directory_ / "socket";
    Client client_{path_};
};

TEST_F(ClientTest, GetsAndPosts) {
    const Daemon daemon(path_);
    EXPECT_EQ(client_.get("/v1/status").value()["version"], "1");
    const std::string zone = "../a b/%2e?#\xc3\xbc";
    const auto answer =
        client_.post("/v1/zones/" + path_segment(zone) + "/settings", {{"weight", 1}});
    ASSERT_TRUE(answer) << answer.error().what;
    EXPECT_EQ((*answer)["zone"], zone);
    EXPECT_EQ((*answer)["settings"]["weight"], 1);
    EXPECT_EQ(client_.post("/v1/zones/" + path_segment("..") + "/settings", {{"weight", 1}})
                  .value()["zone"],
              "..");
}

TEST_F(ClientTest, PassesTheDaemonsRefusalOn) {
    const Daemon daemon(path_);
    const auto gone = client_.post("/v1/zones/gone/settings", {{"weight", 1}});
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().status, ExitStatus::failed);
    EXPECT_EQ(gone.error().what, "there is no zone gone");
    const auto reload = client_.post("/v1/reload", json::object());
    ASSERT_FALSE(reload);
    EXPECT_EQ(reload.error().status, ExitStatus::bad_configuration);
    EXPECT_EQ(reload.error().what, "x.conf:3: wrong");
    const Failure events = client_.follow("/v1/nothing", [](auto) { return Result<void>{}; });
    EXPECT_THAT(events.what, HasSubstr("no such resource"));
}

TEST_F(ClientTest, MemoryThatIsNotThereHasAStatusOfItsOwn) {
    const Daemon daemon(path_);
    const auto refused = client_.post_and_wait("/v1/reservations", {{"size_kib", 1}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, ExitStatus::not_now);
    EXPECT_EQ(refused.error().what, "262 MiB are missing");
}

TEST_F(ClientTest, SaysThatARequestIsTooLarge) {
    const Daemon daemon(path_);
    const auto refused =
        client_.post_and_wait("/v1/reservations", {{"config", std::string(200'000, ' ')}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, ExitStatus::failed);
    EXPECT_THAT(refused.error().what, HasSubstr("64 KiB"));
}

TEST_F(ClientTest, AsksAgainWhereTheDaemonIsRestartedWhileItWaits) {
    auto daemon = std::make_unique<Daemon>(path_);
    daemon->let_wait();
    std::thread restart([&] {
        while (daemon->waiting() == 0) {
            std::this_thread::yield();
        }
        daemon.reset();
        daemon = std::make_unique<Daemon>(path_);  // this one refuses
    });
    const auto answer = client_.post_and_wait("/v1/reservations", {{"size_kib", 1}});
    restart.join();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().what, "262 MiB are missing");
}

TEST_F(ClientTest, StopsAskingWhereTheRequestEndsTheDaemonEachTime) {
    const DyingDaemon daemon(path_);
    const auto answer = client_.post_and_wait("/v1/reservations", {{"size_kib", 1}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().status, ExitStatus::failed);
    EXPECT_EQ(daemon.deaths(), 3);
    EXPECT_THAT(answer.error().what, HasSubstr("has ended 3 times while it held this request"));
    EXPECT_THAT(answer.error().what, HasSubstr("journalctl -u xenpackd"));
}

TEST_F(ClientTest, AsksOnlyOnceForWhatWouldComeAboutTwice) {
    const DyingDaemon daemon(path_);
    const auto answer = client_.post_once("/v1/forks", {{"template", "base"}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().status, ExitStatus::daemon_not_running);
    EXPECT_EQ(daemon.deaths(), 1);
    EXPECT_THAT(answer.error().what, HasSubstr("finished or undone when it starts again"));
}

TEST_F(ClientTest, Removes) {
    const Daemon daemon(path_);
    const auto refused = client_.remove("/v1/templates/" + path_segment("base"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, ExitStatus::failed);
    EXPECT_EQ(refused.error().what, "base has forks");
}

TEST_F(ClientTest, DoesNotWaitForADaemonThatWasNotThere) {
    const auto answer = client_.post_and_wait("/v1/reservations", {{"size_kib", 1}});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().status, ExitStatus::daemon_not_running);
}

TEST_F(ClientTest, SaysThatNoDaemonRuns) {
    const auto missing = client_.get("/v1/status");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().status, ExitStatus::daemon_not_running);
    EXPECT_THAT(missing.error().what, HasSubstr("systemctl start xenpackd"));
    std::ofstream(path_) << "not a socket";
    EXPECT_EQ(client_.get("/v1/status").error().status, ExitStatus::daemon_not_running);
    EXPECT_EQ(client_.follow("/v1/events", [](auto) { return Result<void>{}; }).status,
              ExitStatus::daemon_not_running);
}

TEST_F(ClientTest, FollowsLinesUntilTheDaemonGoes) {
    auto daemon = std::make_unique<Daemon>(path_);
    std::string kinds;
    // The stream is open once an event arrives; until then each try publishes one more.
    std::thread publisher;
    const Client& client = client_;
    std::atomic<bool> heard = false;
    publisher = std::thread([&] {
        while (!heard) {
            daemon->order('a');
            (void)client.get("/v1/status");  // a round trip: no more than the daemon can take
        }
        daemon->order('b');
        (void)client.get("/v1/status");  // answered after 'b' has been sent
        daemon.reset();
    });
    const Failure end = client_.follow("/v1/events", [&](std::string_view line) -> Result<void> {
        kinds += json::parse(line)["kind"].get<std::string>();
        heard = true;
        return {};
    });
    publisher.join();
    EXPECT_EQ(end.status, ExitStatus::daemon_not_running);
    EXPECT_TRUE(kinds.starts_with("a")) << kinds;
    EXPECT_TRUE(kinds.ends_with("b")) << kinds;
}

TEST_F(ClientTest, EndsWithWhatItsReaderFailedWith) {
    auto daemon = std::make_unique<Daemon>(path_);
    std::atomic<bool> heard = false;
    std::thread publisher([&] {
        while (!heard) {
            daemon->order('a');
            (void)client_.get("/v1/status");
        }
    });
    const Failure end = client_.follow("/v1/events", [&](std::string_view) -> Result<void> {
        heard = true;
        return fail_as(ExitStatus::failed, "the disk is full");
    });
    heard = true;
    publisher.join();
    EXPECT_EQ(end.what, "the disk is full");
}

}  // namespace
}  // namespace xenpack
