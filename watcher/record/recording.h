// SPDX-License-Identifier: LGPL-2.1-or-later
// Recording: takes samples at even intervals until a command ends, a time is over, or a signal
// comes. Waits for events only. Called by `xenpack record`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "watcher/error.h"
#include "watcher/record/sampler.h"

namespace xenpack::record {

enum class End { command_ended, time_over, interrupted, gone };

struct Recorded {
    std::vector<Sample> samples;
    End end = End::time_over;
    std::string why_gone;            // of End::gone: the sentence of what could not be read
    std::optional<int> wait_status;  // of the command, once it has ended
};

// From its making on, SIGINT, SIGTERM, SIGHUP and SIGCHLD of this process are for the recording.
class Recording {
  public:
    [[nodiscard]] static Expected<Recording> prepare(std::int64_t interval_ms,
                                                     std::optional<std::int64_t> length_ms);
    Recording(Recording&& other) noexcept;
    Recording& operator=(Recording&&) = delete;
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
    ~Recording();

    // `command`: a child to record to its end; this process then reaps its orphans too. Fails
    // where the first sample cannot be taken; what fails later is End::gone.
    [[nodiscard]] Expected<Recorded> run(Sampler& sampler, std::optional<int> command);

    // After an End other than command_ended: tells the command to end too (unless the terminal
    // has told it) and waits, until it has ended or a signal comes.
    void end_command(Recorded& recorded, int command);

  private:
    struct Fired {
        bool tick = false;
        bool deadline = false;
        bool interrupt = false;
    };

    Recording() = default;
    [[nodiscard]] Expected<void> wait(Fired& fired);
    void take_signals(Fired& fired);
    void keep(const Sample& sample, Recorded& recorded) const;
    void reap(Sampler* sampler, int command, Recorded& recorded);

    std::int64_t interval_ms_ = 0;
    int signals_ = -1;
    int ticks_ = -1;
    int deadline_ = -1;
    bool children_ = false;    // SIGCHLD has come
    bool from_person_ = true;  // the interrupt came from a terminal, which tells the command too
};

}  // namespace xenpack::record
