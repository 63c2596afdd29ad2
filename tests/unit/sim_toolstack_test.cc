// SPDX-License-Identifier: LGPL-2.1-or-later
// The table "sim" as the watcher uses it: through PluginObject, Store and Toolstack, on the real
// loop and in real time, for a second or two.
#include "plugin/sim/toolstack.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "plugin/sim/world.h"
#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/toolstack/toolstack.h"

namespace xenpack {
namespace {

class SimToolstack : public testing::Test {
  protected:
    void TearDown() override { unsetenv(sim::kScenarioVariable); }

    void use(const std::string& text) {
        const std::string path = testing::TempDir() + "/table.sim";
        std::ofstream(path) << text;
        setenv(sim::kScenarioVariable, path.c_str(), 1);
    }
    Expected<void> open() {
        auto store = plugin_.open_store(loop_, [] {});
        if (!store) {
            return tl::unexpected(store.error());
        }
        store_ = std::move(*store);
        auto toolstack =
            Toolstack::open(plugin_, loop_, *store_,
                            {[this](const xenpack_event& event) {
                                 events_.push_back(event);
                                 if (on_event_) {
                                     on_event_(event);
                                 }
                             },
                             [this](xenpack_log_level, const char* text) { said_ += text; }});
        if (!toolstack) {
            return tl::unexpected(toolstack.error());
        }
        toolstack_ = std::move(*toolstack);
        return {};
    }
    // Runs the loop until `event` has come for that domain.
    void await(xenpack_event_type type, std::uint32_t domid) {
        on_event_ = [&, this](const xenpack_event& event) {
            if (event.type == type && event.domid == domid) {
                loop_.stop();
            }
        };
        const auto limit = loop_.make_timer([&, this] {
            ADD_FAILURE() << "no event " << type << " of domain " << domid << " in 5 s";
            loop_.stop();
        });
        limit->start(5'000);
        loop_.run();
        on_event_ = nullptr;
    }

    Loop loop_;
    PluginObject plugin_{sim::toolstack_ops()};
    std::string said_;
    std::vector<xenpack_event> events_;
    std::function<void(const xenpack_event&)> on_event_;
    std::unique_ptr<Store> store_;
    std::unique_ptr<Toolstack> toolstack_;
};

TEST_F(SimToolstack, WithoutAScenarioTheBuiltInOneIsSimulated) {
    ASSERT_TRUE(open());
    EXPECT_EQ(toolstack_->description(), "sim (a simulated host)");
    EXPECT_NE(said_.find("4096 MiB with 3 zones: the built-in scenario"), std::string::npos);
    const auto host = toolstack_->host();
    ASSERT_TRUE(host);
    EXPECT_EQ(host->total_kib, 4096U * 1024);
    const auto domains = toolstack_->refresh();
    ASSERT_TRUE(domains);
    EXPECT_EQ((*domains)->size(), 4U);
}

TEST_F(SimToolstack, TheFirstRefreshReportsWhatIsThere) {
    ASSERT_TRUE(open());
    EXPECT_TRUE(events_.empty());
    ASSERT_TRUE(toolstack_->refresh());
    ASSERT_EQ(events_.size(), 4U);
    for (std::uint32_t i = 0; i < events_.size(); ++i) {
        EXPECT_EQ(events_[i].type, XENPACK_DOMAIN_CREATED);
        EXPECT_EQ(events_[i].domid, i);
    }
    ASSERT_TRUE(toolstack_->refresh());
    EXPECT_EQ(events_.size(), 4U) << "once";
}

TEST_F(SimToolstack, TimePassesWhileTheLoopRunsAlsoBeforeAnythingLives) {
    use("[zone web]\nmemory = 64M\nstart = 300ms\nend = 700ms\ngenerate = idle\n");
    ASSERT_TRUE(open());
    ASSERT_TRUE(toolstack_->refresh());
    await(XENPACK_DOMAIN_CREATED, 1);
    EXPECT_EQ(store_->read("/local/domain/1/name").value(), "web");
    await(XENPACK_DOMAIN_SHUT_DOWN, 1);
    await(XENPACK_DOMAIN_DIED, 1);
    EXPECT_EQ(store_->read("/local/domain/1/name").value(), std::nullopt);
    EXPECT_EQ((*toolstack_->refresh())->size(), 1U);
}

TEST_F(SimToolstack, ATargetIsSeenInTheStoreAndFollowed) {
    use("[zone web]\nmemory = 64M\nmaxmem = 256M\nboot = 100ms\ngenerate = idle\n");
    ASSERT_TRUE(open());
    const auto uuid = sim::uuid_of("web");
    int seen = 0;
    const auto watch = store_->watch("/local/domain/1/memory/target", [&] { ++seen; });
    ASSERT_TRUE(watch);
    loop_.run_once();
    seen = 0;
    await(XENPACK_DOMAIN_UNPAUSED, 1);
    ASSERT_TRUE(
        toolstack_->set_target(1, uuid, 128 * 1024, 256 * 1024, false, XENPACK_TARGET_SHORT));
    EXPECT_EQ(seen, 0) << "never inside the call";
    std::uint64_t held_kib = 0;
    int looks = 0;
    std::unique_ptr<Loop::Timer> look;
    look = loop_.make_timer([&, this] {
        held_kib = (*toolstack_->refresh())->at(1).current_kib;
        if (held_kib == 128 * 1024 || ++looks == 100) {
            loop_.stop();
        } else {
            look->start(50);
        }
    });
    look->start(50);
    loop_.run();
    EXPECT_EQ(held_kib, 128U * 1024);
    EXPECT_EQ(seen, 1);
    const auto refused =
        toolstack_->set_target(1, uuid, 300 * 1024, 256 * 1024, false, XENPACK_TARGET_LIBXL);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ERANGE);
    EXPECT_NE(refused.error().what.find("static-max"), std::string::npos);
}

TEST_F(SimToolstack, ABadScenarioIsSaidInOneLine) {
    use("[host]\nmemory = lots\n");
    const auto opened = open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, EINVAL);
    EXPECT_NE(opened.error().what.find("table.sim:2: memory = 'lots'"), std::string::npos);
}

TEST_F(SimToolstack, AnotherStoreIsRefused) {
    const xenpack_watcher_ops watcher{XENPACK_TOOLSTACK_VERSION,
                                      &Loop::plugin_ops(),
                                      &loop_,
                                      nullptr,
                                      nullptr,
                                      [](void*, const xenpack_event*) {},
                                      [](void*, xenpack_log_level, const char*) {},
                                      nullptr};
    xenpack_toolstack* ts = nullptr;
    std::array<char, 128> error{};
    EXPECT_EQ(plugin_.ops().open(&watcher, &ts, error.data(), error.size()), -EPROTO);
    EXPECT_EQ(ts, nullptr);
    EXPECT_NE(std::string(error.data()).find("store"), std::string::npos);
}

TEST_F(SimToolstack, RefreshSaysHowMuchRoomItNeeds) {
    use("[zone w]\nmemory = 32M\ncount = 40\napart = 0s\ngenerate = idle\n");
    ASSERT_TRUE(open());
    EXPECT_EQ((*toolstack_->refresh())->size(), 41U) << "more than is offered at first";
}

}  // namespace
}  // namespace xenpack
