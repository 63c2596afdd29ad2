// SPDX-License-Identifier: LGPL-2.1-or-later
// Zones that ask to be forked, as the whole watcher serves them on the simulated host: what they
// write, what they are answered, and what comes of it. Real time, in which a step of the host takes
// 0.1 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/simulated_watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_until;

constexpr std::uint64_t kMib = 1024;

class WatcherSelfForkTest : public testing::SimulatedWatcher {
  protected:
    WatcherSelfForkTest() { config_.zone_defaults.self_forks = 3; }

    void wish(const std::string& text, std::uint32_t domid = 1) {
        ASSERT_TRUE(store_->make({{domain_path(domid, "data/xenpack/fork-me"), text}}));
    }
    std::string answer(std::uint32_t domid = 1) {
        const auto text = store_->read(domain_path(domid, "xenpack/fork-me"));
        return text && *text ? **text : "(nothing)";
    }
    bool answered(const std::string& words) {
        return run_until(loop_, [&] { return answer().find(words) != std::string::npos; });
    }
    bool is_ready(const std::string& name) {
        const json fork = one("unmanaged", name);
        return fork.is_object() && fork.value("ready", false);
    }
    std::string node_of(const std::string& name, const std::string& below) {
        return node(domain(name), below);
    }
};

TEST_F(WatcherSelfForkTest, ItsFirstForkTakesItsPlaceAndTheOthersHaveNamesOfTheirOwn) {
    begin_host();
    wish("w1 2");
    EXPECT_TRUE(answered("w1 accepted"));
    ASSERT_TRUE(run_until(
        loop_, [this] { return is_ready("web") && is_ready("web-1") && is_ready("web-2"); }));
    EXPECT_EQ(one("templates", "web.template")["domid"], 1);
    EXPECT_EQ(node_of("web", "xenpack/fork/index"), "w1 0");
    EXPECT_EQ(node_of("web-1", "xenpack/fork/index"), "w1 1");
    EXPECT_EQ(node_of("web-2", "xenpack/fork/index"), "w1 2");
    EXPECT_EQ(node_of("web", "xenpack/fork/name"), "web");
    EXPECT_EQ(watcher_->status()["templates"][0]["children"], 3);
    EXPECT_EQ(watcher_->status()["reservations"], json::array());
    EXPECT_TRUE(control_.said("fork", "web", "it forks itself at its own wish: 2 beside it"));
}

TEST_F(WatcherSelfForkTest, TheNamesOfTheOthersAreForItToSay) {
    begin_host();
    wish("w1 1 web-job-%d");
    ASSERT_TRUE(run_until(loop_, [this] { return is_ready("web") && is_ready("web-job-1"); }));
}

TEST_F(WatcherSelfForkTest, ButTheyBeginWithItsOwn) {
    begin_host();
    int n = 0;
    for (const char* pattern : {"job-%d", "web%d", "w-%d", "Web-%d", "a-web-%d"}) {
        const std::string id = "w" + std::to_string(++n);
        wish(id + " 1 " + pattern);
        EXPECT_TRUE(answered(id + " refused the names of its forks have to begin with web-, as in "
                                  "web-job-%d"))
            << pattern << ": " << answer();
    }
    EXPECT_EQ(watcher_->status()["templates"], json::array());
}

TEST_F(WatcherSelfForkTest, WhatIsNoWishOrNotAllowedIsRefusedInWords) {
    begin_host();
    wish("rm -rf /");
    EXPECT_TRUE(answered("unknown refused this is no wish"));
    wish("w1 4");
    EXPECT_TRUE(answered("w1 refused the host allows this zone 3 forks of itself"));
    config_.zone_defaults.self_forks.reset();
    ASSERT_TRUE(watcher_->reload());
    wish("w2 1");
    EXPECT_TRUE(answered("w2 refused the host does not allow this zone to fork itself"));
    EXPECT_EQ(one("unmanaged", "web")["domid"], 1);
    EXPECT_EQ(watcher_->status()["templates"], json::array());
}

TEST_F(WatcherSelfForkTest, WhatIsWithdrawnIsNotAccepted) {
    begin_host();
    wish("w1 1");
    wish("");
    EXPECT_FALSE(run_until(
        loop_, [this] { return answer() != "(nothing)"; }, 500));
}

TEST_F(WatcherSelfForkTest, WhoAsksTooOftenIsNotListenedTo) {
    begin_host();
    for (int i = 0; i < 12; ++i) {
        const std::string id = "w" + std::to_string(i);
        wish(id + " 99");
        if (!run_until(
                loop_, [&] { return answer().starts_with(id + " "); }, 500)) {
            break;
        }
    }
    EXPECT_THAT(answer(), HasSubstr("not-now it asks too often"));
    const std::string last = answer();
    wish("late 1");
    EXPECT_FALSE(run_until(
        loop_, [&] { return answer() != last; }, 500));
}

// Whatever it is that it writes.
TEST_F(WatcherSelfForkTest, WhoWritesWithoutEndIsNotListenedTo) {
    begin_host();
    for (int i = 0; i < 2 * static_cast<int>(kLookBurst); ++i) {
        wish("");
        (void)run_until(
            loop_, [] { return false; }, 5);
    }
    wish("w1 99");
    EXPECT_FALSE(run_until(
        loop_, [&] { return answer() != "(nothing)"; }, 500));
}

TEST_F(WatcherSelfForkTest, NamesThatTheStoreCannotKeepAreRefused) {
    config_.zone_defaults.self_forks = 256;
    begin_host();
    wish("w1 256 web-a-name-that-is-rather-long-for-a-zone-%d");
    EXPECT_TRUE(answered("w1 refused the names of 256 forks are too long together"));
    EXPECT_EQ(watcher_->status()["templates"], json::array());
}

TEST_F(WatcherSelfForkTest, AZoneThatCannotBeQuietRunsOnAndIsToldWhy) {
    begin_host("quiesce = fails\n");
    wish("w1 1");
    EXPECT_TRUE(
        answered("w1 refused web does not become a template: it cannot be quiet: a "
                 "simulated hook has failed; it runs on"));
    EXPECT_EQ(one("unmanaged", "web")["domid"], 1);
    EXPECT_EQ(watcher_->status()["reservations"], json::array());
}

// As where two of its programs ask: the later wish is in the place of the earlier.
TEST_F(WatcherSelfForkTest, WhatItWishesWhileAnotherWishIsUnderWayIsHeardAfterThat) {
    begin_host("quiesce = fails\n");
    wish("w1 1");
    ASSERT_TRUE(answered("w1 accepted"));
    wish("w2 1");
    EXPECT_TRUE(answered("w1 refused web does not become a template"));
    EXPECT_TRUE(answered("w2 refused web does not become a template"));
    EXPECT_FALSE(run_until(
        loop_, [this] { return !answer().starts_with("w2 refused"); }, 500))
        << "and each once";
}

TEST_F(WatcherSelfForkTest, WithoutMemoryNothingHappens) {
    config_.fork_reserve_kib = 300 * kMib;
    begin_host();
    wish("w1 1");
    EXPECT_TRUE(answered("w1 not-now web needs 600 MiB")) << answer();
    EXPECT_EQ(watcher_->status()["templates"], json::array());
}

TEST_F(WatcherSelfForkTest, OnceItIsSealedItsPlaceIsTriedForAgainAndAgain) {
    begin_host("identity = fails\n");
    wish("w1 1");
    ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "web.template").is_object(); }));
    ASSERT_TRUE(run_until(loop_, [this] {
        return control_.said("fault", "web.template", "its forks cannot be made, and web is made");
    }));
    EXPECT_TRUE(run_until(loop_, [this] {
        const json web = one("unmanaged", "web");
        return web.is_object() && node_of("web", "xenpack/fork/index").find("w1 refused web") == 0;
    })) << "alone, and it knows why";
    EXPECT_TRUE(one("unmanaged", "web-1").is_null());
}

TEST_F(WatcherSelfForkTest, AForkIsNotListenedTo) {
    begin_host();
    wish("w1 1");
    ASSERT_TRUE(run_until(loop_, [this] { return is_ready("web") && is_ready("web-1"); }));
    const auto domid = one("unmanaged", "web")["domid"].get<std::uint32_t>();
    wish("w2 1", domid);
    EXPECT_FALSE(run_until(
        loop_, [&] { return answer(domid) != "(nothing)"; }, 500));
    EXPECT_EQ(watcher_->status()["templates"].size(), 1U);
}

TEST_F(WatcherSelfForkTest, TheTemplateGoesWithItsLastFork) {
    begin_host("fork-end = 1s\n");
    wish("w1 1");
    ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "web.template").is_object(); }));
    EXPECT_TRUE(run_until(loop_, [this] { return watcher_->status()["templates"].empty(); }));
    EXPECT_TRUE(control_.said("fork", "web.template", "its last fork has gone"));
}

// ---- an earlier daemon --------------------------------------------------------------------------

TEST_F(WatcherSelfForkTest, WhatWasAcceptedAndGotNoFurtherIsTakenUp) {
    begin_host();
    ASSERT_TRUE(store_->make({{domain_path(1, "xenpack/fork-me"), "w1 accepted"}}));
    wish("w1 1");
    EXPECT_TRUE(run_until(loop_, [this] { return is_ready("web") && is_ready("web-1"); }));
}

TEST_F(WatcherSelfForkTest, ForksThatAreMissingAreMadeByTheNextDaemon) {
    begin_host();
    ASSERT_TRUE(store_->make({{domain_path(1, "xenpack/self-fork"), "w1 web web-1"}}));
    ASSERT_TRUE(watcher_->make_template({{"zone", "web"}, {"name", "web.template"}}, {1, 1}));
    EXPECT_TRUE(run_until(loop_, [this] { return is_ready("web") && is_ready("web-1"); }));
    EXPECT_TRUE(control_.said("fork", "web.template", "2 forks of it were to be made"));
}

}  // namespace
}  // namespace xenpack
