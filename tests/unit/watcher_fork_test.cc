// SPDX-License-Identifier: LGPL-2.1-or-later
// Templates and forks as the whole watcher serves them, on the simulated host: what is answered,
// shown and said, what stands in the store, and that nothing is left of what fails. Real time, in
// which a step of the host takes 0.1 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "tests/unit/simulated_watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_until;
using ::testing::SizeIs;

constexpr std::uint64_t kMib = 1024;

class WatcherForkTest : public testing::SimulatedWatcher {
  protected:
    // "web" as the template "base".
    void begin_with_template(const std::string& keys = "", const std::string& more = "") {
        begin_host(keys, more);
        ASSERT_TRUE(seal({{"zone", "web"}, {"name", "base"}}));
        const auto sealed = answer();
        ASSERT_TRUE(sealed) << sealed.error().what;
        ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "base").is_object(); }));
    }
    Expected<void> seal(const json& asked) { return watcher_->make_template(asked, caller()); }
    Expected<void> fork(const json& asked) { return watcher_->make_forks(asked, caller()); }
    Expected<void> remove(const std::string& name) {
        return watcher_->remove_template(name, caller());
    }
    Control::Caller caller() { return {++last_, 0}; }
    // The answer to the last request, or to that one.
    Expected<json> answer() { return answer_to(last_); }
    Expected<json> answer_to(std::uint64_t request) {
        EXPECT_TRUE(run_until(loop_, [&] { return control_.answers.contains(request); }));
        return control_.answers.at(request);
    }
    std::size_t intents() const {
        std::error_code none;
        const std::filesystem::directory_iterator files(directory_ / "forks", none);
        return static_cast<std::size_t>(std::distance(begin(files), end(files)));
    }
    int refusal(const Expected<void>& refused) {
        said_ = refused ? "" : refused.error().what;
        return refused ? 0 : refused.error().code;
    }

    std::uint64_t last_ = 0;
    std::string said_;
};

// ---- templates ----------------------------------------------------------------------------------

TEST_F(WatcherForkTest, AZoneThatIsQuietBecomesATemplate) {
    begin_host();
    const json zone = domain("web");
    ASSERT_TRUE(seal({{"zone", "web"}, {"name", "base"}}));
    const auto made = answer();
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_EQ((*made)["name"], "base");
    EXPECT_EQ((*made)["domid"], zone["domid"]);
    EXPECT_EQ((*made)["uuid"], zone["uuid"]);
    ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "base").is_object(); }));
    const json shown = one("templates", "base");
    EXPECT_EQ(shown["state"], "sealed");
    EXPECT_EQ(shown["identity"], "guest");
    EXPECT_EQ(shown["children"], 0);
    EXPECT_EQ(shown["memory_kib"], 64 * kMib);
    EXPECT_TRUE(domain("base").is_null()) << "it is not among the others as well";
    EXPECT_EQ(node(zone, "xenpack/template"), "sealed");
    EXPECT_EQ(node(zone, "xenpack/identity"), "guest");
    EXPECT_EQ(node(zone, "xenpack/quiesce"), "(nothing)");
    EXPECT_EQ(node(zone, "xenpack/template-name"), "(nothing)");
    EXPECT_TRUE(control_.said("template", "base", "web is a template now"));
}

TEST_F(WatcherForkTest, AZoneWithoutAReporterCanBeOneToo) {
    begin_host("reporter = silent\n");
    ASSERT_TRUE(seal({{"zone", "web"}, {"identity", "none"}}));
    ASSERT_TRUE(answer());
    ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "web").is_object(); }));
    EXPECT_EQ(one("templates", "web")["identity"], "none");
    ASSERT_TRUE(fork({{"template", "web"}}));
    const auto made = answer();
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_TRUE((*made)["forks"][0]["ready_ms"].is_number()) << "with nobody to wait for";
}

// Each with what is said of it, and the code.
TEST_F(WatcherForkTest, AZoneThatCannotBecomeATemplateRunsOn) {
    struct Case {
        const char* keys;
        const char* why;
        int code;
    };
    for (const Case& c : {Case{"quiesce = fails\n", "a simulated hook has failed", EREMOTEIO},
                          Case{"quiesce = hangs\n", "is xenpack-guest running", ETIMEDOUT},
                          Case{"reporter = silent\n", "is xenpack-guest running", ETIMEDOUT},
                          Case{"maxmem = 128M\n", "maxmem of web is above its memory", ENOTSUP}}) {
        SCOPED_TRACE(c.keys);
        control_ = {};
        const bool managed = std::string(c.keys).starts_with("maxmem");
        if (managed) {
            config_.zone_defaults.manage = false;
        }
        begin_host(c.keys);
        const json zone = domain("web");
        ASSERT_TRUE(seal({{"zone", "web"}, {"name", "base"}, {"timeout_ms", 1'000U}}));
        const auto refused = answer();
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, c.code);
        EXPECT_THAT(refused.error().what, HasSubstr("web does not become a template: "));
        EXPECT_THAT(refused.error().what, HasSubstr(c.why));
        EXPECT_THAT(refused.error().what, HasSubstr("; it runs on"));
        EXPECT_EQ(node(zone, "xenpack"), "(nothing)");
        EXPECT_EQ(domain("web")["domid"], zone["domid"]);
        EXPECT_EQ(watcher_->status()["templates"], json::array());
        watcher_.reset();
    }
}

TEST_F(WatcherForkTest, OneThatDoesNotSuspendInTimeRunsOn) {
    begin_host("suspend = hangs\n");
    const json zone = domain("web");
    ASSERT_TRUE(seal({{"zone", "web"}, {"timeout_ms", 300U}}));
    const auto refused = answer();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ETIMEDOUT);
    EXPECT_EQ(node(zone, "xenpack"), "(nothing)");
}

TEST_F(WatcherForkTest, ATemplateComesToBeThoughItsCallerHangsUp) {
    begin_host();
    ASSERT_TRUE(seal({{"zone", "web"}}));
    watcher_->caller_gone(last_);
    EXPECT_TRUE(run_until(loop_, [this] { return one("templates", "web").is_object(); }));
    EXPECT_TRUE(control_.answers.empty());
}

TEST_F(WatcherForkTest, AZoneThatCannotBeOneAsItIsIsRefusedAtOnce) {
    begin_host("", std::string("[zone other]\n") + testing::kZoneKeys);
    EXPECT_EQ(refusal(seal({{"zone", "nosuch"}})), ENOENT);
    EXPECT_THAT(said_, HasSubstr("nosuch"));
    EXPECT_EQ(refusal(seal({{"zone", "web"}, {"name", "Domain-0"}})), EEXIST);
    EXPECT_THAT(said_, HasSubstr("Domain-0"));
    EXPECT_EQ(refusal(seal({{"zone", "web"}, {"name", "other"}})), EEXIST);
    EXPECT_EQ(refusal(seal({{"zone", "web"}, {"name", "a/b"}})), EINVAL);
    EXPECT_EQ(refusal(seal({{"zone", "web"}, {"timeout_ms", 0U}})), EINVAL);
    for (const char* asked : {R"({})", R"({"zone":1})", R"({"zone":"web","identity":"both"})",
                              R"({"zone":"web","name":1})", R"({"zone":"web","timeout_ms":-1})",
                              R"({"zone":"web","nmae":"x"})"}) {
        EXPECT_EQ(refusal(seal(json::parse(asked))), EINVAL) << asked;
    }
    ASSERT_TRUE(seal({{"zone", "web"}}));
    const std::uint64_t first = last_;
    EXPECT_EQ(refusal(seal({{"zone", "web"}})), EBUSY) << "it is under way";
    EXPECT_EQ(refusal(seal({{"zone", "other"}, {"name", "web"}})), EEXIST);
    ASSERT_TRUE(answer_to(first));
    ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "web").is_object(); }));
    EXPECT_EQ(refusal(seal({{"zone", "web"}})), EBUSY);
    EXPECT_THAT(said_, HasSubstr("web is a template already"));
}

TEST_F(WatcherForkTest, AHostThatLacksSomethingForForksSaysWhat) {
    host_keys_ = "sharing = no\n";
    begin_host();
    EXPECT_EQ(refusal(seal({{"zone", "web"}})), ENOSYS);
    EXPECT_THAT(said_, HasSubstr("shares no memory"));
    EXPECT_EQ(refusal(fork({{"template", "web"}})), ENOSYS);
}

// ---- forks --------------------------------------------------------------------------------------

TEST_F(WatcherForkTest, ForksAreThereWithNamesAndIdentitiesOfTheirOwn) {
    begin_with_template();
    const std::uint64_t free_kib = watcher_->status()["host"]["free_kib"];
    ASSERT_TRUE(fork({{"template", "base"}, {"count", 3U}, {"name", "job-%d"}}));
    const auto made = answer();
    ASSERT_TRUE(made) << made.error().what;
    ASSERT_THAT((*made)["forks"], SizeIs(3));
    std::set<std::string> generations;
    for (const json& fork : (*made)["forks"]) {
        EXPECT_GT(fork["unpaused_ms"], 0);
        EXPECT_GE(fork["ready_ms"], fork["unpaused_ms"]);
        EXPECT_EQ(node(fork, "xenpack/fork/state"), "complete");
        EXPECT_EQ(node(fork, "xenpack/fork/generation"), fork["uuid"]);
        EXPECT_EQ(node(fork, "xenpack/fork/name"), fork["name"]);
        EXPECT_EQ(node(fork, "xenpack/fork/seed"), "(nothing)") << "once it has it";
        generations.insert(node(fork, "xenpack/fork/generation"));
        EXPECT_TRUE(control_.said("fork", fork["name"].get<std::string>(), "made of base in"));
        EXPECT_TRUE(control_.said("fork", fork["name"].get<std::string>(), "ready after"));
        EXPECT_FALSE(control_.said("found", fork["name"].get<std::string>(), ""));
    }
    EXPECT_THAT(generations, SizeIs(3));
    const json job = domain("job-2");
    EXPECT_EQ(job["template"], "base");
    EXPECT_EQ(job["fork_state"], "complete");
    EXPECT_EQ(job["ready"], true);
    EXPECT_LT(job["current_kib"], 8 * kMib);
    EXPECT_EQ(one("templates", "base")["children"], 3);
    const json host = watcher_->status()["host"];
    EXPECT_LT(free_kib - host["free_kib"].get<std::uint64_t>(), 3 * 16 * kMib);
    EXPECT_EQ(host["promised_to_starts_kib"], 0) << "what was promised was handed over";
    EXPECT_GT(host["spendable_kib"], free_kib - 100 * kMib)
        << "forks are not expected to grow to their targets";
    EXPECT_EQ(intents(), 0U);
}

TEST_F(WatcherForkTest, NamesPassOverThoseThatAreTaken) {
    begin_with_template();
    ASSERT_TRUE(fork({{"template", "base"}}));
    ASSERT_EQ(answer().value()["forks"][0]["name"], "base-1");
    ASSERT_TRUE(fork({{"template", "base"}, {"count", 2U}}));
    const std::uint64_t first = last_;
    ASSERT_TRUE(fork({{"template", "base"}}));
    EXPECT_EQ(answer().value()["forks"][0]["name"], "base-4") << "also promised ones are";
    EXPECT_EQ(control_.answers.at(first).value()["forks"][1]["name"], "base-3");
}

TEST_F(WatcherForkTest, WhatIsNoRequestForForksIsRefusedAndNothingComesOfIt) {
    begin_with_template("", std::string("[zone other]\n") + testing::kZoneKeys);
    EXPECT_EQ(refusal(fork({{"template", "nosuch"}})), ENOENT);
    EXPECT_THAT(said_, HasSubstr("there is no template nosuch"));
    EXPECT_EQ(refusal(fork({{"template", "other"}})), EPERM);
    EXPECT_THAT(said_, HasSubstr("xenpack template create other"));
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"name", "base"}})), EEXIST);
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"count", 0U}})), EINVAL);
    EXPECT_THAT(said_, HasSubstr("0 is no number of forks"));
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"count", 2U}, {"name", "x"}})), EINVAL);
    EXPECT_THAT(said_, HasSubstr("%d"));
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"name", "a/b"}})), EINVAL);
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"paused", true}, {"until", "ready"}})), EINVAL);
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"count", 2U}, {"address", "10.0.0.1"}})),
              EINVAL);
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"address", "a\nb"}})), EINVAL);
    for (const char* asked :
         {R"({})", R"({"template":1})", R"({"template":"base","count":"2"})",
          R"({"template":"base","until":"gone"})", R"({"template":"base","paused":1})",
          R"({"template":"base","name":7})", R"({"template":"base","cuont":7})",
          R"({"template":"base","timeout_ms":1})"}) {
        EXPECT_EQ(refusal(fork(json::parse(asked))), EINVAL) << asked;
    }
    EXPECT_EQ(watcher_->status()["reservations"], json::array());
    EXPECT_EQ(one("templates", "base")["children"], 0);
}

TEST_F(WatcherForkTest, MemoryThatIsNotThereIsSaidBeforeAnythingIsMade) {
    config_.fork_reserve_kib = 300 * kMib;
    begin_with_template();
    EXPECT_EQ(refusal(fork({{"template", "base"}, {"count", 2U}})), ENOMEM);
    EXPECT_THAT(said_, HasSubstr("a set of 2 forks of base needs 600 MiB"));
    ASSERT_TRUE(fork({{"template", "base"}}));
    EXPECT_TRUE(answer());
}

TEST_F(WatcherForkTest, OfForksThatCannotTakeTheirIdentityNoneIsLeft) {
    begin_with_template("identity = fails\n");
    const std::uint64_t free_kib = watcher_->status()["host"]["free_kib"];
    ASSERT_TRUE(fork({{"template", "base"}, {"count", 3U}, {"name", "job-%d"}}));
    const auto refused = answer();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EREMOTEIO);
    EXPECT_THAT(refused.error().what, HasSubstr("a simulated hook has failed"));
    EXPECT_THAT(refused.error().what, HasSubstr("; of the 3 forks none is left"));
    const json status = watcher_->status();
    EXPECT_EQ(status["templates"][0]["children"], 0);
    EXPECT_EQ(status["host"]["free_kib"], free_kib);
    EXPECT_EQ(status["reservations"], json::array());
    EXPECT_EQ(intents(), 0U);
}

TEST_F(WatcherForkTest, OneThatIsSilentIsGivenUpAlsoIfNobodyWaitsForIt) {
    begin_with_template("identity = hangs\n");
    ASSERT_TRUE(
        fork({{"template", "base"}, {"name", "job"}, {"until", "running"}, {"timeout_ms", 500U}}));
    const auto made = answer();
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_TRUE((*made)["forks"][0]["ready_ms"].is_null());
    EXPECT_EQ(domain("job")["ready"], false);
    EXPECT_TRUE(run_until(loop_, [this] {
        return control_.said("fault", "job", "it is destroyed: it has not said");
    }));
    EXPECT_TRUE(run_until(loop_, [this] { return domain("job").is_null(); }));
}

TEST_F(WatcherForkTest, WhoHangsUpWantsNone) {
    begin_with_template();
    ASSERT_TRUE(fork({{"template", "base"}, {"count", 12U}}));
    ASSERT_TRUE(run_until(loop_, [this] { return domain("base-1").is_object(); }));
    watcher_->caller_gone(last_);
    EXPECT_TRUE(run_until(loop_, [this] {
        const json status = watcher_->status();
        return status["templates"][0]["children"] == 0 && status["reservations"].empty();
    }));
    EXPECT_FALSE(answer());
    EXPECT_EQ(intents(), 0U);
    ASSERT_TRUE(fork({{"template", "base"}}));
    EXPECT_EQ(answer().value()["forks"][0]["name"], "base-1") << "their names are free again";
}

TEST_F(WatcherForkTest, AForkMayBeLeftPaused) {
    begin_with_template();
    ASSERT_TRUE(
        fork({{"template", "base"}, {"name", "still"}, {"paused", true}, {"timeout_ms", 200U}}));
    const auto made = answer();
    ASSERT_TRUE(made) << made.error().what;
    EXPECT_TRUE((*made)["forks"][0]["unpaused_ms"].is_null());
    EXPECT_FALSE(run_until(
        loop_, [this] { return domain("still").is_null(); }, 800))
        << "and is not blamed for its silence";
    EXPECT_EQ(domain("still")["ready"], false);
    EXPECT_THAT(domain("still")["why"], HasSubstr("a fork"));
}

TEST_F(WatcherForkTest, AForkThatShutsDownIsTakenAway) {
    begin_with_template("fork-end = 800ms\n");
    ASSERT_TRUE(fork({{"template", "base"}, {"name", "job"}}));
    ASSERT_TRUE(answer());
    EXPECT_TRUE(run_until(loop_, [this] { return domain("job").is_null(); }));
    EXPECT_TRUE(control_.said("fork", "job", "it has shut down (poweroff) and is taken away"));
    EXPECT_TRUE(run_until(loop_, [this] { return control_.said("gone", "job", ""); }));
    EXPECT_EQ(one("templates", "base")["children"], 0);
}

// ---- ends ---------------------------------------------------------------------------------------

TEST_F(WatcherForkTest, ATemplateIsRemovedOnlyWithoutForks) {
    begin_with_template("fork-end = 1s\n");
    const std::uint64_t free_kib = watcher_->status()["host"]["free_kib"];
    EXPECT_EQ(refusal(remove("nosuch")), ENOENT);
    ASSERT_TRUE(fork({{"template", "base"}, {"name", "job"}}));
    const std::uint64_t forked = last_;
    EXPECT_EQ(refusal(remove("base")), EBUSY) << "one is being made";
    ASSERT_TRUE(answer_to(forked));
    EXPECT_EQ(refusal(remove("base")), EBUSY);
    EXPECT_THAT(said_, HasSubstr("1 fork lives: job"));
    EXPECT_EQ(refusal(remove("job")), EPERM) << "a fork is none";
    ASSERT_TRUE(run_until(loop_, [this] { return domain("job").is_null(); }));
    ASSERT_TRUE(remove("base"));
    ASSERT_TRUE(answer());
    EXPECT_EQ(watcher_->status()["templates"], json::array());
    EXPECT_GT(watcher_->status()["host"]["free_kib"], free_kib);
    EXPECT_TRUE(control_.said("template", "base", "the template was removed"));
}

TEST_F(WatcherForkTest, AForkIsNoTemplateAndIsNotBallooned) {
    begin_with_template();
    ASSERT_TRUE(fork({{"template", "base"}, {"name", "job"}}));
    const std::uint64_t forked = last_;
    EXPECT_NE(refusal(seal({{"zone", "job"}})), 0) << "it is not even there";
    ASSERT_TRUE(answer_to(forked));
    EXPECT_EQ(refusal(fork({{"template", "job"}})), EPERM);
    EXPECT_EQ(watcher_->set_zone("job", {{"pin_kib", 32 * kMib}}).error().code, EPERM)
        << "nor is it ballooned";
}

TEST_F(WatcherForkTest, AForkBecomesATemplateAndIsItsTemplatesForkStill) {
    begin_with_template();
    ASSERT_TRUE(fork({{"template", "base"}, {"name", "job"}}));
    ASSERT_TRUE(answer());
    ASSERT_TRUE(run_until(loop_, [this] { return domain("job")["ready"] == true; }));
    ASSERT_TRUE(seal({{"zone", "job"}, {"name", "second"}}));
    const auto sealed = answer();
    ASSERT_TRUE(sealed) << sealed.error().what;
    ASSERT_TRUE(run_until(loop_, [this] { return one("templates", "second").is_object(); }));
    EXPECT_EQ(one("templates", "second")["template"], "base");
    ASSERT_TRUE(fork({{"template", "second"}, {"name", "grand"}}));
    const auto forked = answer();
    ASSERT_TRUE(forked) << forked.error().what;
    ASSERT_TRUE(run_until(loop_, [this] { return domain("grand")["template"] == "second"; }));
    EXPECT_EQ(one("templates", "base")["children"], 1);
    EXPECT_EQ(refusal(remove("base")), EBUSY);
    EXPECT_THAT(said_, HasSubstr("second"));
    EXPECT_EQ(refusal(remove("second")), EBUSY);
    EXPECT_THAT(said_, HasSubstr("grand"));
}

}  // namespace
}  // namespace xenpack
