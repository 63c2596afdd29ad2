// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/store.h promises, and watcher/store/own_store.h over it: the watcher's Store on a
// plugin's. The loop is the real one.
#include "plugin/sim/store.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "watcher/loop/loop.h"
#include "watcher/store/own_store.h"

namespace xenpack::sim {
namespace {

class SimStore : public testing::Test {
  protected:
    // Runs what is due now, and what that makes due.
    void settle() {
        for (int i = 0; i < 8; ++i) {
            loop_.defer([] {});  // so that a round ends where nothing is due
            loop_.run_once();
        }
    }
    void put(const std::string& path, const std::string& value) {
        ASSERT_EQ(store_.write({{path, value}}), 0);
    }
    Store::Watch* watch(const char* path, int& calls) {
        int error = 0;
        Store::Watch* watch = store_.watch(
            path, [](void* count) { ++*static_cast<int*>(count); }, &calls, &error);
        EXPECT_NE(watch, nullptr) << error;
        return watch;
    }
    // A watch that has had its first call.
    Store::Watch* settled_watch(const char* path, int& calls) {
        Store::Watch* made = watch(path, calls);
        settle();
        EXPECT_EQ(calls, 1);
        calls = 0;
        return made;
    }

    Loop loop_;
    Store store_{Loop::plugin_ops(), &loop_};
};

TEST_F(SimStore, ReadsWhatWasWritten) {
    put("/local/domain/1/name", "web");
    ASSERT_NE(store_.read("/local/domain/1/name"), nullptr);
    EXPECT_EQ(*store_.read("/local/domain/1/name"), "web");
    put("/local/domain/1/name", "db");
    EXPECT_EQ(*store_.read("/local/domain/1/name"), "db");
    EXPECT_EQ(store_.read("/local/domain/1/nam"), nullptr);
}

TEST_F(SimStore, MakesParentsAndKeepsTheirValues) {
    put("/a", "kept");
    put("/a/b/c", "x");
    ASSERT_NE(store_.read("/a/b"), nullptr);
    EXPECT_EQ(*store_.read("/a/b"), "");
    EXPECT_EQ(*store_.read("/a"), "kept");
}

TEST_F(SimStore, RemovesANodeWithAllBelowItAndNothingBeside) {
    for (const char* path : {"/d/1/x/y", "/d/1-a", "/d/10/x", "/d/1", "/d/0"}) {
        put(path, "v");
    }
    store_.remove("/d/1");
    EXPECT_EQ(store_.read("/d/1"), nullptr);
    EXPECT_EQ(store_.read("/d/1/x"), nullptr);
    EXPECT_EQ(store_.read("/d/1/x/y"), nullptr);
    EXPECT_NE(store_.read("/d/1-a"), nullptr);
    EXPECT_NE(store_.read("/d/10/x"), nullptr);
    EXPECT_NE(store_.read("/d/0"), nullptr);
    store_.remove("/");
    EXPECT_NE(store_.read("/d/0"), nullptr);
}

TEST_F(SimStore, RefusesPathsAndValuesThatXenstoredWould) {
    for (const char* path : {"", "a", "/a/", "//a", "/a//b", "/a b", "/a.b", "/\xc3\xa4"}) {
        EXPECT_EQ(store_.write({{path, "v"}}), -EINVAL) << path;
    }
    EXPECT_EQ(store_.write({{"/" + std::string(kMostPathBytes, 'a'), "v"}}), -EINVAL);
    EXPECT_EQ(store_.write({{"/a", std::string(kMostValueBytes + 1, 'v')}}), -E2BIG);
    EXPECT_EQ(store_.write({{"/a", std::string(kMostValueBytes, 'v')}}), 0);
    int error = 0;
    EXPECT_EQ(store_.watch("@somethingElse", nullptr, nullptr, &error), nullptr);
    EXPECT_EQ(error, -EINVAL);
}

TEST_F(SimStore, WritesAllOrNothing) {
    EXPECT_EQ(store_.write({{"/a", "1"}, {"/b c", "2"}}), -EINVAL);
    EXPECT_EQ(store_.read("/a"), nullptr);
    EXPECT_EQ(store_.nodes(), 0U);
}

TEST_F(SimStore, AGuardMustHoldExactlyItsValue) {
    put("/d/1/vm", "/vm/x");
    EXPECT_EQ(store_.write_guarded("/d/1/vm", "/vm/y", {{"/d/1/t", "1"}}), -ESRCH);
    EXPECT_EQ(store_.write_guarded("/d/2/vm", "", {{"/d/1/t", "1"}}), -ESRCH);
    EXPECT_EQ(store_.read("/d/1/t"), nullptr);
    EXPECT_EQ(store_.write_guarded("/d/1/vm", "/vm/x", {{"/d/1/t", "1"}}), 0);
    EXPECT_EQ(*store_.read("/d/1/t"), "1");
}

TEST_F(SimStore, AWatchIsToldOnceWhenItIsSetAndNeverInsideTheCall) {
    int calls = 0;
    watch("/nothing/there/yet", calls);
    EXPECT_EQ(calls, 0);
    settle();
    EXPECT_EQ(calls, 1);
}

TEST_F(SimStore, AWriteTellsTheWatchesAtAndAboveItOnly) {
    int above = 0;
    int at = 0;
    int below = 0;
    int beside = 0;
    settled_watch("/d/1", above);
    settled_watch("/d/1/t", at);
    settled_watch("/d/1/t/x", below);
    settled_watch("/d/1/tt", beside);
    put("/d/1/t", "1");
    EXPECT_EQ(at, 0);
    settle();
    EXPECT_EQ(above, 1);
    EXPECT_EQ(at, 1);
    EXPECT_EQ(below, 0);
    EXPECT_EQ(beside, 0);
}

TEST_F(SimStore, ListsWhatIsJustBelowANode) {
    for (const char* path :
         {"/b/vif/7/1", "/b/vif/7/10/bridge", "/b/vif/7/0/bridge", "/b/vif/70/0", "/b/vif/7-0"}) {
        put(path, "x");
    }
    using Names = std::vector<std::string>;
    EXPECT_EQ(store_.list("/b/vif/7"), (Names{"0", "1", "10"}));
    EXPECT_EQ(store_.list("/b/vif"), (Names{"7", "7-0", "70"}));
    EXPECT_EQ(store_.list("/"), (Names{"b"}));
    EXPECT_EQ(store_.list("/b/vif/7/1"), Names{});
    EXPECT_EQ(store_.list("/none"), Names{});
    const auto own = make_own_store(own_store_ops(), &store_, [](void*) {});
    EXPECT_EQ(own->list("/b/vif/7").value(), (Names{"0", "1", "10"}));
    EXPECT_EQ(own->list("/b/vif/7/1").value(), Names{});
    EXPECT_EQ(own->list("/none").value(), Names{}) << "and that is no failure";
}

TEST_F(SimStore, ARemovalTellsWatchesAboveItAndOnWhatGoes) {
    put("/d/1/t/x", "1");
    int above = 0;
    int gone = 0;
    int never_there = 0;
    settled_watch("/d", above);
    settled_watch("/d/1/t/x", gone);
    settled_watch("/d/1/u", never_there);
    store_.remove("/d/1");
    settle();
    EXPECT_EQ(above, 1);
    EXPECT_EQ(gone, 1);
    EXPECT_EQ(never_there, 0);
}

TEST_F(SimStore, AWatchOnTheRootIsToldOfEverything) {
    int calls = 0;
    settled_watch("/", calls);
    put("/a/b", "1");
    settle();
    EXPECT_EQ(calls, 1);
}

TEST_F(SimStore, SpecialPathsAreToldWhenAnnounced) {
    int introduced = 0;
    int released = 0;
    settled_watch("@introduceDomain", introduced);
    settled_watch("@releaseDomain", released);
    store_.announce("@introduceDomain");
    settle();
    EXPECT_EQ(introduced, 1);
    EXPECT_EQ(released, 0);
}

TEST_F(SimStore, EachWriteIsToldAndAFloodIsBounded) {
    int calls = 0;
    settled_watch("/a", calls);
    for (int i = 0; i < 3; ++i) {
        put("/a", "x");
    }
    settle();
    EXPECT_EQ(calls, 3);
    calls = 0;
    for (int i = 0; i < 10'000; ++i) {
        put("/a", "x");
    }
    settle();
    EXPECT_EQ(calls, static_cast<int>(kMostDue));
    calls = 0;
    put("/a", "y");
    settle();
    EXPECT_EQ(calls, 1);
}

TEST_F(SimStore, AnEndedWatchIsNotToldOfWhatWasDue) {
    int calls = 0;
    Store::Watch* ended = settled_watch("/a", calls);
    put("/a", "x");
    store_.unwatch(ended);
    settle();
    EXPECT_EQ(calls, 0);
}

// Ends itself and its neighbour in its first call.
struct Ending {
    Store* store = nullptr;
    Store::Watch* self = nullptr;
    Store::Watch* other = nullptr;
    int calls = 0;
};

TEST_F(SimStore, AWatchMayEndItselfAndOthersInItsCallback) {
    Ending ending{&store_};
    int other_calls = 0;
    int error = 0;
    ending.self = store_.watch(
        "/a",
        [](void* arg) {
            auto& e = *static_cast<Ending*>(arg);
            ++e.calls;
            e.store->unwatch(e.other);
            e.store->unwatch(e.self);
        },
        &ending, &error);
    ending.other = watch("/a", other_calls);
    put("/a", "x");
    settle();
    EXPECT_EQ(ending.calls, 1);
    EXPECT_EQ(other_calls, 0);
    put("/a", "y");
    settle();
    EXPECT_EQ(ending.calls, 1);
}

TEST_F(SimStore, ACallbackThatWritesWhatItWatchesIsCalledInALaterRound) {
    struct Writer {
        Store* store;
        int calls = 0;
    } writer{&store_};
    int error = 0;
    store_.watch(
        "/a",
        [](void* arg) {
            auto& w = *static_cast<Writer*>(arg);
            const int before = w.calls++;
            if (before < 3) {
                EXPECT_EQ(w.store->write({{"/a", "again"}}), 0);
                EXPECT_EQ(w.calls, before + 1) << "called inside its own call";
            }
        },
        &writer, &error);
    settle();
    EXPECT_EQ(writer.calls, 4);
}

TEST_F(SimStore, ADeepTreeIsRemovedWithoutRecursion) {
    std::string path;
    for (int i = 0; i < 1500; ++i) {
        path += "/a";
    }
    put(path, "deep");
    EXPECT_EQ(store_.nodes(), 1501U);
    store_.remove("/a");
    EXPECT_EQ(store_.nodes(), 1U);
}

TEST_F(SimStore, ItsTableSaysWhatTheInterfaceSays) {
    const xenpack_own_store& ops = own_store_ops();
    const xenpack_store_write write{"/a", "value"};
    EXPECT_EQ(ops.ops.write_guarded(&store_, "/g", "1", &write, 1), -ESRCH);
    put("/g", "1");
    EXPECT_EQ(ops.ops.write_guarded(&store_, "/g", "1", &write, 1), 0);
    std::array<char, 16> text{};
    EXPECT_EQ(ops.ops.read(&store_, "/a", text.data(), text.size()), 5);
    EXPECT_STREQ(text.data(), "value");
    EXPECT_EQ(ops.ops.read(&store_, "/a", text.data(), 5), -ENOBUFS);
    EXPECT_EQ(ops.ops.read(&store_, "/b", text.data(), text.size()), -ENOENT);
    void* handle = nullptr;
    EXPECT_EQ(ops.watch(&store_, "no path", nullptr, nullptr, &handle), -EINVAL);
}

class OwnStore : public SimStore {
  protected:
    bool closed_ = false;
    std::unique_ptr<xenpack::Store> own_ =
        make_own_store(own_store_ops(), &store_, [this](void*) { closed_ = true; });
};

TEST_F(OwnStore, ReadsAndWritesThroughThePluginsTable) {
    const auto nothing = own_->read("/a");
    ASSERT_TRUE(nothing);
    EXPECT_FALSE(*nothing);
    const std::string large(kMostValueBytes, 'v');
    put("/a", large);
    EXPECT_EQ(own_->read("/a").value().value(), large);
    const auto refused = own_->write_guarded("/a", "other", {{"/b", "1"}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ESRCH);
    EXPECT_TRUE(own_->write_guarded("/a", large, {{"/b", "1"}}));
    EXPECT_EQ(*store_.read("/b"), "1");
}

TEST_F(OwnStore, MakesNodesAllOrNoneAndRemovesThemWithWhatIsBelow) {
    ASSERT_TRUE(own_->make(
        {{"/a/b", "1", XENPACK_STORE_HOST_ONLY, 0}, {"/a/b/c", "2", XENPACK_STORE_GUEST_OWNS, 7}}));
    EXPECT_EQ(*store_.read("/a/b"), "1");
    EXPECT_EQ(*store_.read("/a/b/c"), "2");
    const auto refused = own_->make({{"/d", "1"}, {"no path", "2"}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EINVAL);
    EXPECT_EQ(store_.read("/d"), nullptr);
    ASSERT_TRUE(own_->remove("/a/b"));
    EXPECT_EQ(store_.read("/a/b/c"), nullptr);
    EXPECT_NE(store_.read("/a"), nullptr);
    EXPECT_TRUE(own_->remove("/a/b"));  // not there any more
}

TEST_F(OwnStore, AnIntroductionIsTold) {
    int calls = 0;
    settled_watch("@introduceDomain", calls);
    ASSERT_TRUE(own_->introduce(7, 0xfefff, 1));
    settle();
    EXPECT_EQ(calls, 1);
}

TEST_F(OwnStore, GivesThePluginItsOwnHandleBack) {
    const auto given = own_->for_plugin();
    EXPECT_EQ(given.ops, &own_store_ops().ops);
    EXPECT_EQ(given.store, &store_);
}

TEST_F(OwnStore, AWatchMayBeDestroyedInItsCallback) {
    int calls = 0;
    xenpack::Store::WatchHandle handle;
    std::string kept = "alive";
    handle = own_->watch("/a",
                         [&, text = std::string(100, 'x')] {
                             ++calls;
                             handle.reset();
                             EXPECT_EQ(text.size(), 100U);  // what it captured is still there
                         })
                 .value();
    settle();
    put("/a", "1");
    settle();
    EXPECT_EQ(calls, 1);
}

TEST_F(OwnStore, SaysWhatCannotBeWatched) {
    const auto watch = own_->watch("@nothing", [] {});
    ASSERT_FALSE(watch);
    EXPECT_NE(watch.error().what.find("@nothing"), std::string::npos);
}

TEST_F(OwnStore, ClosesThePluginsStoreOnce) {
    own_.reset();
    EXPECT_TRUE(closed_);
}

}  // namespace
}  // namespace xenpack::sim
