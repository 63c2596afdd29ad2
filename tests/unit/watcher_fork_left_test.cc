// SPDX-License-Identifier: LGPL-2.1-or-later
// What an earlier daemon has left half made, and what others do to templates and forks: the whole
// watcher on a host of which the test says which domains there are, and which answers each call of
// the toolstack as it is told to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <optional>

#include "plugin/sim/store.h"
#include "plugin/sim/toolstack.h"
#include "tests/unit/fake_control.h"
#include "tests/unit/http_client_fixture.h"
#include "watcher/fork/intents.h"
#include "watcher/watcher.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::run_until;

// ---- a host as it is told -----------------------------------------------------------------------

struct Host {
    std::vector<xenpack_domain> domains;
    std::vector<std::string> calls;
    std::string missing;
    int missing_n = 0;
    int answer = 0;  // to what is asked of it
    std::vector<std::function<void(int)>> owed;
    int adopted = 0;                // the answer to adopt()
    std::uint32_t not_adopted = 0;  // but for this one there is no memory
    std::uint64_t free_kib = 1 << 20;
    std::vector<std::string> whole;  // what was done to keep forks whole, in order
    const xenpack_watcher_ops* watcher = nullptr;
};
Host host;

std::string name_of(std::uint32_t domid) {
    return "domain " + std::to_string(domid);
}

int table_open(const xenpack_watcher_ops* watcher, xenpack_toolstack** ts_r, char*, std::size_t) {
    static xenpack_watcher_ops kept;
    kept = *watcher;
    host.watcher = &kept;
    *ts_r = reinterpret_cast<xenpack_toolstack*>(&host);
    return 0;
}

void answer_owed(int answer) {
    for (const auto& owed : std::exchange(host.owed, {})) {
        owed(answer);
    }
}

// As the contract has it: what is under way is called off.
void table_close(xenpack_toolstack*) {
    answer_owed(-ECANCELED);
}

int table_host(xenpack_toolstack*, xenpack_host* host_r) {
    *host_r = {};
    host_r->total_kib = 1 << 20;
    host_r->free_kib = host.free_kib;
    host_r->cpus = 2;
    return 0;
}

int table_refresh(xenpack_toolstack*, xenpack_domain* domains, std::size_t capacity) {
    std::copy_n(host.domains.begin(), std::min(capacity, host.domains.size()), domains);
    return static_cast<int>(host.domains.size());
}

int table_domain_config(xenpack_toolstack*, std::uint32_t, const std::uint8_t*,
                        xenpack_domain_config* config_r) {
    *config_r = {65536, 65536};
    return 0;
}

int table_missing(xenpack_toolstack*, char* missing, std::size_t size) {
    std::snprintf(missing, size, "%s", host.missing.c_str());
    return host.missing_n;
}

void owe(const std::string& call, xenpack_done done, void* arg) {
    host.calls.push_back(call);
    host.owed.emplace_back([done, arg](int answer) { done(arg, answer, answer == 0 ? "" : "no"); });
}

int table_seal(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*, const char* name,
               std::uint64_t, xenpack_done done, void* arg) {
    owe("seal " + name_of(domid) + " as " + name, done, arg);
    return 0;
}

// None is ever made.
int table_fork(xenpack_toolstack*, const xenpack_fork_request* request, xenpack_fork_done done,
               void* arg) {
    host.calls.push_back(std::string("fork ") + request->name);
    host.owed.emplace_back([done, arg](int answer) { done(arg, answer, "no", nullptr); });
    return 0;
}

int table_destroy(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*, xenpack_done done,
                  void* arg) {
    owe("destroy " + name_of(domid), done, arg);
    if (host.answer == 0) {
        std::erase_if(host.domains, [domid](const auto& each) { return each.domid == domid; });
    }
    return 0;
}

void set_paused(std::uint32_t domid, bool paused) {
    for (xenpack_domain& domain : host.domains) {
        if (domain.domid == domid) {
            domain.flags &= ~std::uint32_t{XENPACK_DOMAIN_IS_PAUSED};
            domain.flags |= paused ? std::uint32_t{XENPACK_DOMAIN_IS_PAUSED} : 0U;
        }
    }
}

int table_adopt(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*) {
    host.whole.push_back("adopt " + std::to_string(domid));
    return domid == host.not_adopted ? -ENOMEM : host.adopted;
}

int table_feed(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*) {
    host.whole.push_back("feed " + std::to_string(domid));
    return 0;
}

int table_hold(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*) {
    host.whole.push_back("hold " + std::to_string(domid));
    set_paused(domid, true);
    return 0;
}

int table_let_go(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*) {
    host.whole.push_back("let_go " + std::to_string(domid));
    set_paused(domid, false);
    return 0;
}

int table_rename(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*, const char* name) {
    host.calls.push_back("rename " + name_of(domid) + " to " + name);
    return 0;
}

int table_unpause(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t*) {
    host.calls.push_back("unpause " + name_of(domid));
    set_paused(domid, false);
    return 0;
}

const xenpack_toolstack_ops& table() {
    static const xenpack_toolstack_ops kTable = [] {
        xenpack_toolstack_ops ops{};
        ops.version = XENPACK_TOOLSTACK_VERSION;
        ops.name = "told";
        ops.built_for = "a test";
        ops.open = table_open;
        ops.close = table_close;
        ops.last_error = [](xenpack_toolstack*) { return "refused"; };
        ops.host = table_host;
        ops.refresh = table_refresh;
        ops.domain_config = table_domain_config;
        ops.open_store = sim::toolstack_ops().open_store;
        ops.close_store = sim::toolstack_ops().close_store;
        ops.fork_missing = table_missing;
        ops.seal = table_seal;
        ops.fork = table_fork;
        ops.destroy = table_destroy;
        ops.adopt = table_adopt;
        ops.feed = table_feed;
        ops.hold = table_hold;
        ops.let_go = table_let_go;
        ops.rename = table_rename;
        ops.unpause = table_unpause;
        return ops;
    }();
    return kTable;
}

Uuid uuid_of(std::uint32_t domid) {
    Uuid uuid{};
    uuid[0] = static_cast<std::uint8_t>(domid);
    return uuid;
}

// ---- the tests ----------------------------------------------------------------------------------

constexpr std::uint32_t kTemplate = 3;

class WatcherForkLeftTest : public ::testing::Test {
  protected:
    WatcherForkLeftTest() {
        host = {};
        xenpack_domain dom0{};
        dom0.current_kib = 1 << 20;
        host.domains.push_back(dom0);
        store_ = std::move(plugin_.open_store(loop_, [] {}).value());
        add(kTemplate, "base", XENPACK_DOMAIN_IS_PAUSED);
        write(kTemplate, {{"xenpack/template", "sealed"}, {"xenpack/identity", "guest"}});
    }

    // A domain as the toolstack lists it, with its nodes, if it has a name.
    void add(std::uint32_t domid, const std::string& name, std::uint32_t flags = 0,
             int reason = -1) {
        xenpack_domain domain{};
        domain.domid = domid;
        const Uuid uuid = uuid_of(domid);
        std::ranges::copy(uuid, domain.uuid);
        domain.flags = flags;
        domain.limit_kib = 512 * 1024;
        domain.vcpus_online = 1;
        domain.shutdown_reason = reason;
        host.domains.push_back(domain);
        if (!name.empty()) {
            write(domid, {{"name", name}, {"vm", "/vm/" + to_string(uuid)}});
        }
    }
    void write(std::uint32_t domid, const std::vector<std::pair<std::string, std::string>>& nodes) {
        for (const auto& [below, value] : nodes) {
            ASSERT_TRUE(store_->make({{domain_path(domid, below), value}}));
        }
    }
    // A fork of the template.
    void add_fork(std::uint32_t domid, const std::string& state, std::uint32_t flags = 0,
                  int reason = -1) {
        add(domid, "job", flags, reason);
        write(domid, {{"xenpack/fork/template", to_string(uuid_of(kTemplate))},
                      {"xenpack/fork/state", state},
                      {"xenpack/fork/generation", to_string(uuid_of(domid))}});
    }
    std::string node(std::uint32_t domid, const std::string& below) {
        return store_->read(domain_path(domid, below)).value().value_or("(nothing)");
    }
    void start() {
        config_.socket_path = directory_ / "socket";
        watcher_ = std::make_unique<Watcher>(
            Watcher::Rooms{loop_, plugin_, *store_, journal_}, config_,
            OverridesFile::load(directory_ / "settings.json").value(), [this] { return config_; },
            [] {});
        watcher_->attach(&control_);
        ASSERT_TRUE(watcher_->start());
        look();
    }
    // The host answers what it has been asked.
    void pay() {
        answer_owed(host.answer);
        look();
    }
    void look() { (void)watcher_->status(); }
    void starve(std::uint32_t domid) {
        xenpack_event event{XENPACK_FORK_STARVED, domid, {}, -1};
        const Uuid uuid = uuid_of(domid);
        std::ranges::copy(uuid, event.uuid);
        host.watcher->on_event(host.watcher->user, &event);
    }
    void say_low() {
        const xenpack_event event{XENPACK_HOST_LOW, 0, {}, -1};
        host.watcher->on_event(host.watcher->user, &event);
    }
    bool has_done(const std::vector<std::string>& deeds) {
        return soon([&] { return host.whole == deeds; });
    }
    bool soon(const std::function<bool()>& so) { return run_until(loop_, so); }
    // Until it has looked after its pools: the last of them has no template, which it says.
    void begin_with(std::vector<PoolConfig> pools) {
        pools.push_back({"zz", "nosuch", 1, {}, "zz-%d", false, 9});
        config_.pools = std::move(pools);
        start();
        ASSERT_TRUE(soon([this] { return control_.said("fork", "", "the pool zz is not full"); }));
    }
    json fork() { return watcher_->status()["unmanaged"].at(0); }
    std::size_t intents() { return intents_.load()->size(); }

    testing::TemporaryDirectory directory_;
    Intents intents_{directory_ / "forks"};
    Loop loop_;
    Journal journal_{LogLevel::error};
    Config config_;
    PluginObject plugin_{table()};
    std::unique_ptr<Store> store_;
    testing::FakeControl control_;
    std::unique_ptr<Watcher> watcher_;
};

TEST_F(WatcherForkLeftTest, TemplatesAndForksAreKnownAgain) {
    add_fork(5, "complete");
    start();
    const json shown = watcher_->status()["templates"].at(0);
    EXPECT_EQ(shown["name"], "base");
    EXPECT_EQ(shown["children"], 1);
    EXPECT_EQ(fork()["template"], "base");
    EXPECT_EQ(fork()["ready"], true);
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_EQ(watcher_->remove_template("base", {1, 0}).error().code, EBUSY);
}

TEST_F(WatcherForkLeftTest, AForkThatIsNotCompleteIsTakenAway) {
    add_fork(5, "building", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    ASSERT_TRUE(intents_.write({uuid_of(5), to_string(uuid_of(kTemplate)), "job"}));
    start();
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
    EXPECT_EQ(intents(), 1U) << "until it is gone";
    pay();
    EXPECT_EQ(intents(), 0U);
    EXPECT_TRUE(control_.said("fork", "job", "half made"));
}

TEST_F(WatcherForkLeftTest, ADomainWithNothingInTheStoreIsKnownByItsIntent) {
    add(5, "", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    add(6, "", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    ASSERT_TRUE(intents_.write({uuid_of(5), "", "job"}));
    start();
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5")) << "the other is somebody else's";
    pay();
    EXPECT_EQ(intents(), 0U);
}

TEST_F(WatcherForkLeftTest, WhatAFileSaysOfAWholeZoneIsNoReasonToDestroyIt) {
    add(5, "web");
    add(6, "held", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    ASSERT_TRUE(store_->make({{"/libxl/6/type", "pvh"}}));
    add_fork(7, "complete");
    for (const std::uint32_t domid : {kTemplate, 5U, 6U}) {
        ASSERT_TRUE(intents_.write({uuid_of(domid), to_string(uuid_of(kTemplate)), "job"}));
    }
    ASSERT_TRUE(intents_.write({uuid_of(7), to_string(uuid_of(9)), "job", "jobs"}));
    start();
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_EQ(intents(), 0U);
    EXPECT_EQ(node(7, "xenpack/pool"), "(nothing)");
    for (const char* name : {"base", "web", "held", "job"}) {
        EXPECT_TRUE(control_.said("fault", name, "it is left alone, though a file in")) << name;
    }
}

TEST_F(WatcherForkLeftTest, AForkThatHasBecomeATemplateOutlivesAFileThatCouldNotBeRemoved) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/template", "sealed"}});
    ASSERT_TRUE(intents_.write({uuid_of(5), to_string(uuid_of(kTemplate)), "job"}));
    start();
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_EQ(intents(), 0U);
    EXPECT_FALSE(control_.said("fault", "job", ""));
}

TEST_F(WatcherForkLeftTest, ATemplateThatHasRunIsSaidAndNotForked) {
    write(kTemplate, {{"xenpack/sealed-cpu-ns", "7"}});
    host.domains.back().cpu_time_ns = 7;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    write(5, {{"xenpack/pool", "jobs"}});
    begin_with({{"jobs", "base", 1, {}, "job-%d", false, 1}});
    EXPECT_EQ(watcher_->status()["templates"].at(0)["state"], "sealed");
    EXPECT_THAT(host.calls, IsEmpty());
    host.domains.at(1).cpu_time_ns = 8;
    ASSERT_TRUE(
        soon([this] { return watcher_->status()["templates"].at(0)["state"] == "spoilt"; }));
    const auto refused = watcher_->make_forks({{"template", "base"}}, {2, 1});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ESTALE);
    EXPECT_THAT(refused.error().what, HasSubstr("base cannot be forked: it has run"));
    say_low();  // it looks at all there is
    ASSERT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5")) << "which stood ready";
    look();
    EXPECT_EQ(std::ranges::count_if(control_.events,
                                    [](const json& event) {
                                        return event["kind"] == "fault" && event["zone"] == "base";
                                    }),
              1);
}

TEST_F(WatcherForkLeftTest, OneThatIsCompleteLivesAndIntentsOfNothingGo) {
    add_fork(5, "complete");
    ASSERT_TRUE(intents_.write({uuid_of(5), "", "job"}));
    ASSERT_TRUE(intents_.write({uuid_of(9), "", "never"}));
    start();
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_EQ(intents(), 0U);
}

TEST_F(WatcherForkLeftTest, OneThatHasNotTakenItsIdentityIsWaitedFor) {
    add_fork(5, "complete");
    write(5, {{"xenpack/fork/seed", "00"}});
    start();
    EXPECT_EQ(fork()["ready"], false);
    write(5, {{"data/xenpack/fork", to_string(uuid_of(6)) + " ready"}});
    write(5, {{"data/xenpack/fork", to_string(uuid_of(5)) + " ready"}});
    EXPECT_TRUE(soon([this] { return fork()["ready"] == true; }));
    EXPECT_EQ(node(5, "xenpack/fork/seed"), "(nothing)");
}

TEST_F(WatcherForkLeftTest, OneThatCannotTakeItIsDestroyed) {
    add_fork(5, "complete");
    write(5, {{"xenpack/fork/seed", "00"},
              {"data/xenpack/fork", to_string(uuid_of(5)) + " failed no\x1b entropy"}});
    start();
    EXPECT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
    EXPECT_TRUE(control_.said("fault", "job", "no  entropy"));
}

TEST_F(WatcherForkLeftTest, OneThatGoesBeforeItHasTakenItIsSaidToHaveGone) {
    add_fork(5, "complete");
    write(5, {{"xenpack/fork/seed", "00"}});
    start();
    std::erase_if(host.domains, [](const auto& each) { return each.domid == 5; });
    look();
    EXPECT_TRUE(control_.said("fault", "job", "it has gone before it was ready"));
    EXPECT_FALSE(control_.said("fault", "job", "it is destroyed"));
}

TEST_F(WatcherForkLeftTest, ForksOfATemplateWithoutReportersAreReadyByThemselves) {
    write(kTemplate, {{"xenpack/identity", "none"}});
    add_fork(5, "complete");
    write(5, {{"xenpack/fork/seed", "00"}});
    start();
    EXPECT_TRUE(soon([this] { return fork()["ready"] == true; }));
    EXPECT_EQ(node(5, "xenpack/fork/seed"), "(nothing)");
}

// ---- of zones that fork themselves --------------------------------------------------------------

TEST_F(WatcherForkLeftTest, WhoHasItsPlaceAlreadyIsNotMadeAgainWhateverBecomesOfTheOthers) {
    add_fork(5, "complete");
    write(5, {{"xenpack/fork/index", "w1 0"}});
    write(kTemplate, {{"xenpack/self-fork", "w1 web web-1"}});
    start();
    ASSERT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("fork web-1"));
    EXPECT_EQ(node(kTemplate, "xenpack/self-fork"), "w1 +web web-1");
    answer_owed(-ENOMEM);
    EXPECT_TRUE(soon([this] { return node(kTemplate, "xenpack/self-fork") == "done"; }));
    EXPECT_TRUE(control_.said("fault", "base", "web goes on in its place, but the forks that"));
    std::erase_if(host.domains, [](const auto& each) { return each.domid == 5; });
    look();
    EXPECT_TRUE(soon([] { return host.calls.back() == "destroy domain 3"; }));
    EXPECT_THAT(host.calls, ElementsAre("fork web-1", "destroy domain 3"));
}

TEST_F(WatcherForkLeftTest, WhoHasHadItsPlaceAndHasEndedIsNotMadeAgain) {
    write(kTemplate, {{"xenpack/self-fork", "w1 +web web-1"}});
    start();
    ASSERT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("fork web-1"));
}

TEST_F(WatcherForkLeftTest, WhoMayHaveItsPlaceIsWaitedForUntilThatIsKnown) {
    add_fork(5, "complete");
    write(5, {{"xenpack/fork/index", "w1 0"}, {"xenpack/fork/seed", "00"}});
    write(kTemplate, {{"xenpack/self-fork", "w1 web web-1"}});
    start();
    EXPECT_FALSE(run_until(
        loop_, [] { return !host.calls.empty(); }, 300));
    write(5, {{"data/xenpack/fork", to_string(uuid_of(5)) + " failed no entropy"}});
    ASSERT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
    pay();
    EXPECT_TRUE(soon([] { return host.calls.size() == 3; }));
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5", "fork web", "fork web-1"));
}

TEST_F(WatcherForkLeftTest, WhatWasAcceptedAndIsNotWishedAnyMoreIsForgotten) {
    add(7, "web");
    write(7, {{"xenpack/self-fork", "w1 web web-1"}, {"xenpack/fork-me", "w1 accepted"}});
    start();
    EXPECT_TRUE(soon([this] { return node(7, "xenpack/self-fork") == "(nothing)"; }));
    EXPECT_THAT(host.calls, IsEmpty());
}

TEST_F(WatcherForkLeftTest, AZoneWhoseSealCannotBeUndoneGetsItsForksOnceItIsSealed) {
    add(7, "web", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_IS_SHUTDOWN, 2);
    write(7, {{"xenpack/template", "sealing"},
              {"xenpack/template-name", "web.template"},
              {"xenpack/self-fork", "w1 web web-1"}});
    start();
    const std::string seal = "seal domain 7 as web.template";
    for (std::size_t tried = 1; tried <= 3; ++tried) {
        ASSERT_TRUE(soon([&] { return host.calls.size() == tried; })) << tried;
        EXPECT_EQ(host.calls.back(), seal);
        EXPECT_EQ(node(7, "xenpack/self-fork"), "w1 web web-1");
        if (tried < 3) {
            answer_owed(-EIO);
        }
    }
    EXPECT_EQ(node(7, "xenpack/fork-me"), "(nothing)") << "it is not refused";
    write(7, {{"name", "web.template"}, {"xenpack/template", "sealed"}});
    answer_owed(0);
    ASSERT_TRUE(soon([] { return host.calls.size() == 5; }));
    EXPECT_THAT(host.calls, ElementsAre(seal, seal, seal, "fork web", "fork web-1"));
}

TEST_F(WatcherForkLeftTest, ATemplateOfAWishGoesWhateverKeepsItFirst) {
    add_fork(5, "complete");
    write(kTemplate, {{"xenpack/self-fork", "done"}});
    start();
    ASSERT_TRUE(watcher_->make_forks({{"template", "base"}}, {1, 0}));
    ASSERT_TRUE(soon([] { return host.calls.size() == 1; }));
    std::erase_if(host.domains, [](const auto& each) { return each.domid == 5; });
    look();
    EXPECT_FALSE(run_until(
        loop_, [] { return host.calls.size() > 1; }, 300))
        << "forks of it are being made";
    host.answer = -EIO;
    answer_owed(-EIO);
    ASSERT_TRUE(soon([] { return host.calls.size() == 2; }));
    EXPECT_THAT(host.calls, ElementsAre("fork base-1", "destroy domain 3"));
    answer_owed(-EIO);
    EXPECT_TRUE(soon([this] {
        return control_.said("fault", "base", "it cannot be destroyed, which is tried again");
    }));
}

// ---- of pools -----------------------------------------------------------------------------------

TEST_F(WatcherForkLeftTest, WhoStandsReadyAndWhoWasTakenIsKnownAgain) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    write(5, {{"xenpack/fork/seed", "00"}, {"xenpack/pool", "jobs"}});
    add_fork(6, "complete");
    write(6, {{"xenpack/pool", "jobs"}, {"xenpack/pool-state", "taken"}});
    begin_with({{"jobs", "base", 1, 2, "job-%d", false, 1}});
    const json pool = watcher_->status()["pools"].at(0);
    EXPECT_EQ(pool["ready"], 1);
    EXPECT_EQ(pool["taken"], 1);
    EXPECT_EQ(pool["making"], 0);
    EXPECT_TRUE(pool["why"].is_null());
    EXPECT_THAT(host.calls, IsEmpty()) << "none too many, and none too few";
}

TEST_F(WatcherForkLeftTest, OneThatWasMadeForAPoolAndNotMarkedYetIsItsAllTheSame) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    write(5, {{"xenpack/fork/seed", "00"}});
    ASSERT_TRUE(intents_.write({uuid_of(5), "", "job", "jobs"}));
    begin_with({{"jobs", "base", 1, {}, "job-%d", false, 1}});
    EXPECT_EQ(watcher_->status()["pools"].at(0)["ready"], 1);
    EXPECT_EQ(node(5, "xenpack/pool"), "jobs");
    EXPECT_EQ(intents(), 0U);
    EXPECT_THAT(host.calls, IsEmpty());
}

TEST_F(WatcherForkLeftTest, OneThatWasBeingHandedOutHasReachedNobodyAndGoes) {
    add_fork(5, "complete");
    write(5, {{"xenpack/pool", "jobs"}, {"xenpack/pool-state", "taking"}});
    begin_with({{"jobs", "base", 0, {}, "job-%d", false, 1}});
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
    EXPECT_TRUE(control_.said("fork", "job", "it was being handed out when xenpackd ended"));
}

TEST_F(WatcherForkLeftTest, OfAPoolThatIsNotConfiguredTheTakenOnesStay) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    write(5, {{"xenpack/fork/seed", "00"}, {"xenpack/pool", "jobs"}});
    add_fork(6, "complete");
    write(6, {{"xenpack/pool", "jobs"}, {"xenpack/pool-state", "taken"}});
    begin_with({});
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
}

TEST_F(WatcherForkLeftTest, OneWhoseTemplateHasGoneIsNotHandedOut) {
    for (const std::uint32_t domid : {5U, 6U}) {
        add_fork(domid, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
        write(domid, {{"xenpack/fork/seed", "00"}, {"xenpack/pool", "jobs"}});
    }
    begin_with({{"jobs", "base", 2, {}, "job-%d", false, 1}});
    EXPECT_THAT(host.calls, IsEmpty());
    std::erase_if(host.domains, [](const auto& each) { return each.domid == kTemplate; });
    const auto taken = watcher_->take_fork("jobs", json::object(), {1, 1});
    ASSERT_FALSE(taken);
    EXPECT_THAT(taken.error().what, HasSubstr("there is no template base"));
    EXPECT_TRUE(soon([this] { return control_.said("fork", "job", "its template has gone"); }));
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5", "destroy domain 6"));
}

// Who has paused it alone may let it go: Xen counts pauses, and not whose they are.
TEST_F(WatcherForkLeftTest, OneThatIsHeldForWantOfMemoryIsHandedOutWhenItGoesOn) {
    host.free_kib = 0;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/held", "guard"}, {"xenpack/pool", "jobs"}});
    begin_with({{"jobs", "base", 1, 1, "job-%d", true, 1}});
    const json pool = watcher_->status()["pools"].at(0);
    EXPECT_EQ(pool["ready"], 0);
    EXPECT_EQ(pool["held"], 1);
    EXPECT_THAT(pool["why"].get<std::string>(), HasSubstr("1 of its forks is held"));
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"name", "build"}}, {1, 1}));
    look();
    EXPECT_FALSE(control_.answers.contains(1));
    EXPECT_EQ(node(5, "xenpack/pool-state"), "(nothing)");
    host.free_kib = 1 << 20;
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "let_go 5"}));
    ASSERT_TRUE(soon([this] { return control_.answers.contains(1); }));
    EXPECT_TRUE(control_.answers.at(1));
    EXPECT_EQ(node(5, "xenpack/pool-state"), "taken");
    EXPECT_THAT(host.calls, ElementsAre("rename domain 5 to build"));
}

TEST_F(WatcherForkLeftTest, OneThatIsHeldForTooLongStaysWhereItStands) {
    host.free_kib = 0;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/held", "guard"}, {"xenpack/pool", "jobs"}});
    begin_with({{"jobs", "base", 1, 1, "job-%d", true, 1}});
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"timeout_ms", 100U}}, {1, 1}));
    ASSERT_TRUE(run_until(loop_, [this] { return control_.answers.contains(1); }));
    ASSERT_FALSE(control_.answers.at(1));
    EXPECT_EQ(control_.answers.at(1).error().code, ENOMEM);
    EXPECT_THAT(control_.answers.at(1).error().what,
                AllOf(HasSubstr("no fork of the pool jobs stood ready within 100 ms: "),
                      HasSubstr("1 of its forks is held until there is memory")));
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_EQ(watcher_->status()["pools"].at(0)["held"], 1);
}

TEST_F(WatcherForkLeftTest, OneThatIsHeldAndNotReadyIsWaitedForAndNotHandedOut) {
    host.free_kib = 0;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/held", "guard"}, {"xenpack/pool", "jobs"}, {"xenpack/fork/seed", "00"}});
    begin_with({{"jobs", "base", 1, 1, "job-%d", true, 1}});
    const json pool = watcher_->status()["pools"].at(0);
    EXPECT_EQ(pool["ready"], 0);
    EXPECT_EQ(pool["making"], 1);
}

TEST_F(WatcherForkLeftTest, OneThatCanRunIsHandedOutThoughAnOlderOneIsHeld) {
    host.free_kib = 0;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/held", "guard"}, {"xenpack/pool", "jobs"}});
    add_fork(6, "complete", XENPACK_DOMAIN_IS_PAUSED);  // by somebody else
    write(6, {{"xenpack/pool", "jobs"}});
    begin_with({{"jobs", "base", 2, 2, "job-%d", true, 1}});
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"until", "running"}}, {1, 1}));
    EXPECT_THAT(host.calls, ElementsAre("unpause domain 6"));
    EXPECT_EQ(node(6, "xenpack/pool-state"), "taking");
    EXPECT_EQ(node(5, "xenpack/pool-state"), "(nothing)");
}

TEST_F(WatcherForkLeftTest, OneThatCannotBeServedYetIsNotHandedOut) {
    host.free_kib = 0;
    host.adopted = -ENOMEM;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    write(5, {{"xenpack/pool", "jobs"}, {"xenpack/fork/seed", "00"}});
    begin_with({{"jobs", "base", 1, 1, "job-%d", false, 1}});
    ASSERT_TRUE(has_done({"adopt 5"}));
    ASSERT_TRUE(watcher_->take_fork("jobs", json::object(), {1, 1}));
    EXPECT_THAT(host.calls, IsEmpty()) << "who takes it waits";
    EXPECT_EQ(node(5, "xenpack/pool-state"), "(nothing)");
    host.adopted = 0;
    ASSERT_TRUE(soon([] { return !host.calls.empty(); })) << ::testing::PrintToString(host.whole);
    EXPECT_THAT(host.calls, ElementsAre("unpause domain 5"));
}

TEST_F(WatcherForkLeftTest, OneThatCannotBeServedKeepsNobodyFromTheNext) {
    host.not_adopted = 5;
    for (const std::uint32_t domid : {5U, 6U}) {
        add_fork(domid, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
        write(domid, {{"xenpack/pool", "jobs"}, {"xenpack/fork/seed", "00"}});
    }
    begin_with({{"jobs", "base", 2, 2, "job-%d", false, 1}});
    ASSERT_TRUE(has_done({"adopt 5", "adopt 6"}));
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"until", "running"}}, {1, 1}));
    EXPECT_THAT(host.calls, ElementsAre("unpause domain 6"));
}

// libxl takes the nodes away before the domain.
TEST_F(WatcherForkLeftTest, OneThatIsBeingDestroyedIsNotHandedOutAndGetsNoNodesAnew) {
    for (const std::uint32_t domid : {5U, 6U}) {
        add_fork(domid, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
        write(domid, {{"xenpack/pool", "jobs"}, {"xenpack/fork/seed", "00"}});
    }
    begin_with({{"jobs", "base", 2, 2, "job-%d", false, 1}});
    ASSERT_TRUE(store_->remove("/local/domain/5"));
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"until", "running"}}, {1, 1}));
    EXPECT_THAT(store_->list("/local/domain/5").value(), IsEmpty());
    EXPECT_EQ(node(6, "xenpack/pool-state"), "taking") << "the next is";
    EXPECT_THAT(host.calls, ElementsAre("unpause domain 6"));
}

TEST_F(WatcherForkLeftTest, OneThatGoesWhileItIsHandedOutGetsNoNodesAnew) {
    host.free_kib = 0;  // for the next one either
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    write(5, {{"xenpack/pool", "jobs"}, {"xenpack/fork/seed", "00"}});
    begin_with({{"jobs", "base", 1, 1, "job-%d", false, 1}});
    ASSERT_TRUE(watcher_->take_fork("jobs", {{"until", "running"}}, {1, 1}));
    ASSERT_TRUE(store_->remove("/local/domain/5"));
    ASSERT_TRUE(soon([] { return host.calls.size() == 2; }));
    EXPECT_THAT(host.calls, ElementsAre("unpause domain 5", "destroy domain 5"));
    pay();
    ASSERT_TRUE(control_.answers.contains(1));
    EXPECT_EQ(control_.answers.at(1).error().code, ESRCH);
    EXPECT_THAT(store_->list("/local/domain/5").value(), IsEmpty());
}

// ---- templates ----------------------------------------------------------------------------------

TEST_F(WatcherForkLeftTest, AZoneThatWasOnlyToldToBeQuietRunsOn) {
    add(5, "web");
    write(5, {{"xenpack/quiesce", "abc"}, {"xenpack/template-name", "tip"}});
    start();
    EXPECT_EQ(node(5, "xenpack"), "(nothing)");
    EXPECT_THAT(host.calls, IsEmpty());
    EXPECT_TRUE(control_.said("template", "web", "it runs on"));
}

TEST_F(WatcherForkLeftTest, ASealThatWasBrokenOffGoesOnUnderTheNameThatWasAskedFor) {
    add(5, "web", XENPACK_DOMAIN_IS_SHUTDOWN, 2);
    write(5, {{"xenpack/quiesce", "abc"},
              {"xenpack/identity", "none"},
              {"xenpack/template-name", "tip"},
              {"xenpack/template", "sealing"}});
    start();
    EXPECT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("seal domain 5 as tip"));
    EXPECT_EQ(watcher_->make_forks({{"template", "web"}}, {1, 0}).error().code, EBUSY);
    write(5, {{"xenpack/template", "sealed"}});
    pay();
    EXPECT_EQ(node(5, "xenpack/quiesce"), "(nothing)");
    EXPECT_EQ(node(5, "xenpack/identity"), "none");
    EXPECT_THAT(host.calls, ElementsAre("seal domain 5 as tip")) << "once";
}

TEST_F(WatcherForkLeftTest, OneThatWasSuspendedBeforeItsSealBeganIsSealedToo) {
    add(5, "web", XENPACK_DOMAIN_IS_SHUTDOWN, 2);
    write(5, {{"xenpack/identity", "none"}, {"xenpack/template-name", "tip"}});
    start();
    EXPECT_TRUE(soon([] { return !host.calls.empty(); }));
    EXPECT_THAT(host.calls, ElementsAre("seal domain 5 as tip"));
}

TEST_F(WatcherForkLeftTest, ASealThatFailsWhereItCannotBeUndoneCanBeAskedForAgain) {
    add(5, "web", XENPACK_DOMAIN_IS_SHUTDOWN, 2);
    write(5, {{"xenpack/template-name", "tip"}, {"xenpack/template", "sealing"}});
    host.answer = -EIO;
    start();
    EXPECT_TRUE(soon([] { return !host.owed.empty(); }));
    pay();
    EXPECT_EQ(node(5, "xenpack/template"), "sealing");
    EXPECT_TRUE(control_.said("fault", "web", "it stays as it is"));
    EXPECT_THAT(host.calls, ElementsAre("seal domain 5 as tip")) << "and is not tried all the time";
    ASSERT_TRUE(watcher_->make_template({{"zone", "web"}}, {1, 0}));
    host.answer = 0;
    EXPECT_TRUE(soon([] { return host.calls.size() == 2; }));
    pay();
    EXPECT_TRUE(soon([this] { return control_.answers.contains(1); }));
    EXPECT_TRUE(control_.answers.at(1));
}

TEST_F(WatcherForkLeftTest, OneThatCannotGoOnRunsAsItWas) {
    add(5, "web");
    write(5, {{"xenpack/quiesce", "abc"}, {"xenpack/template", "sealing"}});
    start();
    EXPECT_TRUE(soon([] { return !host.calls.empty(); }));
    host.answer = -EIO;
    ASSERT_TRUE(store_->remove(domain_path(5, "xenpack/template")));  // as the plugin does
    pay();
    EXPECT_EQ(node(5, "xenpack"), "(nothing)");
    EXPECT_TRUE(control_.said("fault", "web", "it runs on"));
}

TEST_F(WatcherForkLeftTest, AForkThatHasCrashedIsTakenAwayAndOneThatIsSavedIsNot) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_SHUTDOWN, 3);
    add_fork(6, "complete", XENPACK_DOMAIN_IS_SHUTDOWN, 2);
    start();
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
    EXPECT_TRUE(control_.said("fork", "job", "shut down (crash)"));
    pay();
    look();
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
}

TEST_F(WatcherForkLeftTest, WhatCannotBeDestroyedIsSaidOnceAndNotAskedAllTheTime) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_SHUTDOWN, 3);
    host.answer = -EIO;
    start();
    pay();
    look();
    EXPECT_THAT(host.calls, ElementsAre("destroy domain 5"));
    EXPECT_TRUE(control_.said("fault", "job", "cannot be destroyed"));
}

TEST_F(WatcherForkLeftTest, ATemplateThatOthersDestroyIsAFaultWhileItHasForks) {
    add_fork(5, "complete");
    start();
    std::erase_if(host.domains, [](const auto& each) { return each.domid == kTemplate; });
    look();
    EXPECT_TRUE(control_.said("fault", "base", "1 fork lives: job"));
}

TEST_F(WatcherForkLeftTest, WhatAHostLacksIsNamedOneByOne) {
    host.missing = "the hypervisor shares no memory: build it so\nthere is no block-xenpack\n";
    host.missing_n = 2;
    start();
    const auto refused = watcher_->make_forks({{"template", "base"}}, {1, 0});
    EXPECT_EQ(refused.error().code, ENOSYS);
    EXPECT_THAT(refused.error().what,
                HasSubstr("shares no memory: build it so; there is no block-xenpack"));
}

TEST_F(WatcherForkLeftTest, WhatAHostLacksIsAskedAgain) {
    const auto lacks = [](const std::string& sentence) {
        host.missing = sentence;
        host.missing_n = sentence.empty() ? 0 : 1;
    };
    const auto shown = [this] { return watcher_->status()["host"]["forks_lack"]; };
    lacks("Xen cannot be asked");
    start();
    EXPECT_EQ(shown(), json::array({"Xen cannot be asked"}));
    lacks("dom0 is not PV");
    EXPECT_EQ(shown(), json::array({"dom0 is not PV"}));
    lacks("");
    EXPECT_EQ(shown(), json::array());
    lacks("the hypervisor shares no memory");
    ASSERT_TRUE(watcher_->reload());
    EXPECT_EQ(shown(), json::array({"the hypervisor shares no memory"}));
}

// ---- forks when memory runs out
// ------------------------------------------------------------------

TEST_F(WatcherForkLeftTest, EachForkIsServedAndHeldWhenXenHasLittleLeft) {
    add_fork(5, "complete");
    start();
    ASSERT_TRUE(has_done({"adopt 5"}));
    EXPECT_EQ(fork()["held"], false);
    EXPECT_EQ(fork()["waits_why"], nullptr);
    host.free_kib = 30 * 1024;
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "hold 5"}));
    EXPECT_EQ(node(5, "xenpack/held"), "guard");
    EXPECT_EQ(fork()["held"], true);
    EXPECT_THAT(fork()["waits_why"].get<std::string>(), HasSubstr("held until there is room"));
    EXPECT_TRUE(control_.said("fork", "", "held until there is room: job"));
    host.free_kib = 1 << 20;
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "hold 5", "let_go 5"}));
    EXPECT_EQ(node(5, "xenpack/held"), "(nothing)");
    EXPECT_EQ(fork()["held"], false);
}

TEST_F(WatcherForkLeftTest, OneThatStarvedIsHeldAndFedBeforeItGoesOn) {
    add_fork(5, "complete");
    start();
    ASSERT_TRUE(has_done({"adopt 5"}));
    host.free_kib = 0;
    starve(5);
    ASSERT_TRUE(has_done({"adopt 5", "hold 5"}));
    EXPECT_EQ(fork()["starved"], true);
    EXPECT_TRUE(control_.said("fault", "job", "Xen had no memory left"));
    host.free_kib = 1 << 20;
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "hold 5", "feed 5", "let_go 5"}));
    EXPECT_EQ(fork()["starved"], false);
}

TEST_F(WatcherForkLeftTest, WhomAnEarlierDaemonHeldIsLetGoOnce) {
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/held", "guard"}});
    add_fork(6, "complete");
    write(6, {{"xenpack/held", "guard"}});
    add_fork(7, "complete", XENPACK_DOMAIN_IS_PAUSED);
    start();
    ASSERT_TRUE(has_done({"adopt 5", "adopt 6", "adopt 7", "let_go 5"}));
    EXPECT_TRUE(control_.said("fork", "job", "held for want of memory when xenpackd ended"));
    EXPECT_EQ(node(5, "xenpack/held"), "(nothing)");
    EXPECT_EQ(node(6, "xenpack/held"), "(nothing)") << "it ran: nobody held it";
    look();
    EXPECT_EQ(host.whole.size(), 4U) << "whom somebody else has paused is left alone";
}

TEST_F(WatcherForkLeftTest, WhomAnEarlierDaemonHeldIsHeldOnWhileThereIsNothing) {
    host.free_kib = 0;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    write(5, {{"xenpack/held", "guard"}, {"xenpack/fork/seed", "00"}});
    start();
    EXPECT_TRUE(soon([this] { return fork()["held"] == true; }));
    EXPECT_EQ(node(5, "xenpack/held"), "guard");
    EXPECT_THAT(host.calls, IsEmpty()) << "nor is it late with its identity";
    ASSERT_TRUE(has_done({"adopt 5"}));
}

TEST_F(WatcherForkLeftTest, OneThatSomebodyUnpausesIsHeldAgainWhereThereIsNothing) {
    add_fork(5, "complete");
    start();
    ASSERT_TRUE(has_done({"adopt 5"}));
    host.free_kib = 0;
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "hold 5"}));
    set_paused(5, false);
    look();
    EXPECT_TRUE(control_.said("fork", "job", "somebody has unpaused it"));
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "hold 5", "hold 5"}));
}

TEST_F(WatcherForkLeftTest, OneThatCannotBeServedIsHeldFirstAndServedOnceThereIsAPage) {
    host.free_kib = 0;
    host.adopted = -ENOMEM;
    add_fork(5, "complete");
    start();
    ASSERT_TRUE(has_done({"hold 5", "adopt 5"}));
    EXPECT_TRUE(control_.said("fault", "job", "it is not told of yet"));
    host.adopted = 0;
    ASSERT_TRUE(has_done({"hold 5", "adopt 5", "adopt 5"})) << "though nothing happens";
    host.free_kib = 1 << 20;
    say_low();
    ASSERT_TRUE(has_done({"hold 5", "adopt 5", "adopt 5", "let_go 5"}));
}

TEST_F(WatcherForkLeftTest, OneThatAnEarlierDaemonsEndPausedIsHeldUntilThereIsRoom) {
    host.free_kib = 0;
    host.adopted = 1;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    start();
    ASSERT_TRUE(has_done({"adopt 5"}));
    EXPECT_EQ(fork()["held"], true);
    EXPECT_EQ(node(5, "xenpack/held"), "guard");
    EXPECT_TRUE(control_.said("fork", "job", "it is paused since an earlier xenpackd ended"));
    host.free_kib = 1 << 20;
    say_low();
    ASSERT_TRUE(has_done({"adopt 5", "let_go 5"}));
    EXPECT_EQ(node(5, "xenpack/held"), "(nothing)");
}

TEST_F(WatcherForkLeftTest, OneThatAnEarlierDaemonsEndPausedGoesOnAtOnceWhereThereIsRoom) {
    host.adopted = 1;
    add_fork(5, "complete", XENPACK_DOMAIN_IS_PAUSED);
    start();
    ASSERT_TRUE(has_done({"adopt 5", "let_go 5"})) << "though nothing happens";
}

TEST_F(WatcherForkLeftTest, OneThatRunsBeforeItIsCompleteIsHeldToo) {
    host.free_kib = 0;
    host.answer = -EIO;  // it stays, as one does that is being made
    add_fork(5, "building");
    add_fork(6, "building", XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN);
    start();
    ASSERT_TRUE(has_done({"hold 5", "adopt 5"}));
    look();
    EXPECT_EQ(node(5, "xenpack/held"), "guard");
    host.free_kib = 1 << 20;
    say_low();
    ASSERT_TRUE(has_done({"hold 5", "adopt 5", "let_go 5"}));
}

}  // namespace
}  // namespace xenpack
