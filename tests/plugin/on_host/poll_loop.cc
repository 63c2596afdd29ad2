// SPDX-License-Identifier: LGPL-2.1-or-later
// poll(2) over the registered descriptors, then the timeouts that are due. A callback may register
// and deregister anything: what it deregisters is only marked, and swept after the round.
#include "tests/plugin/on_host/poll_loop.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

using Clock = std::chrono::steady_clock;

struct PollLoop::Table {
    static PollLoop* loop(void* l) noexcept { return static_cast<PollLoop*>(l); }

    static int fd_register(void* l, int fd, short events, void (*ready)(void*, int, short),
                           void* arg, void** handle_r) noexcept {
        Entry* e = loop(l)->add();
        e->fd = fd;
        e->events = events;
        e->ready = ready;
        e->arg = arg;
        *handle_r = e;
        return 0;
    }
    static int fd_modify(void*, void* handle, short events) noexcept {
        static_cast<Entry*>(handle)->events = events;
        return 0;
    }
    static void deregister(void*, void* handle) noexcept {
        static_cast<Entry*>(handle)->dead = true;
    }
    static int timeout_register(void* l, uint64_t delay_us, void (*fired)(void*), void* arg,
                                void** handle_r) noexcept {
        Entry* e = loop(l)->add();
        e->due = Clock::now() + std::chrono::microseconds(delay_us);
        e->fired = fired;
        e->arg = arg;
        *handle_r = e;
        return 0;
    }
    static int child_register(void* l, void (*sigchld)(void*), void* arg) noexcept {
        loop(l)->sigchld_ = sigchld;
        loop(l)->sigchld_arg_ = arg;
        return 0;
    }
    static void child_deregister(void* l) noexcept { loop(l)->sigchld_ = nullptr; }

    static constexpr xenpack_loop_ops kOps{fd_register,      fd_modify,  deregister,
                                           timeout_register, deregister, child_register,
                                           child_deregister};
};

PollLoop::PollLoop() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd_ < 0) {
        std::perror("signalfd");
        std::exit(1);
    }
}

PollLoop::~PollLoop() {
    close(signal_fd_);
}

const xenpack_loop_ops* PollLoop::ops() noexcept {
    return &Table::kOps;
}

PollLoop::Entry* PollLoop::add() {
    entries_.push_back(std::make_unique<Entry>());
    return entries_.back().get();
}

std::size_t PollLoop::registered() const noexcept {
    const auto live =
        std::count_if(entries_.begin(), entries_.end(), [](const auto& e) { return !e->dead; });
    return static_cast<std::size_t>(live) + (sigchld_ != nullptr ? 1 : 0);
}

int PollLoop::wait_ms(std::chrono::milliseconds longest) const {
    auto wait = longest;
    for (const auto& e : entries_) {
        if (!e->dead && e->fd < 0) {
            wait =
                std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(e->due - Clock::now()));
        }
    }
    return static_cast<int>(std::max<std::chrono::milliseconds::rep>(wait.count(), 0));
}

void PollLoop::round(std::chrono::milliseconds longest) {
    std::erase_if(entries_, [](const auto& e) { return e->dead; });
    std::vector<pollfd> polled{{signal_fd_, POLLIN, 0}};
    std::vector<Entry*> entries{nullptr};
    for (const auto& e : entries_) {
        if (e->fd >= 0) {
            polled.push_back({e->fd, e->events, 0});
            entries.push_back(e.get());
        }
    }
    poll(polled.data(), polled.size(), wait_ms(longest));
    signalfd_siginfo info;
    if (polled[0].revents != 0 && read(signal_fd_, &info, sizeof info) > 0 && sigchld_ != nullptr) {
        sigchld_(sigchld_arg_);
    }
    for (std::size_t i = 1; i < polled.size(); ++i) {
        if (polled[i].revents != 0 && entries[i]->events != 0 && !entries[i]->dead) {
            entries[i]->ready(entries[i]->arg, polled[i].fd, polled[i].revents);
        }
    }
    call_due();
}

// Only what was registered when the round began: a timeout of 0 fires in the next one.
void PollLoop::call_due() {
    const std::size_t known = entries_.size();
    const auto now = Clock::now();
    for (std::size_t i = 0; i < known; ++i) {
        Entry* e = entries_[i].get();
        if (!e->dead && e->fd < 0 && e->due <= now) {
            e->dead = true;
            e->fired(e->arg);
        }
    }
}
