// SPDX-License-Identifier: LGPL-2.1-or-later
// Reporter: the loop of xenpack-guest. It waits for the kernel's pressure trigger, the brake's
// events, a signal, or the time to look again; samples; asks Reporting and Brake; acts. Owned by
// main. One thread; what may block on xenstore is in StoreWriter's,
// and all that has to do with forks is in ForkAgent's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/brake.h"
#include "watcher/guest/brake_files.h"
#include "watcher/guest/fd.h"
#include "watcher/guest/fork_agent.h"
#include "watcher/guest/options.h"
#include "watcher/guest/proc_reader.h"
#include "watcher/guest/reporting.h"
#include "watcher/guest/store_writer.h"
#include "watcher/guest/watermark_boost.h"

namespace xenpack::guest {

class Reporter {
  public:
    // Opens everything. Blocks SIGTERM and SIGINT in the whole process, before any thread starts.
    [[nodiscard]] static Expected<std::unique_ptr<Reporter>> start(const Options& options);

    // Until SIGTERM or SIGINT, which is success.
    [[nodiscard]] Expected<void> run();

  private:
    struct Woken {
        bool by_signal = false;
        bool by_trigger = false;
    };

    struct BrakeParts {
        BrakeFiles files;
        std::optional<NoWatermarkBoost> no_boost;
        Brake decision;
        std::uint64_t asked_ceiling_at_ms = 0;
        std::uint64_t asked_ceiling_total_kib = 0;
    };

    Reporter(ProcReader proc, std::uint64_t heartbeat_s, Fd trigger, Fd signals);

    [[nodiscard]] Woken wait(std::uint64_t timeout_ms);
    // One look. The time until the next, in ms.
    [[nodiscard]] Expected<std::uint64_t> look(bool trigger_fired);
    // 0: there is no brake (any more).
    [[nodiscard]] std::uint64_t brake_usage_kib();
    // Whether the brake has just begun to hold the workload.
    [[nodiscard]] bool look_at_brake(std::uint64_t now_ms, std::uint64_t usage_before_kib,
                                     const MemorySample& memory);
    void keep_ceiling_fresh(std::uint64_t now_ms, const MemorySample& memory);
    void say_brake_state(BrakeState before, BrakeState now) const;
    void lose_brake(const Error& error);
    void write_report(const Reporting::Look& look, ReportWhy why);
    [[nodiscard]] bool brake_holds() const;

    ProcReader proc_;
    std::uint64_t heartbeat_s_;
    Fd trigger_;
    Fd signals_;
    Reporting reporting_;
    std::optional<BrakeParts> brake_;
    std::unique_ptr<StoreWriter> store_;
    std::unique_ptr<ForkAgent> forks_;
    std::uint64_t sequence_ = 0;
};

// The line that --once prints.
[[nodiscard]] Expected<std::string> report_once(const std::string& proc_root,
                                                std::uint64_t heartbeat_s);

}  // namespace xenpack::guest
