// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/loop/loop.h and the plugin's view of it promise.
#include "watcher/loop/loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>

namespace xenpack {
namespace {

struct Pipe {
    Pipe() { EXPECT_EQ(pipe(fds.data()), 0); }
    ~Pipe() {
        close(fds[0]);
        close(fds[1]);
    }
    void put() const { EXPECT_EQ(write(fds[1], "x", 1), 1); }
    void take() const {
        char c = 0;
        EXPECT_EQ(read(fds[0], &c, 1), 1);
    }
    std::array<int, 2> fds{};
};

TEST(Loop, DeferredWorkRunsAfterTheCallbackInOrder) {
    Loop loop;
    std::string order;
    loop.defer([&] {
        loop.defer([&] {
            order += "3";
            loop.stop();
        });
        order += "1";
    });
    loop.defer([&] { order += "2"; });
    loop.run();
    EXPECT_EQ(order, "123");
}

TEST(Loop, AReadableDescriptorIsReportedUntilRead) {
    Loop loop;
    const Pipe pipe;
    int calls = 0;
    const auto watch = loop.watch_readable(pipe.fds[0], [&] {
        if (++calls == 3) {
            pipe.take();
            loop.defer([&] { loop.stop(); });
        }
    });
    pipe.put();
    loop.run();
    EXPECT_EQ(calls, 3);
}

TEST(Loop, ARegistrationMayEndInItsOwnCallback) {
    Loop loop;
    const Pipe pipe;
    const std::string captured(100, 'x');
    std::size_t seen = 0;
    Loop::Handle watch = loop.watch_readable(pipe.fds[0], [&, captured] {
        watch.reset();
        seen = captured.size();
        loop.stop();
    });
    pipe.put();
    loop.run();
    EXPECT_EQ(seen, 100U);
}

TEST(Loop, ATimerStartedAgainHasOneDeadline) {
    Loop loop;
    int fired = 0;
    const auto timer = loop.make_timer([&] { ++fired; });
    const auto end = loop.make_timer([&] { loop.stop(); });
    timer->start(1);
    timer->start(5);
    EXPECT_TRUE(timer->running());
    end->start(30);
    loop.run();
    EXPECT_EQ(fired, 1);
    EXPECT_FALSE(timer->running());
}

TEST(Loop, AStoppedTimerDoesNotFire) {
    Loop loop;
    int fired = 0;
    const auto timer = loop.make_timer([&] { ++fired; });
    const auto end = loop.make_timer([&] { loop.stop(); });
    timer->start(1);
    timer->stop();
    end->start(20);
    loop.run();
    EXPECT_EQ(fired, 0);
}

TEST(Loop, SignalsArriveInTheLoop) {
    Loop loop;
    int caught = 0;
    const auto watch = loop.watch_signal(SIGUSR1, [&] {
        ++caught;
        loop.stop();
    });
    raise(SIGUSR1);
    loop.run();
    EXPECT_EQ(caught, 1);
}

struct Seen {
    Loop* loop;
    int calls = 0;
    short revents = 0;
    void* handle = nullptr;
};

TEST(PluginOps, ASilentRegistrationIsLegalAndCanBeGivenEvents) {
    Loop loop;
    const Pipe pipe;
    Seen seen{&loop};
    const xenpack_loop_ops& ops = Loop::plugin_ops();
    const auto ready = [](void* arg, int, short revents) {
        auto* s = static_cast<Seen*>(arg);
        ++s->calls;
        s->revents = revents;
        Loop::plugin_ops().fd_deregister(s->loop, s->handle);
        s->loop->stop();
    };
    ASSERT_EQ(ops.fd_register(&loop, pipe.fds[0], 0, ready, &seen, &seen.handle), 0);
    pipe.put();
    const auto end = loop.make_timer([&] { loop.stop(); });
    end->start(20);
    loop.run();
    EXPECT_EQ(seen.calls, 0);
    ASSERT_EQ(ops.fd_modify(&loop, seen.handle, XENPACK_IN), 0);
    loop.run();
    EXPECT_EQ(seen.calls, 1);
    EXPECT_EQ(seen.revents, XENPACK_IN);
}

TEST(PluginOps, ATimeoutFiresOnceAndNeverInsideTheCall) {
    Loop loop;
    Seen seen{&loop};
    const auto fired = [](void* arg) {
        auto* s = static_cast<Seen*>(arg);
        ++s->calls;
        s->loop->stop();
    };
    ASSERT_EQ(Loop::plugin_ops().timeout_register(&loop, 0, fired, &seen, &seen.handle), 0);
    EXPECT_EQ(seen.calls, 0);
    loop.run();
    EXPECT_EQ(seen.calls, 1);
}

TEST(PluginOps, ADeregisteredTimeoutDoesNotFire) {
    Loop loop;
    Seen seen{&loop};
    const auto fired = [](void* arg) { ++static_cast<Seen*>(arg)->calls; };
    ASSERT_EQ(Loop::plugin_ops().timeout_register(&loop, 1000, fired, &seen, &seen.handle), 0);
    Loop::plugin_ops().timeout_deregister(&loop, seen.handle);
    const auto end = loop.make_timer([&] { loop.stop(); });
    end->start(20);
    loop.run();
    EXPECT_EQ(seen.calls, 0);
}

TEST(PluginOps, ChildrensEndsAreToldUntilDeregistered) {
    Loop loop;
    Seen seen{&loop};
    const auto sigchld = [](void* arg) {
        auto* s = static_cast<Seen*>(arg);
        ++s->calls;
        s->loop->stop();
    };
    ASSERT_EQ(Loop::plugin_ops().child_register(&loop, sigchld, &seen), 0);
    EXPECT_LT(Loop::plugin_ops().child_register(&loop, sigchld, &seen), 0);
    raise(SIGCHLD);
    loop.run();
    EXPECT_EQ(seen.calls, 1);
    Loop::plugin_ops().child_deregister(&loop);
    raise(SIGCHLD);
    EXPECT_EQ(seen.calls, 1);
}

}  // namespace
}  // namespace xenpack
