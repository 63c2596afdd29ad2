// SPDX-License-Identifier: LGPL-2.1-or-later
// Recording: one poll over a timer for the samples, a timer for the end, and signals. Single
// thread; it writes no file.
#include "watcher/record/recording.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace xenpack::record {
namespace {

tl::unexpected<Error> failed(std::string_view what) {
    const int code = errno;
    return fail_with(code, "cannot {}: {}", what, std::strerror(code));
}

// First after `ms`, then each `again_ms`; 0: once.
Expected<int> timer(std::int64_t ms, std::int64_t again_ms) {
    const int fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    const auto span = [](std::int64_t each) {
        return timespec{each / 1000, (each % 1000) * 1'000'000};
    };
    const itimerspec when{span(again_ms), span(ms)};
    if (fd < 0 || ::timerfd_settime(fd, 0, &when, nullptr) != 0) {
        return failed("set a timer");
    }
    return fd;
}

bool take_timer(int fd) {
    std::uint64_t times = 0;
    return ::read(fd, &times, sizeof times) == sizeof times;
}

void close_if(int fd) {
    if (fd >= 0) {
        ::close(fd);
    }
}

}  // namespace

Expected<Recording> Recording::prepare(std::int64_t interval_ms,
                                       std::optional<std::int64_t> length_ms) {
    Recording recording;
    recording.interval_ms_ = interval_ms;
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
        ::sigaddset(&set, number);
    }
    if (::sigprocmask(SIG_BLOCK, &set, nullptr) != 0) {
        return failed("block signals");
    }
    recording.signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (recording.signals_ < 0) {
        return failed("listen for signals");
    }
    auto ticks = timer(interval_ms, interval_ms);
    if (!ticks) {
        return tl::unexpected<Error>(ticks.error());
    }
    recording.ticks_ = *ticks;
    if (length_ms) {
        auto deadline = timer(*length_ms, 0);
        if (!deadline) {
            return tl::unexpected<Error>(deadline.error());
        }
        recording.deadline_ = *deadline;
    }
    return recording;
}

Recording::Recording(Recording&& other) noexcept
    : interval_ms_(other.interval_ms_),
      signals_(std::exchange(other.signals_, -1)),
      ticks_(std::exchange(other.ticks_, -1)),
      deadline_(std::exchange(other.deadline_, -1)),
      children_(other.children_),
      from_person_(other.from_person_) {}

Recording::~Recording() {
    close_if(signals_);
    close_if(ticks_);
    close_if(deadline_);
}

Expected<void> Recording::wait(Fired& fired) {
    std::array<pollfd, 3> fds = {pollfd{signals_, POLLIN, 0}, pollfd{ticks_, POLLIN, 0},
                                 pollfd{deadline_, POLLIN, 0}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
        return failed("wait for the next sample");
    }
    take_signals(fired);
    fired.tick = take_timer(ticks_);
    fired.deadline = deadline_ >= 0 && take_timer(deadline_);
    return {};
}

void Recording::take_signals(Fired& fired) {
    signalfd_siginfo info{};
    while (::read(signals_, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            children_ = true;
        } else {
            fired.interrupt = true;
            from_person_ = info.ssi_code == SI_KERNEL;
        }
    }
}

// Children of this process that have ended, the command or its orphans.
void Recording::reap(Sampler* sampler, int command, Recorded& recorded) {
    children_ = false;
    siginfo_t info{};
    while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        if (sampler != nullptr) {
            sampler->child_ended(info.si_pid);
        }
        int status = 0;
        if (::waitpid(info.si_pid, &status, 0) == command) {
            recorded.wait_status = status;
        }
        info.si_pid = 0;
    }
}

// The last sample comes when it comes: it may be too soon after another to tell a rate.
void Recording::keep(const Sample& sample, Recorded& recorded) const {
    std::vector<Sample>& samples = recorded.samples;
    if (samples.size() > 1 && sample.at_ms - samples.back().at_ms < interval_ms_ / 2 &&
        !samples.back().look) {
        samples.pop_back();
    }
    samples.push_back(sample);
}

Expected<Recorded> Recording::run(Sampler& sampler, std::optional<int> command) {
    using Clock = std::chrono::steady_clock;
    if (command && ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return failed("become the reaper of the command's orphans");
    }
    const auto begun = Clock::now();
    Recorded recorded;
    for (bool goes_on = true; goes_on;) {
        const auto at_ms =
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count();
        const auto sample = sampler.sample(at_ms);
        if (sample) {
            keep(*sample, recorded);
        } else if (recorded.samples.empty()) {
            return tl::unexpected<Error>(sample.error());
        } else {
            recorded.end = End::gone;
            recorded.why_gone = sample.error().what;
            break;
        }
        // The sample after the last event was the last.
        if (recorded.wait_status) {
            recorded.end = End::command_ended;
            break;
        }
        for (Fired fired; goes_on && !fired.tick && !recorded.wait_status;) {
            if (auto waited = wait(fired); !waited) {
                return tl::unexpected<Error>(waited.error());
            }
            if (command && children_) {
                reap(&sampler, *command, recorded);
            }
            if (fired.interrupt || fired.deadline) {
                recorded.end = fired.interrupt ? End::interrupted : End::time_over;
                goes_on = false;
            }
        }
    }
    return recorded;
}

void Recording::end_command(Recorded& recorded, int command) {
    if (recorded.wait_status) {
        return;
    }
    if (recorded.end != End::interrupted || !from_person_) {
        ::kill(command, SIGTERM);
    }
    for (Fired fired; !recorded.wait_status && !fired.interrupt;) {
        if (!wait(fired)) {
            return;
        }
        if (children_) {
            reap(nullptr, command, recorded);
        }
    }
}

}  // namespace xenpack::record
