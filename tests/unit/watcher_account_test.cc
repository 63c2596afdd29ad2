// SPDX-License-Identifier: LGPL-2.1-or-later
// What the whole watcher says of who holds the host's memory, and of what one more would take, on
// the simulated host: nothing is unexplained there, and what is foretold comes to be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/unit/simulated_watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_until;

class WatcherAccountTest : public testing::SimulatedWatcher {
  protected:
    Expected<json> answer() {
        if (!run_until(loop_, [this] { return control_.answers.contains(last_); })) {
            return fail("no answer");
        }
        return control_.answers.at(last_);
    }
    void seal() {
        ASSERT_TRUE(watcher_->make_template({{"zone", "web"}, {"name", "base"}}, {++last_, 1}));
        ASSERT_TRUE(answer());
    }
    void fork(const char* name) {
        ASSERT_TRUE(watcher_->make_forks({{"template", "base"}, {"name", name}}, {++last_, 1}));
        ASSERT_TRUE(answer());
    }
    json account() {
        auto account = watcher_->account();
        EXPECT_TRUE(account) << account.error().what;
        return account.value_or(json::object());
    }
    json domain_of(const char* name) {
        const json account = this->account();
        for (const json& domain : account["domains"]) {
            if (domain["name"] == name) {
                return domain;
            }
        }
        return nullptr;
    }
    std::uint64_t last_ = 0;
};

TEST_F(WatcherAccountTest, ExplainsEveryPage) {
    begin_host();
    const json account = this->account();
    EXPECT_EQ(account["host"]["remainder_kib"], 0);
    EXPECT_EQ(account["host"]["at_rest"], true);
    EXPECT_EQ(account["domains"][0]["name"], "Domain-0");
    EXPECT_EQ(account["domains"][0]["kind"], "dom0");
    EXPECT_EQ(domain_of("web")["kind"], "other") << "it has no more than its memory";
    EXPECT_EQ(account["nodes"][0]["free_kib"], account["host"]["free_kib"]);
    EXPECT_TRUE(account["families"].empty());
}

TEST_F(WatcherAccountTest, ForksCostWhatWasForetoldAndAreAFamily) {
    begin_host();
    seal();
    const auto foretold = watcher_->cost({{"template", "base"}});
    ASSERT_TRUE(foretold) << foretold.error().what;
    const std::uint64_t before = account()["host"]["free_kib"];
    fork("job-1");
    const json account = this->account();
    const std::uint64_t took = before - account["host"]["free_kib"].get<std::uint64_t>();
    EXPECT_NEAR(static_cast<double>(took), (*foretold)["size_kib"].get<double>(), 2048);
    EXPECT_EQ(account["host"]["remainder_kib"], 0);
    EXPECT_EQ(account["families"][0]["template"], "base");
    EXPECT_EQ(account["families"][0]["forks"], 1);
    EXPECT_EQ(account["density"]["zones"], 1);
    EXPECT_EQ(account["density"]["kinds"][0]["template"], "base");
    EXPECT_GT(account["density"]["kinds"][0]["fit_now"], 0);
    EXPECT_EQ(domain_of("job-1")["template"], "base");
    EXPECT_EQ(domain_of("job-1")["kind"], "fork");
    EXPECT_TRUE(domain_of("base")["frees_kib"].is_null());
    const auto by_kin = watcher_->cost({{"template", "base"}});
    ASSERT_TRUE(by_kin);
    EXPECT_EQ((*by_kin)["memory_kib"], domain_of("job-1")["own_kib"]) << "as its kin did";
}

TEST_F(WatcherAccountTest, ToldWrongSaysWhatIsWrong) {
    begin_host();
    const auto why = [this](const json& asked) {
        const auto cost = watcher_->cost(asked);
        return cost ? "(an answer)" : cost.error().what;
    };
    EXPECT_THAT(why(json::object()), HasSubstr("either a config or a template"));
    EXPECT_THAT(why({{"config", "{}"}, {"template", "base"}}), HasSubstr("either"));
    EXPECT_THAT(why({{"config", 5}}), HasSubstr("must be a string"));
    EXPECT_THAT(why({{"size", 5}}), HasSubstr("no member size"));
    EXPECT_THAT(why({{"template", "nosuch"}}), HasSubstr("nosuch"));
    EXPECT_THAT(why({{"template", "web"}}), HasSubstr("no template"));
    EXPECT_THAT(why({{"config", "{}"}}), HasSubstr("configuration"));
}

}  // namespace
}  // namespace xenpack
