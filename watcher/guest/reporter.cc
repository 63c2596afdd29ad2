// SPDX-License-Identifier: LGPL-2.1-or-later
// Reporter: waiting, sampling and acting; see reporter.h. It decides nothing: Reporting says when
// to report, Brake what memory.high should be.
#include "watcher/guest/reporter.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "watcher/guest/cgroup.h"
#include "watcher/guest/psi_trigger.h"
#include "watcher/guest/say.h"
#include "watcher/guest/text_file.h"

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kCloseMs = 500;
constexpr std::uint64_t kCeilingAskMs = 1000;
constexpr char kProc[] = "/proc";

std::uint64_t monotonic_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

Expected<Fd> open_signals() {
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    Fd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) {
        const int code = errno;
        return fail_with(code, "cannot wait for signals: {}", std::strerror(code));
    }
    return fd;
}

Fd open_trigger_or_say() {
    auto trigger = open_psi_trigger(std::string(kProc) + "/pressure/memory");
    if (!trigger) {
        say("no pressure trigger ({}); going by the memory available alone", trigger.error().what);
        return {};
    }
    return std::move(*trigger);
}

Expected<std::string> own_cgroup_of(const char* option) {
    std::array<char, 4096> buffer{};
    const auto file = TextFile::open(std::string(kProc) + "/self/cgroup", O_RDONLY);
    if (!file) {
        return tl::unexpected(file.error().during(option));
    }
    const auto text = file->read(buffer);
    return text ? Expected<std::string>(std::string(*text))
                : tl::unexpected(text.error().during(option));
}

Expected<BrakeFiles> open_brake(const std::string& directory) {
    const auto own_cgroup = own_cgroup_of("--brake");
    return own_cgroup ? BrakeFiles::open(directory, *own_cgroup)
                      : tl::unexpected(own_cgroup.error());
}

// The brake's group, which has been looked at already, unless another is named.
Expected<ForkSetup> fork_setup(const Options& options) {
    ForkSetup setup;
    setup.workload = options.brake;
    if (!options.workload.empty()) {
        const auto own_cgroup = own_cgroup_of("--workload");
        const auto fit = own_cgroup ? check_workload("--workload", options.workload, *own_cgroup)
                                    : tl::unexpected(own_cgroup.error());
        if (!fit) {
            return tl::unexpected(fit.error());
        }
        setup.workload = options.workload;
    }
    return setup;
}

// Without it the brake holds a workload too late where the kernel keeps more to itself than it
// says.
std::optional<NoWatermarkBoost> no_boost_or_say() {
    auto off = NoWatermarkBoost::begin(std::string(kProc) + "/sys/vm/watermark_boost_factor");
    if (!off) {
        say("brake: the kernel may hold memory back from it ({})", off.error().what);
        return std::nullopt;
    }
    return std::move(*off);
}

Report make_report(const MemorySample& memory, const PagingCounts& paging,
                   const std::optional<StallTotals>& stalls) {
    Report report;
    report.uptime_ms = monotonic_ms();
    report.total_kib = memory.total_kib;
    report.available_kib = memory.available_kib;
    report.free_kib = memory.free_kib;
    report.swap_total_kib = memory.swap_total_kib;
    report.swap_free_kib = memory.swap_free_kib;
    report.swap_ins = paging.swap_ins;
    report.refaults = paging.refaults;
    if (stalls) {
        report.some_us = stalls->some_us;
        report.full_us = stalls->full_us;
    }
    return report;
}

}  // namespace

Reporter::Reporter(ProcReader proc, std::uint64_t heartbeat_s, Fd trigger, Fd signals)
    : proc_(std::move(proc)),
      heartbeat_s_(heartbeat_s),
      trigger_(std::move(trigger)),
      signals_(std::move(signals)),
      reporting_(heartbeat_s * 1000, static_cast<bool>(trigger_)) {}

Expected<std::unique_ptr<Reporter>> Reporter::start(const Options& options) {
    auto proc = ProcReader::open(kProc);
    if (!proc) {
        return tl::unexpected(proc.error());
    }
    auto signals = open_signals();
    if (!signals) {
        return tl::unexpected(signals.error());
    }
    std::unique_ptr<Reporter> reporter(new Reporter(std::move(*proc), options.heartbeat_s,
                                                    open_trigger_or_say(), std::move(*signals)));
    if (!options.brake.empty()) {
        auto files = open_brake(options.brake);
        if (!files) {
            return tl::unexpected(files.error());
        }
        const Brake decision(files->own_limit_kib());
        reporter->brake_.emplace(BrakeParts{std::move(*files), no_boost_or_say(), decision});
    }
    auto setup = fork_setup(options);
    if (!setup) {
        return tl::unexpected(setup.error());
    }
    auto store = StoreWriter::open();
    if (!store) {
        return tl::unexpected(store.error());
    }
    reporter->store_ = std::move(*store);
    auto forks = ForkAgent::start(std::move(*setup));
    if (!forks) {
        return tl::unexpected(forks.error());
    }
    reporter->forks_ = std::move(*forks);
    return reporter;
}

Expected<void> Reporter::run() {
    bool trigger_fired = false;
    for (;;) {
        const auto timeout_ms = look(trigger_fired);
        if (!timeout_ms) {
            return tl::unexpected(timeout_ms.error());
        }
        const Woken woken = wait(*timeout_ms);
        if (woken.by_signal) {
            brake_.reset();
            forks_->close(kCloseMs);
            store_->close(kCloseMs);
            return {};
        }
        trigger_fired = woken.by_trigger;
    }
}

Reporter::Woken Reporter::wait(std::uint64_t timeout_ms) {
    // While the brake holds, the kernel counts all the time, and looks are close together anyway.
    const int brake_fd = brake_ && !brake_holds() ? brake_->files.events_fd() : -1;
    std::array<pollfd, 3> fds{
        {{signals_.get(), POLLIN, 0}, {trigger_.get(), POLLPRI, 0}, {brake_fd, POLLPRI, 0}}};
    if (::poll(fds.data(), fds.size(), static_cast<int>(timeout_ms)) < 0) {
        return {};  // EINTR, or no memory for the kernel: a look does no harm
    }
    const pollfd& trigger = fds[1];
    if ((trigger.revents & (POLLERR | POLLNVAL)) != 0) {
        say("the kernel took the pressure trigger away; going by the memory available alone");
        trigger_ = Fd();
        reporting_.lose_trigger();
    }
    return {fds[0].revents != 0, trigger_ && (trigger.revents & POLLPRI) != 0};
}

Expected<std::uint64_t> Reporter::look(bool trigger_fired) {
    const std::uint64_t usage_before_kib = brake_usage_kib();
    const auto memory = proc_.memory();
    if (!memory) {
        return tl::unexpected(memory.error());
    }
    const std::uint64_t now_ms = monotonic_ms();
    // A workload at the brake is short of memory before it is slowed so much that PSI sees it.
    const bool brake_bit = look_at_brake(now_ms, usage_before_kib, *memory);
    Reporting::Look look{now_ms, *memory, std::nullopt, trigger_fired || brake_bit};
    const auto stalls = proc_.stalls();
    look.some_us = stalls ? std::optional(stalls->some_us) : std::nullopt;
    const auto verdict = reporting_.look(look);
    if (verdict.why) {
        write_report(look, *verdict.why);
    }
    return brake_holds() ? std::min(verdict.look_again_ms, kQuickLookMs) : verdict.look_again_ms;
}

std::uint64_t Reporter::brake_usage_kib() {
    if (!brake_) {
        return 0;
    }
    const auto readings = brake_->files.read();
    if (!readings) {
        lose_brake(readings.error());
        return 0;
    }
    return readings->usage_kib;
}

bool Reporter::look_at_brake(std::uint64_t now_ms, std::uint64_t usage_before_kib,
                             const MemorySample& memory) {
    if (!brake_) {
        return false;
    }
    const auto readings = brake_->files.read();
    if (!readings) {
        lose_brake(readings.error());
        return false;
    }
    keep_ceiling_fresh(now_ms, memory);
    const BrakeState before = brake_->decision.state();
    const BrakeState now =
        brake_->decision.look({now_ms, memory, usage_before_kib, readings->usage_kib,
                               readings->high_events, store_->ceiling()});
    const auto set = brake_->files.set_limit(brake_->decision.limit_kib());
    if (!set) {
        lose_brake(set.error());
        return false;
    }
    say_brake_state(before, now);
    return before != now && now == BrakeState::holding;
}

void Reporter::keep_ceiling_fresh(std::uint64_t now_ms, const MemorySample& memory) {
    const bool first = brake_->asked_ceiling_at_ms == 0;
    const std::uint64_t age_ms = now_ms - brake_->asked_ceiling_at_ms;
    const bool held = brake_holds() && age_ms >= kCeilingAskMs;
    const bool moved = memory.total_kib != brake_->asked_ceiling_total_kib;
    if (first || held || (moved && age_ms >= kQuickLookMs) || age_ms >= heartbeat_s_ * 1000) {
        store_->ask_ceiling();
        brake_->asked_ceiling_at_ms = now_ms;
        brake_->asked_ceiling_total_kib = memory.total_kib;
    }
}

void Reporter::say_brake_state(BrakeState before, BrakeState now) const {
    if (before == now) {
        return;
    }
    const std::uint64_t limit_mib = brake_->decision.limit_kib().value_or(0) / 1024;
    switch (now) {
        case BrakeState::armed:
            say("brake: armed at {} MiB", limit_mib);
            break;
        case BrakeState::holding:
            say("brake: the workload is held at {} MiB until memory arrives", limit_mib);
            break;
        case BrakeState::lifted_at_ceiling:
            say("brake: lifted, this zone is at its ceiling");
            break;
        case BrakeState::lifted_in_vain:
            say("brake: lifted, no memory arrived in {} s", kBrakeDeadlineMs / 1000);
            break;
    }
}

void Reporter::lose_brake(const Error& error) {
    say("brake: given up: {}", error.what);
    brake_.reset();
}

void Reporter::write_report(const Reporting::Look& look, ReportWhy why) {
    Report report = make_report(look.memory, proc_.paging(), proc_.stalls());
    report.why = why;
    report.sequence = ++sequence_;
    report.heartbeat_s = heartbeat_s_;
    if (brake_ && brake_->decision.limit_kib()) {
        // In a very small zone the margin is more than there is.
        report.brake_kib = std::min(brake_margin_kib(look.memory.total_kib), look.memory.total_kib);
    }
    store_->post(format_report(report));
    reporting_.written(look, why);
}

bool Reporter::brake_holds() const {
    return brake_ && brake_->decision.state() == BrakeState::holding;
}

Expected<std::string> report_once(const std::string& proc_root, std::uint64_t heartbeat_s) {
    auto proc = ProcReader::open(proc_root);
    if (!proc) {
        return tl::unexpected(proc.error());
    }
    const auto memory = proc->memory();
    if (!memory) {
        return tl::unexpected(memory.error());
    }
    Report report = make_report(*memory, proc->paging(), proc->stalls());
    report.sequence = 1;
    report.heartbeat_s = heartbeat_s;
    return format_report(report);
}

}  // namespace xenpack::guest
