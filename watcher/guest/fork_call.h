// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkCall: fork() for whole machines: asks the host to fork this zone, and returns in each of the
// zones that come of it, with its number. main calls it for `xenpack-guest fork`; the reporter, a
// process of its own, makes the zone quiet and gives each fork its identity meanwhile. The texts
// are fork_text.h's. Judging is pure; run_fork_call() waits, looks and writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/fork_text.h"
#include "watcher/guest/store_link.h"

namespace xenpack::guest {

// How long the host has to accept or refuse; and how long its answer may be gone, as while it is
// written anew.
inline constexpr std::int64_t kAnswerPatienceMs = 10'000;
inline constexpr std::int64_t kAbsencePatienceMs = 5'000;

struct CallSeen {
    std::optional<std::string> answer;      // xenpack/fork-me
    std::optional<std::string> generation;  // xenpack/fork/generation
    std::optional<std::string> index;       // xenpack/fork/index
    std::optional<std::string> said;        // data/xenpack/fork, by the reporter
};

struct CallState {
    std::string id;
    std::int64_t waits_since_ms = 0;  // for an answer, or for one that has gone
    bool accepted = false;
    bool withdrawn = false;
    std::string wish{};  // as it was written
};

struct CallVerdict {
    enum class Word {
        wait,
        withdraw,  // the wish: then look again
        forked,    // this is one of the forks
        failed  // this zone was not forked; or is a fork that was made alone, or at another wish,
                // or has no identity
    } word = Word::wait;
    unsigned index = 0;
    std::string why{};
    bool later = false;  // it failed, and may be had later
};
[[nodiscard]] CallVerdict judge_call(const CallSeen& seen, CallState& state, std::int64_t now_ms);

// One look: reads, judges, and takes the wish back where that is over. Never another's wish that
// has come to stand in its place. state.withdrawn where it was taken back to look again.
[[nodiscard]] Expected<CallVerdict> look_at_call(Nodes& nodes, CallState& state,
                                                 std::int64_t now_ms);

// Does not return in the zone that becomes the template. An error: it was not forked, or the other
// forks could not be made, which is said in the one that has its place. Error code EAGAIN: it may
// be forked later.
[[nodiscard]] Expected<unsigned> run_fork_call(unsigned count, const std::string& pattern);

}  // namespace xenpack::guest
