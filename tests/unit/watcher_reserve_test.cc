// SPDX-License-Identifier: LGPL-2.1-or-later
// Reservations as the whole watcher serves them, on the simulated host: what a request may say,
// what is answered and shown, and that promised memory is no zone's. Real time, so nothing here
// waits long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "plugin/sim/toolstack.h"
#include "tests/unit/http_client_fixture.h"
#include "watcher/watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_until;

constexpr std::uint64_t kMib = 1024;

// 480 MiB for zones; one has 300 and needs little, another does not want more than it has.
constexpr const char* kScenario =
    "[host]\nmemory = 1G\nxen = 32M\ndom0 = 512M\n"
    "[zone lazy]\nmemory = 300M\nmaxmem = 512M\nboot = 50ms\nheartbeat = 1s\n"
    "generate = idle\nbase = 30M\n";

struct FakeControl final : Control {
    void publish(const json& event) override { events.push_back(event); }
    void answer(std::uint64_t request, const Expected<json>& result) override {
        answers.emplace(request, result);
    }

    std::vector<json> events;
    std::map<std::uint64_t, Expected<json>> answers;
};

class WatcherReserveTest : public ::testing::Test {
  protected:
    WatcherReserveTest() {
        std::ofstream(directory_ / "host.sim") << kScenario;
        setenv(sim::kScenarioVariable, (directory_ / "host.sim").c_str(), 1);
        config_.socket_path = directory_ / "socket";
        config_.emergency_kib = 16 * kMib;
        config_.reserve = SizeOrPercent{16 * kMib, {}};
        config_.start_reserve = {};
        store_ = std::move(plugin_.open_store(loop_, [] {}).value());
        restart();
        EXPECT_TRUE(run_until(loop_, [this] { return lazy("used_kib").is_number(); }));
    }
    ~WatcherReserveTest() override {
        watcher_.reset();
        unsetenv(sim::kScenarioVariable);
    }

    void restart() {
        watcher_.reset();
        watcher_ = std::make_unique<Watcher>(
            Watcher::Rooms{loop_, plugin_, *store_, journal_}, config_,
            OverridesFile::load(directory_ / "settings.json").value(), [] { return Config{}; },
            [] {});
        const auto started = watcher_->start();
        EXPECT_TRUE(started) << started.error().what;
        watcher_->attach(&control_);
    }
    json lazy(const char* member) {
        const json zones = watcher_->status()["zones"];
        return zones.empty() ? json() : zones[0][member];
    }
    Expected<void> ask(const json& asked) { return watcher_->reserve(asked, {++last_, getpid()}); }
    // The answer to the last request.
    Expected<json> answer() {
        EXPECT_TRUE(run_until(loop_, [this] { return control_.answers.contains(last_); }));
        return control_.answers.at(last_);
    }
    int refusal(const json& asked) {
        const auto refused = ask(asked);
        said_ = refused ? "" : refused.error().what;
        return refused ? 0 : refused.error().code;
    }

    testing::TemporaryDirectory directory_;
    Loop loop_;
    Journal journal_{LogLevel::error};
    Config config_;
    PluginObject plugin_{sim::toolstack_ops()};
    std::unique_ptr<Store> store_;
    FakeControl control_;
    std::unique_ptr<Watcher> watcher_;
    std::uint64_t last_ = 0;
    std::string said_;
};

TEST_F(WatcherReserveTest, PromisesWhatIsFreeAndHoldsItBackUntilItIsReleased) {
    const json before = watcher_->status()["host"];
    ASSERT_TRUE(ask({{"size_kib", 100 * kMib}, {"owner", "we\nb"}}));
    const auto granted = answer();
    ASSERT_TRUE(granted) << granted.error().what;
    EXPECT_EQ((*granted)["state"], "granted");
    EXPECT_EQ((*granted)["owner"], "we?b");
    EXPECT_EQ((*granted)["pid"], getpid());
    const json status = watcher_->status();
    ASSERT_EQ(status["reservations"].size(), 1U);
    for (const auto& [name, value] : granted->items()) {
        if (!name.ends_with("_ms")) {  // time passes between the two
            EXPECT_EQ(status["reservations"][0][name], value) << name;
        }
    }
    EXPECT_EQ(status["host"]["promised_to_starts_kib"], 100 * kMib);
    EXPECT_EQ(status["host"]["free_kib"], before["free_kib"]);
    ASSERT_TRUE(run_until(loop_, [&] {
        return watcher_->status()["host"]["spendable_kib"] ==
               before["spendable_kib"].get<std::uint64_t>() - 100 * kMib;
    }));
    EXPECT_TRUE(watcher_->release((*granted)["id"]));
    EXPECT_EQ(watcher_->status()["reservations"], json::array());
    EXPECT_EQ(watcher_->release((*granted)["id"]).error().code, ENOENT);
}

TEST_F(WatcherReserveTest, ComputesTheSizeOfAConfiguration) {
    const json config{
        {"c_info",
         {{"type", "pvh"}, {"name", "web"}, {"uuid", "01234567-89ab-cdef-0123-456789abcdef"}}},
        {"b_info",
         {{"max_vcpus", 1},
          {"max_memkb", 64 * kMib},
          {"target_memkb", 64 * kMib},
          {"type.pvh", json::object()}}}};
    ASSERT_TRUE(ask({{"config", config.dump()}}));
    const json granted = answer().value();
    EXPECT_EQ(granted["owner"], "web");
    EXPECT_EQ(granted["uuid"], "01234567-89ab-cdef-0123-456789abcdef");
    EXPECT_GT(granted["overhead_kib"], 0);
    EXPECT_EQ(granted["size_kib"], 64 * kMib + granted["overhead_kib"].get<std::uint64_t>());
    EXPECT_EQ(refusal({{"config", "no configuration"}}), EINVAL);
}

TEST_F(WatcherReserveTest, RefusesAtOnceWhatNoZoneCouldGive) {
    EXPECT_EQ(refusal({{"size_kib", 900 * kMib}, {"owner", "web"}}), ENOMEM);
    EXPECT_THAT(said_, HasSubstr("web needs 900 MiB; "));
    EXPECT_THAT(said_, HasSubstr(" MiB are missing"));
    EXPECT_EQ(watcher_->status()["reservations"], json::array());
}

TEST_F(WatcherReserveTest, WhoWouldNotWaitIsRefusedWhatMustBeGivenFirst) {
    ASSERT_TRUE(ask({{"size_kib", 300 * kMib}, {"owner", "web"}, {"wait_ms", 0u}}))
        << "lazy could give it";
    const auto refused = answer();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOMEM);
    EXPECT_THAT(refused.error().what, HasSubstr("did not become free in time"));
    ASSERT_TRUE(ask({{"size_kib", 100 * kMib}, {"wait_ms", 0u}}));
    EXPECT_TRUE(answer());
}

TEST_F(WatcherReserveTest, ARestartTakesPromisesUpAgain) {
    ASSERT_TRUE(ask({{"size_kib", 100 * kMib}, {"owner", "web"}}));
    const json granted = answer().value();
    restart();
    const json list = watcher_->status()["reservations"];
    ASSERT_EQ(list.size(), 1u);
    EXPECT_EQ(list[0]["id"], granted["id"]);
    EXPECT_EQ(list[0]["held_kib"], 100 * kMib);
}

// As a journal of yesterday is not read by who looks today.
TEST_F(WatcherReserveTest, ALostBookIsAFaultOfTheHostUntilItIsWrittenWell) {
    std::ofstream(directory_ / "reservations.json") << "{";
    restart();
    const auto faults = [this] { return watcher_->status()["host"]["faults"]; };
    ASSERT_EQ(faults().size(), 1U);
    EXPECT_THAT(faults()[0], HasSubstr("damaged"));
    ASSERT_TRUE(ask({{"size_kib", kMib}}));
    EXPECT_EQ(faults(), json::array());
    EXPECT_TRUE(answer());
}

// Without a start that brings it about.
TEST_F(WatcherReserveTest, ABookThatCouldNotBeWrittenIsWrittenOnceItCan) {
    ASSERT_TRUE(ask({{"size_kib", kMib}}));
    const json granted = answer().value();
    const std::string book = directory_ / "reservations.json";
    std::filesystem::remove(book);
    std::filesystem::create_directory(book);
    ASSERT_TRUE(watcher_->release(granted["id"]));
    const auto faults = [this] { return watcher_->status()["host"]["faults"]; };
    EXPECT_EQ(faults().size(), 1U);
    std::filesystem::remove(book);
    watcher_->look_soon();
    EXPECT_TRUE(run_until(loop_, [&] { return faults().empty(); }));
}

TEST_F(WatcherReserveTest, ADomainThatIsThereNeedsNoReservation) {
    EXPECT_EQ(refusal({{"size_kib", kMib}, {"uuid", lazy("uuid")}}), EBUSY);
}

// It goes by its deadline; two of them are no matter, and neither is a member that is said twice.
TEST_F(WatcherReserveTest, WhatIsNobodysEndsByItsDeadline) {
    ASSERT_TRUE(ask(json::parse(R"({"size_kib":1,"size_kib":4,"pid":0,"deadline_ms":200})")));
    const json first = answer().value();
    ASSERT_TRUE(ask({{"size_kib", 4U}, {"pid", 0U}, {"deadline_ms", 200U}}));
    const json second = answer().value();
    EXPECT_EQ(first["owner"], "nobody");
    EXPECT_EQ(first["pid"], nullptr);
    EXPECT_EQ(first["size_kib"], 4);
    EXPECT_NE(first["id"], second["id"]);
    EXPECT_TRUE(run_until(loop_, [&] { return watcher_->status()["reservations"].empty(); }));
}

TEST_F(WatcherReserveTest, RefusesWhatIsNoRequest) {
    // As text: a reader of JSON knows no difference between 1 and +1.
    for (const char* asked : {
             R"({})",
             R"({"size_kib":0})",
             R"({"size_kib":-1})",
             R"({"size_kib":1.5})",
             R"({"size_kib":"1"})",
             R"({"size_kib":1125899906842624})",
             R"({"size_kib":1,"config":"{}"})",
             R"({"config":1})",
             R"({"size_kib":1,"szie":1})",
             R"({"size_kib":1,"uuid":"x"})",
             R"({"size_kib":1,"uuid":"01234567-89ab-cdef-0123-456789abcde"})",
             R"({"size_kib":1,"uuid":"01234567-89ab-cdef-0123-456789abcdeg"})",
             R"({"size_kib":1,"uuid":"0123456789-ab-cdef-0123-456789abcdef"})",
             R"({"size_kib":1,"uuid":"00000000-0000-0000-0000-000000000000"})",
             R"({"size_kib":1,"owner":1})",
             R"({"size_kib":1,"wait_ms":-1})",
             R"({"size_kib":1,"deadline_ms":1e30})",
             R"({"size_kib":1,"deadline_ms":0})",
         }) {
        EXPECT_EQ(refusal(json::parse(asked)), EINVAL) << asked;
        EXPECT_NE(said_, "");
    }
    EXPECT_EQ(refusal(json::parse(R"({"size_kib":1,"pid":2147483647})")), ESRCH);
    EXPECT_EQ(watcher_->status()["reservations"], json::array());
}

}  // namespace
}  // namespace xenpack
