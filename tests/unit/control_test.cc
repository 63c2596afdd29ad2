// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/control/control.h promises: its resources, its refusals, its socket. Over a real
// loop and a real socket.
#include "watcher/control/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "tests/unit/http_client_fixture.h"
#include "watcher/control/unix_socket.h"
#include "watcher/loop/http_server.h"

namespace xenpack {
namespace {

using nlohmann::json;
using testing::get;
using ::testing::HasSubstr;
using testing::post;
using testing::RawClient;
using testing::run_until;

struct FakeMediator final : Control::Mediator {
    json status() override { return status_answer; }
    Expected<json> account() override { return account_answer; }
    Expected<json> cost(const json& asked) override {
        ++calls;
        cost_asked = asked;
        return cost_answer;
    }
    Expected<json> set_zone(const std::string& zone, const json& settings) override {
        ++calls;
        zone_asked = zone;
        settings_asked = settings;
        return zone_answer;
    }
    Expected<void> reload() override {
        ++calls;
        return reload_answer;
    }
    Expected<void> reserve(const json& asked, const Control::Caller& caller) override {
        ++calls;
        reservation_asked = asked;
        callers.push_back(caller);
        return reserve_answer;
    }
    void caller_gone(std::uint64_t request) override { gone.push_back(request); }
    Expected<void> release(std::uint64_t reservation) override {
        ++calls;
        released.push_back(reservation);
        return release_answer;
    }

    Expected<void> make_template(const json& asked, const Control::Caller& caller) override {
        return take("make_template", asked, caller);
    }
    Expected<void> remove_template(const std::string& name,
                                   const Control::Caller& caller) override {
        return take("remove_template", name, caller);
    }
    Expected<void> make_forks(const json& asked, const Control::Caller& caller) override {
        return take("make_forks", asked, caller);
    }
    Expected<void> take_fork(const std::string& pool, const json& asked,
                             const Control::Caller& caller) override {
        return take("take_fork " + pool, asked, caller);
    }
    Expected<void> take(const std::string& call, const json& asked, const Control::Caller& caller) {
        ++calls;
        forks_asked.emplace_back(call, asked);
        callers.push_back(caller);
        return forks_answer;
    }

    Expected<void> forks_answer;
    std::vector<std::pair<std::string, json>> forks_asked;
    json status_answer = {{"version", "1"}};
    Expected<json> account_answer = json{{"host", 1}};
    Expected<json> cost_answer = json{{"size_kib", 5}};
    json cost_asked;
    Expected<json> zone_answer = json{{"name", "web"}};
    Expected<void> reload_answer;
    Expected<void> reserve_answer;
    Expected<void> release_answer;
    json reservation_asked;
    std::vector<Control::Caller> callers;
    std::vector<std::uint64_t> gone;
    std::vector<std::uint64_t> released;
    int calls = 0;
    std::string zone_asked;
    json settings_asked;
};

class ControlTest : public ::testing::Test {
  protected:
    ControlTest() : control_(std::move(Control::listen(loop_, path_, mediator_).value())) {}

    // The status and, in answer_, the JSON of one exchange.
    int ask(const std::string& request) {
        RawClient client(loop_, path_);
        client.send(request);
        EXPECT_TRUE(run_until(loop_, [&] { return client.status() != 0; })) << request;
        answer_ = json::parse(client.body(), nullptr, false);
        EXPECT_FALSE(answer_.is_discarded()) << client.received();
        return client.status();
    }
    std::string error() const { return answer_.value("error", "no error"); }

    testing::TemporaryDirectory directory_;
    std::string path_ = directory_ / "run/xenpack.sock";
    Loop loop_;
    FakeMediator mediator_;
    std::unique_ptr<Control> control_;
    json answer_;
};

TEST_F(ControlTest, AnswersStatusAsTheMediatorGivesIt) {
    EXPECT_EQ(ask(get("/v1/status")), 200);
    EXPECT_EQ(answer_, mediator_.status_answer);
    EXPECT_EQ(ask(get("/v1/account")), 200);
    EXPECT_EQ(answer_, *mediator_.account_answer);
    EXPECT_EQ(ask(post("/v1/account", "{}")), 405);
}

TEST_F(ControlTest, CostIsAskedWithAnObject) {
    EXPECT_EQ(ask(post("/v1/cost", R"({"template":"base"})")), 200);
    EXPECT_EQ(answer_, *mediator_.cost_answer);
    EXPECT_EQ(mediator_.cost_asked, (json{{"template", "base"}}));
    EXPECT_EQ(ask(post("/v1/cost", "[]")), 400);
    EXPECT_EQ(ask(get("/v1/cost")), 405);
    mediator_.cost_answer = fail_with(ENOENT, "there is no nosuch");
    EXPECT_EQ(ask(post("/v1/cost", R"({"template":"nosuch"})")), 404);
}

TEST_F(ControlTest, ShowsNamesThatAreNotUtf8WithReplacements) {
    mediator_.status_answer = {{"name", "a\xff"}};
    EXPECT_EQ(ask(get("/v1/status")), 200);
    EXPECT_EQ(answer_["name"], "a\xEF\xBF\xBD");
}

TEST_F(ControlTest, PassesSettingsOnWithTheZonesNameDecoded) {
    EXPECT_EQ(ask(post("/v1/zones/a%2Fb%20c/settings", R"({"floor_kib":1,"pin_kib":null})")), 200);
    EXPECT_EQ(mediator_.zone_asked, "a/b c");
    EXPECT_EQ(mediator_.settings_asked, json::parse(R"({"floor_kib":1,"pin_kib":null})"));
    EXPECT_EQ(answer_["name"], "web");
}

TEST_F(ControlTest, RefusesSettingsThatAreNoObject) {
    for (const char* body : {"", "{", "[]", "1", "{}", "null", "{\"a\":1}x", "\xff"}) {
        EXPECT_EQ(ask(post("/v1/zones/web/settings", body)), 400) << body;
        EXPECT_THAT(error(), HasSubstr("JSON object"));
    }
    EXPECT_EQ(ask(post("/v1/zones/web/settings", std::string(60000, '['))), 400);
    EXPECT_EQ(mediator_.calls, 0);
}

TEST_F(ControlTest, TurnsErrorCodesIntoHttpStatuses) {
    const std::pair<int, int> pairs[] = {{ENOENT, 404}, {ESRCH, 404},  {EBUSY, 409}, {EPERM, 409},
                                         {EINVAL, 400}, {ERANGE, 400}, {0, 400},     {EIO, 500}};
    for (const auto& [code, status] : pairs) {
        mediator_.zone_answer = fail_with(code, "a sentence");
        EXPECT_EQ(ask(post("/v1/zones/web/settings", R"({"weight":1})")), status) << code;
        EXPECT_EQ(error(), "a sentence");
    }
}

TEST_F(ControlTest, ReloadsAndSaysWhyNot) {
    EXPECT_EQ(ask(post("/v1/reload", "")), 200);
    EXPECT_EQ(mediator_.calls, 1);
    mediator_.reload_answer = fail("x.conf:3: wrong");
    EXPECT_EQ(ask(post("/v1/reload", "{}")), 422);
    EXPECT_EQ(error(), "x.conf:3: wrong");
    mediator_.reload_answer = fail_with(EBUSY, "not now");
    EXPECT_EQ(ask(post("/v1/reload", "{}")), 409);
}

TEST_F(ControlTest, AReservationIsAnsweredWhenTheMediatorSaysSo) {
    RawClient client(loop_, path_);
    client.send(post("/v1/reservations", R"({"size_kib":5})"));
    ASSERT_TRUE(run_until(loop_, [&] { return !mediator_.callers.empty(); }));
    EXPECT_EQ(mediator_.reservation_asked, json::parse(R"({"size_kib":5})"));
    EXPECT_EQ(mediator_.callers[0].pid, getpid());
    EXPECT_EQ(ask(get("/v1/status")), 200) << "others are answered meanwhile";
    EXPECT_EQ(client.status(), 0);
    control_->answer(mediator_.callers[0].request, json{{"id", 3}});
    ASSERT_TRUE(run_until(loop_, [&] { return client.status() == 200; }));
    EXPECT_EQ(json::parse(client.body())["id"], 3);
}

TEST_F(ControlTest, SaysThatAToolstackCannotTellWhatAStartCosts) {
    mediator_.reserve_answer = fail_with(ENOSYS, "name its size_kib instead");
    EXPECT_EQ(ask(post("/v1/reservations", R"({"config":"{}"})")), 501);
    EXPECT_EQ(error(), "name its size_kib instead");
}

TEST_F(ControlTest, AReservationIsRefusedAtOnceOrLater) {
    mediator_.reserve_answer = fail_with(ENOMEM, "262 MiB are missing");
    EXPECT_EQ(ask(post("/v1/reservations", R"({"size_kib":5})")), 507);
    EXPECT_EQ(error(), "262 MiB are missing");
    mediator_.reserve_answer = {};
    RawClient client(loop_, path_);
    client.send(post("/v1/reservations", "{}"));
    ASSERT_TRUE(run_until(loop_, [&] { return mediator_.callers.size() == 2; }));
    control_->answer(mediator_.callers[1].request, fail_with(ENOMEM, "not in time"));
    EXPECT_TRUE(run_until(loop_, [&] { return client.status() == 507; }));
    EXPECT_EQ(ask(post("/v1/reservations", "[1]")), 400);
}

TEST_F(ControlTest, RefusesWhoComesWhenSoManyWaitAndAsksNobody) {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (std::size_t i = 0; i < kHttpMaxWaiting; ++i) {
        clients.push_back(std::make_unique<RawClient>(loop_, path_));
        clients.back()->send(post("/v1/reservations", "{}"));
        ASSERT_TRUE(run_until(loop_, [&] { return mediator_.callers.size() == i + 1; }));
    }
    EXPECT_EQ(ask(post("/v1/reservations", "{}")), 503);
    EXPECT_THAT(error(), HasSubstr("try again later"));
    EXPECT_EQ(mediator_.callers.size(), kHttpMaxWaiting);
    EXPECT_EQ(ask(get("/v1/status")), 200) << "whoever does not wait is served";
}

TEST_F(ControlTest, TellsOfACallerThatHangsUp) {
    RawClient client(loop_, path_);
    client.send(post("/v1/reservations", "{}"));
    ASSERT_TRUE(run_until(loop_, [&] { return !mediator_.callers.empty(); }));
    client.hang_up();
    ASSERT_TRUE(run_until(loop_, [&] { return !mediator_.gone.empty(); }));
    EXPECT_EQ(mediator_.gone[0], mediator_.callers[0].request);
}

TEST_F(ControlTest, ReleasesAReservationByItsId) {
    EXPECT_EQ(ask("DELETE /v1/reservations/12 HTTP/1.1\r\n\r\n"), 200);
    EXPECT_EQ(mediator_.released, std::vector<std::uint64_t>{12});
    mediator_.release_answer = fail_with(ENOENT, "there is none");
    EXPECT_EQ(ask("DELETE /v1/reservations/13 HTTP/1.1\r\n\r\n"), 404);
    EXPECT_EQ(error(), "there is none");
    for (const char* id : {"", "x", "1x", "-1", "99999999999999999999"}) {
        EXPECT_EQ(ask(std::string("DELETE /v1/reservations/") + id + " HTTP/1.1\r\n\r\n"), 404)
            << id;
    }
    EXPECT_EQ(mediator_.released.size(), 2u);
}

TEST_F(ControlTest, TakingAForkNamesItsPoolAndNeedsNoBody) {
    RawClient client(loop_, path_);
    client.send(post("/v1/pools/jo%20bs/take", R"({"name":"one"})"));
    ASSERT_TRUE(run_until(loop_, [&] { return mediator_.forks_asked.size() == 1; }));
    EXPECT_EQ(mediator_.forks_asked[0].first, "take_fork jo bs");
    EXPECT_EQ(mediator_.forks_asked[0].second, json::parse(R"({"name":"one"})"));
    control_->answer(mediator_.callers[0].request, json{{"name", "one"}});
    EXPECT_TRUE(run_until(loop_, [&] { return client.status() == 200; }));
    RawClient bare(loop_, path_);
    bare.send(post("/v1/pools/jobs/take", ""));
    ASSERT_TRUE(run_until(loop_, [&] { return mediator_.forks_asked.size() == 2; }));
    EXPECT_EQ(mediator_.forks_asked[1].second, json::object());
    RawClient wrong(loop_, path_);
    wrong.send(post("/v1/pools/jobs/take", "[1]"));
    EXPECT_TRUE(run_until(loop_, [&] { return wrong.status() == 400; }));
}

TEST_F(ControlTest, TemplatesAndForksAreAnsweredWhenTheyAreThere) {
    RawClient client(loop_, path_);
    client.send(post("/v1/forks", R"({"template":"base","count":2})"));
    ASSERT_TRUE(run_until(loop_, [&] { return !mediator_.callers.empty(); }));
    EXPECT_EQ(mediator_.forks_asked[0].first, "make_forks");
    EXPECT_EQ(mediator_.forks_asked[0].second, json::parse(R"({"template":"base","count":2})"));
    EXPECT_EQ(client.status(), 0);
    control_->answer(mediator_.callers[0].request, json{{"forks", json::array()}});
    EXPECT_TRUE(run_until(loop_, [&] { return client.status() == 200; }));
    RawClient other(loop_, path_);
    other.send(post("/v1/templates", R"({"zone":"web"})"));
    ASSERT_TRUE(run_until(loop_, [&] { return mediator_.callers.size() == 2; }));
    EXPECT_EQ(mediator_.forks_asked[1].first, "make_template");
    control_->answer(mediator_.callers[1].request, fail_with(ETIMEDOUT, "it is not quiet"));
    EXPECT_TRUE(run_until(loop_, [&] { return other.status() == 504; }));
}

TEST_F(ControlTest, WhatIsSaidAgainstTemplatesAndForksHasItsStatus) {
    for (const auto& [code, status] : std::map<int, int>{{ENOENT, 404},
                                                         {EEXIST, 409},
                                                         {EBUSY, 409},
                                                         {ENOTSUP, 409},
                                                         {EINVAL, 400},
                                                         {ENOSYS, 501},
                                                         {EREMOTEIO, 502},
                                                         {ENOMEM, 507}}) {
        mediator_.forks_answer = fail_with(code, "no");
        EXPECT_EQ(ask(post("/v1/forks", "{}")), status);
        EXPECT_EQ(ask(post("/v1/templates", "{}")), status);
        EXPECT_EQ(ask("DELETE /v1/templates/a%2Fb HTTP/1.1\r\n\r\n"), status);
        EXPECT_EQ(mediator_.forks_asked.back(),
                  (std::pair{std::string("remove_template"), json("a/b")}));
    }
    mediator_.calls = 0;
    for (const char* path : {"/v1/forks", "/v1/templates"}) {
        EXPECT_EQ(ask(get(path)), 405);
        EXPECT_EQ(ask(post(path, "[]")), 400);
    }
    EXPECT_EQ(ask(get("/v1/templates/base")), 405);
    EXPECT_EQ(ask(get("/v1/templates/base/x")), 404);
    EXPECT_EQ(mediator_.calls, 0);
}

TEST_F(ControlTest, RefusesOtherPathsAndMethods) {
    for (const char* path : {"/", "/v1", "/v1/", "/v1/status/", "/v2/status", "/v1/zones/web",
                             "/v1/zones/web/settings/x", "/v1//status", "/v1/%00status"}) {
        EXPECT_EQ(ask(get(path)), 404) << path;
    }
    EXPECT_EQ(ask(post("/v1/status", "")), 405);
    EXPECT_EQ(ask(post("/v1/events", "")), 405);
    EXPECT_EQ(ask(get("/v1/reload")), 405);
    EXPECT_EQ(ask(get("/v1/zones/web/settings")), 405);
    EXPECT_EQ(ask(get("/v1/reservations")), 405);
    EXPECT_EQ(ask(get("/v1/reservations/1")), 405);
    EXPECT_EQ(ask("DELETE /v1/zones/web/settings HTTP/1.1\r\n\r\n"), 405);
    EXPECT_EQ(mediator_.calls, 0);
}

TEST_F(ControlTest, PublishesEventsAsLinesToListeners) {
    control_->publish({{"kind", "before anybody listens"}});
    RawClient client(loop_, path_);
    client.send(get("/v1/events"));
    ASSERT_TRUE(run_until(loop_, [&] { return client.status() == 200; }));
    control_->publish({{"kind", "grow"}, {"zone", "a\nb\xff"}});
    control_->publish({{"kind", "gone"}});
    ASSERT_TRUE(
        run_until(loop_, [&] { return client.received().find("gone") != std::string::npos; }));
    const std::string lines = testing::unchunked(client.received());
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
    EXPECT_EQ(json::parse(lines.substr(0, lines.find('\n')))["zone"], "a\nb\xEF\xBF\xBD");
}

TEST_F(ControlTest, TheSocketIsForItsOwnerAndItsDirectoryForAllToSee) {
    struct stat status {};
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    const mode_t mask = umask(0);
    umask(mask);
    ASSERT_EQ(stat((directory_ / "run").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0755u & ~mask);
}

TEST_F(ControlTest, ASecondDaemonIsRefusedAndTheFirstStays) {
    const auto second = Control::listen(loop_, path_, mediator_);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, EADDRINUSE);
    EXPECT_THAT(second.error().what, HasSubstr("already running"));
    EXPECT_EQ(ask(get("/v1/status")), 200);
}

TEST_F(ControlTest, RemovesItsSocketAtTheEndAndNoOther) {
    control_.reset();
    EXPECT_FALSE(std::filesystem::exists(path_));
    control_ = std::move(Control::listen(loop_, path_, mediator_).value());
    std::filesystem::remove(path_);
    std::ofstream(path_) << "somebody else's";
    control_.reset();
    EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ControlTest, ReplacesTheSocketOfADaemonThatDied) {
    control_.reset();
    std::filesystem::rename(
        [this] {
            // What is left of a killed daemon: bound, and nobody listens.
            const auto dead = std::move(UnixSocket::listen(path_).value());
            std::filesystem::rename(path_, path_ + ".dead");
            return path_ + ".dead";
        }(),
        path_);
    ASSERT_TRUE(std::filesystem::is_socket(path_));
    control_ = std::move(Control::listen(loop_, path_, mediator_).value());
    EXPECT_EQ(ask(get("/v1/status")), 200);
}

TEST(Control, LeavesAloneWhatIsNoSocket) {
    Loop loop;
    FakeMediator mediator;
    const testing::TemporaryDirectory directory;
    std::ofstream(directory / "file") << "precious";
    const auto control = Control::listen(loop, directory / "file", mediator);
    ASSERT_FALSE(control);
    EXPECT_EQ(control.error().code, EEXIST);
    EXPECT_EQ(std::filesystem::file_size(directory / "file"), 8u);
}

TEST(Control, SaysWhyThereCanBeNoSocket) {
    Loop loop;
    FakeMediator mediator;
    const auto nowhere = Control::listen(loop, "/nonexistent/a/b.sock", mediator);
    ASSERT_FALSE(nowhere);
    EXPECT_THAT(nowhere.error().what, HasSubstr("/nonexistent/a"));
    EXPECT_FALSE(Control::listen(loop, "relative.sock", mediator));
    EXPECT_FALSE(Control::listen(loop, "/" + std::string(108, 'x'), mediator));
}

}  // namespace
}  // namespace xenpack
