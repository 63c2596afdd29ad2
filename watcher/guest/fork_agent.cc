// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkAgent: connecting, watching, waiting; what is to be done is ForkSteps'. Called by Reporter.
#include "watcher/guest/fork_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "watcher/guest/say.h"

namespace xenpack::guest {
namespace {

// Without an event: a watch may be lost where it is set anew in another domain. A quiesced zone
// that looks is a fork, or is about to go on, and someone waits for it.
constexpr int kLookAgainMs = 30'000;
constexpr int kLookAgainQuiescedMs = 1000;
constexpr int kRetryMs = 1000;

}  // namespace

struct ForkAgent::Shared {
    explicit Shared(ForkSetup setup) : steps_(std::move(setup)) {}

    std::mutex mutex;
    std::condition_variable changed;
    bool closing = false;
    bool ended = false;
    Fd wake;  // an eventfd: closing

    void run();

  private:
    [[nodiscard]] bool is_closing();
    [[nodiscard]] Expected<void> connect();
    [[nodiscard]] Expected<void> look();
    void wait(int timeout_ms);
    void say_once(const std::string& what);

    // The thread's own.
    ForkSteps steps_;
    std::optional<StoreLink> link_;
    std::string said_;
};

void ForkAgent::Shared::run() {
    while (!is_closing()) {
        const auto looked = look();
        if (looked) {
            said_.clear();
            wait(steps_.is_quiesced() ? kLookAgainQuiescedMs : kLookAgainMs);
        } else {
            say_once(looked.error().what);
            link_.reset();
            wait(kRetryMs);
        }
    }
    const std::lock_guard lock(mutex);
    ended = true;
    changed.notify_all();
}

bool ForkAgent::Shared::is_closing() {
    const std::lock_guard lock(mutex);
    return closing;
}

Expected<void> ForkAgent::Shared::connect() {
    auto fd = StoreLink::open_device();
    if (!fd) {
        return tl::unexpected(fd.error());
    }
    link_.emplace(std::move(*fd));
    auto watched = link_->watch(kQuiescePath);
    if (watched) {
        watched = link_->watch(kGenerationPath);
    }
    return watched;
}

Expected<void> ForkAgent::Shared::look() {
    auto ready = link_ ? link_->take_events() : connect();
    if (ready) {
        ready = steps_.look(*link_);
    }
    return ready;
}

void ForkAgent::Shared::wait(int timeout_ms) {
    std::array<pollfd, 2> fds{{{wake.get(), POLLIN, 0}, {link_ ? link_->fd() : -1, POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), timeout_ms);
}

void ForkAgent::Shared::say_once(const std::string& what) {
    if (what != said_) {
        say("{}; trying again", what);
        said_ = what;
    }
}

Expected<std::unique_ptr<ForkAgent>> ForkAgent::start(ForkSetup setup) {
    auto shared = std::make_shared<Shared>(std::move(setup));
    shared->wake = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!shared->wake) {
        const int code = errno;
        return fail_with(code, "cannot make an eventfd: {}", std::strerror(code));
    }
    return std::unique_ptr<ForkAgent>(new ForkAgent(std::move(shared)));
}

ForkAgent::ForkAgent(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
    std::thread([kept = shared_] { kept->run(); }).detach();
}

ForkAgent::~ForkAgent() {
    close(0);
}

void ForkAgent::close(std::uint64_t patience_ms) {
    std::unique_lock lock(shared_->mutex);
    shared_->closing = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t r = ::write(shared_->wake.get(), &one, sizeof one);
    shared_->changed.wait_for(lock, std::chrono::milliseconds(patience_ms),
                              [this] { return shared_->ended; });
}

}  // namespace xenpack::guest
