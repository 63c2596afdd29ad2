// SPDX-License-Identifier: LGPL-2.1-or-later
// Templates and forks through Toolstack, over a table that keeps what it is asked and answers when
// it is told to: what a request says, who is called back, and how often.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/toolstack/toolstack.h"

namespace xenpack {
namespace {

constexpr Uuid kTemplate{1, 2, 3};
constexpr Uuid kFork{4, 5, 6};

// What the table below has been asked, and the answers still owed.
struct Asked {
    std::vector<std::string> calls;
    std::vector<std::function<void(int, const char*)>> owed;
    int refuse = 0;
    std::string missing;
    int missing_n = 0;
};
Asked asked;

std::string text_of(const std::uint8_t uuid[16]) {
    Uuid copy{};
    std::copy_n(uuid, copy.size(), copy.begin());
    return to_string(copy).substr(0, 8);
}

int refused() {
    return asked.refuse;
}

int table_open(const xenpack_watcher_ops*, xenpack_toolstack** ts_r, char*, std::size_t) {
    *ts_r = reinterpret_cast<xenpack_toolstack*>(&asked);
    return 0;
}

void table_close(xenpack_toolstack*) {
    for (const auto& answer : std::exchange(asked.owed, {})) {
        answer(-ECANCELED, "closed");
    }
}

const char* table_last_error(xenpack_toolstack*) {
    return "refused";
}

int table_fork_missing(xenpack_toolstack*, char* missing, std::size_t size) {
    std::snprintf(missing, size, "%s", asked.missing.c_str());
    return asked.missing_n;
}

int table_seal(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t uuid[16],
               const char* name, std::uint64_t timeout_ms, xenpack_done done, void* arg) {
    asked.calls.push_back(fmt::format("seal {} {} {} {}", domid, text_of(uuid), name, timeout_ms));
    if (asked.refuse == 0) {
        asked.owed.emplace_back([=](int r, const char* why) { done(arg, r, why); });
    }
    return refused();
}

int table_destroy(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t uuid[16],
                  xenpack_done done, void* arg) {
    asked.calls.push_back(fmt::format("destroy {} {}", domid, text_of(uuid)));
    if (asked.refuse == 0) {
        asked.owed.emplace_back([=](int r, const char* why) { done(arg, r, why); });
    }
    return refused();
}

int table_fork(xenpack_toolstack*, const xenpack_fork_request* request, xenpack_fork_done done,
               void* arg) {
    std::string call = fmt::format("fork {} {} {} {} paused={}", request->template_domid,
                                   text_of(request->template_uuid), request->name,
                                   text_of(request->uuid), request->paused);
    for (std::size_t i = 0; i < request->identity_n; ++i) {
        call += fmt::format(" {}={}", request->identity[i].path, request->identity[i].value);
    }
    asked.calls.push_back(call);
    if (asked.refuse == 0) {
        asked.owed.emplace_back([=](int r, const char* why) {
            const xenpack_fork_result made{9, 1, 2, 3, 4, 10};
            done(arg, r, why, r == 0 ? &made : nullptr);
        });
    }
    return refused();
}

// One of the calls that are told a fork, and answer at once.
template <const char* const& Name>
int table_tell(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t uuid[16]) {
    asked.calls.push_back(fmt::format("{} {} {}", Name, domid, text_of(uuid)));
    return refused();
}
constexpr const char* kAdopt = "adopt";
constexpr const char* kFeed = "feed";
constexpr const char* kHold = "hold";
constexpr const char* kLetGo = "let_go";

int table_rename(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t uuid[16],
                 const char* name) {
    asked.calls.push_back(fmt::format("rename {} {} {}", domid, text_of(uuid), name));
    return refused();
}

int table_unpause(xenpack_toolstack*, std::uint32_t domid, const std::uint8_t uuid[16]) {
    asked.calls.push_back(fmt::format("unpause {} {}", domid, text_of(uuid)));
    return refused();
}

class NoStore final : public Store {
  public:
    Expected<std::optional<std::string>> read(const std::string&) override { return std::nullopt; }
    Expected<void> write_guarded(const std::string&, const std::string&,
                                 const std::vector<std::pair<std::string, std::string>>&) override {
        return {};
    }
    Expected<void> make(const std::vector<Node>&) override { return {}; }
    Expected<void> remove(const std::string&) override { return {}; }
    Expected<std::vector<std::string>> list(const std::string&) override { return {}; }
    Expected<void> introduce(std::uint32_t, std::uint64_t, std::uint32_t) override { return {}; }
    Expected<WatchHandle> watch(const std::string&, Changed) override { return nullptr; }
    ForPlugin for_plugin() override { return {nullptr, nullptr}; }
};

class ToolstackForks : public testing::Test {
  protected:
    ToolstackForks() {
        asked = {};
        table_.open = table_open;
        table_.close = table_close;
        table_.last_error = table_last_error;
        table_.fork_missing = table_fork_missing;
        table_.seal = table_seal;
        table_.fork = table_fork;
        table_.destroy = table_destroy;
        table_.adopt = table_tell<kAdopt>;
        table_.feed = table_tell<kFeed>;
        table_.hold = table_tell<kHold>;
        table_.let_go = table_tell<kLetGo>;
        table_.rename = table_rename;
        table_.unpause = table_unpause;
        table_.name = "table";
        table_.built_for = "tests";
        open();
    }
    void open() { toolstack_ = *Toolstack::open(PluginObject(table_), loop_, store_, {}); }
    static void answer(int result, const char* why) {
        const auto first = asked.owed.front();
        asked.owed.erase(asked.owed.begin());
        first(result, why);
    }
    Toolstack::Done keep() {
        return [this](const Expected<void>& result) { results_.push_back(said(result)); };
    }
    template <class T>
    static std::string said(const Expected<T>& result) {
        return result ? "ok" : fmt::format("{} {}", result.error().code, result.error().what);
    }

    xenpack_toolstack_ops table_{};
    Loop loop_;
    NoStore store_;
    std::unique_ptr<Toolstack> toolstack_;
    std::vector<std::string> results_;
};

using Strings = std::vector<std::string>;

TEST_F(ToolstackForks, SealSaysAllThatIsAskedAndAnswersLater) {
    ASSERT_TRUE(toolstack_->seal(7, kTemplate, "base", 60000, keep()));
    EXPECT_EQ(asked.calls, Strings{"seal 7 01020300 base 60000"});
    EXPECT_EQ(results_, Strings{});
    answer(-ETIMEDOUT, "it did not suspend");
    EXPECT_EQ(results_, Strings{fmt::format("{} it did not suspend", ETIMEDOUT)});
}

TEST_F(ToolstackForks, WhatIsRefusedAtOnceIsNeverAnswered) {
    asked.refuse = -ESRCH;
    const auto sealed = toolstack_->seal(7, kTemplate, "base", 1, keep());
    ASSERT_FALSE(sealed);
    EXPECT_EQ(sealed.error().code, ESRCH);
    EXPECT_EQ(sealed.error().what, "refused");
    EXPECT_FALSE(toolstack_->destroy(7, kTemplate, keep()));
    EXPECT_FALSE(toolstack_->fork({}, [this](const Expected<xenpack_fork_result>& result) {
        results_.push_back(said(result));
    }));
    toolstack_.reset();
    EXPECT_EQ(results_, Strings{});
}

TEST_F(ToolstackForks, AForkSaysWhoItIsAndTellsItsTimes) {
    std::optional<xenpack_fork_result> made;
    ForkRequest request;
    request.template_domid = 7;
    request.template_uuid = kTemplate;
    request.name = "job-1";
    request.uuid = kFork;
    request.identity = {{"generation", "g"}, {"name", "job-1"}};
    request.paused = true;
    ASSERT_TRUE(toolstack_->fork(
        request, [&](const Expected<xenpack_fork_result>& result) { made = *result; }));
    EXPECT_EQ(asked.calls,
              Strings{"fork 7 01020300 job-1 04050600 paused=1 generation=g name=job-1"});
    EXPECT_FALSE(made);
    answer(0, "");
    ASSERT_TRUE(made);
    EXPECT_EQ(made->domid, 9U);
    EXPECT_EQ(made->whole_us, 10U);
}

TEST_F(ToolstackForks, AnAnswerMayAskForTheNext) {
    ASSERT_TRUE(toolstack_->destroy(3, kFork, [this](const Expected<void>& result) {
        results_.push_back(said(result));
        ASSERT_TRUE(toolstack_->destroy(4, kFork, keep()));
    }));
    answer(0, "");
    answer(-EIO, "no");
    EXPECT_EQ(results_, (Strings{"ok", fmt::format("{} no", EIO)}));
}

TEST_F(ToolstackForks, WhatIsUnderWayIsCancelledAtTheEnd) {
    ASSERT_TRUE(toolstack_->destroy(3, kFork, keep()));
    toolstack_.reset();
    EXPECT_EQ(results_, Strings{fmt::format("{} closed", ECANCELED)});
}

TEST_F(ToolstackForks, HandingOutIsAnsweredAtOnce) {
    EXPECT_TRUE(toolstack_->rename(3, kFork, "web"));
    EXPECT_TRUE(toolstack_->unpause(3, kFork));
    EXPECT_EQ(asked.calls, (Strings{"rename 3 04050600 web", "unpause 3 04050600"}));
    asked.refuse = -EEXIST;
    EXPECT_EQ(toolstack_->rename(3, kFork, "web").error().code, EEXIST);
    EXPECT_EQ(said(toolstack_->unpause(3, kFork)), fmt::format("{} refused", EEXIST));
}

TEST_F(ToolstackForks, WhatIsMissingIsASentenceEach) {
    EXPECT_EQ(*toolstack_->fork_missing(), Strings{});
    asked.missing = "no sharing\nno paging\n";
    asked.missing_n = 2;
    EXPECT_EQ(*toolstack_->fork_missing(), (Strings{"no sharing", "no paging"}));
    asked.missing = "no sharing";
    EXPECT_EQ(*toolstack_->fork_missing(), Strings{"no sharing"});
    asked.missing_n = -EIO;
    EXPECT_EQ(toolstack_->fork_missing().error().code, EIO);
}

TEST_F(ToolstackForks, WhatKeepsAForkWholeIsAnsweredAtOnce) {
    EXPECT_TRUE(toolstack_->adopt(9, kFork));
    EXPECT_TRUE(toolstack_->hold(9, kFork));
    EXPECT_TRUE(toolstack_->feed(9, kFork));
    EXPECT_TRUE(toolstack_->let_go(9, kFork));
    EXPECT_EQ(asked.calls, (Strings{"adopt 9 04050600", "hold 9 04050600", "feed 9 04050600",
                                    "let_go 9 04050600"}));
    EXPECT_FALSE(*toolstack_->adopt(9, kFork));
    asked.refuse = 1;
    EXPECT_TRUE(*toolstack_->adopt(9, kFork)) << "it is paused";
    asked.refuse = -ESRCH;
    EXPECT_EQ(said(toolstack_->adopt(9, kFork)), fmt::format("{} refused", ESRCH));
    for (const auto& told :
         {toolstack_->hold(9, kFork), toolstack_->feed(9, kFork), toolstack_->let_go(9, kFork)}) {
        EXPECT_EQ(said(told), fmt::format("{} refused", ESRCH));
    }
}

TEST_F(ToolstackForks, APluginWithoutThemIsSaidToHaveNone) {
    table_.fork_missing = nullptr;
    const std::string said_so =
        fmt::format("{} table (tests) makes no templates and no forks", ENOSYS);
    EXPECT_EQ(said(toolstack_->fork_missing()), said_so);
    EXPECT_EQ(said(toolstack_->seal(7, kTemplate, "base", 1, keep())), said_so);
    EXPECT_EQ(said(toolstack_->fork({}, nullptr)), said_so);
    EXPECT_EQ(said(toolstack_->destroy(7, kTemplate, keep())), said_so);
    EXPECT_EQ(said(toolstack_->rename(7, kTemplate, "web")), said_so);
    EXPECT_EQ(said(toolstack_->unpause(7, kTemplate)), said_so);
    EXPECT_EQ(asked.calls, Strings{});
}

}  // namespace
}  // namespace xenpack
