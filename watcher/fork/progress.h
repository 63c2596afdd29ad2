// SPDX-License-Identifier: LGPL-2.1-or-later
// Progress of one template-to-be towards quiet, and of one fork towards its identity: what to make
// of what is seen now. Forks looks, asks here, and does it. Pure.
//
// What a guest has answered may be anything: only what is exactly of the form, and to the very
// request that was made, counts; all else is no answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/error.h"

namespace xenpack {

// "SUBJECT GOOD" or "SUBJECT failed SENTENCE", see watcher/guest/fork_text.h.
struct GuestAnswer {
    enum class Word { none, good, failed } word = Word::none;
    std::string why;  // of a failure: one line, printable
};
[[nodiscard]] GuestAnswer parse_quiesced(std::string_view untrusted, std::string_view token);
[[nodiscard]] GuestAnswer parse_ready(std::string_view untrusted, std::string_view generation);

// What is seen of the domain that is waited for.
struct Seen {
    bool there = true;
    bool paused = false;
    bool held = false;           // for want of memory
    std::optional<int> stopped;  // SHUTDOWN_* of xen/sched.h: it has shut down
    GuestAnswer answer{};
};

// How long is waited. Time in which a domain is paused does not count: it could not answer.
struct Patience {
    std::int64_t timeout_ms = 0;
    std::optional<std::int64_t> deadline_ms{};  // nothing: it has not been seen to run yet
};

// Nothing: wait on. A value: good. An error: it has failed; its code is EREMOTEIO,
// ETIMEDOUT, or ENOMEM where it was late because it is held.
using Judgement = std::optional<Expected<void>>;
// Both set the deadline when the domain is first seen to run, and take it away while it is paused.
[[nodiscard]] Judgement judge_quiet(const Seen& seen, Patience& patience, std::int64_t now_ms);
[[nodiscard]] Judgement judge_ready(const Seen& seen, Patience& patience, std::int64_t now_ms);

// "poweroff", "reboot", "suspend", "crash", "watchdog", "soft reset"; else "reason 9".
[[nodiscard]] std::string shutdown_name(int reason);
// It was suspended, as by xl save: it has not ended.
[[nodiscard]] bool is_suspend(int shutdown_reason);

// "153 ms", "2.4 s".
[[nodiscard]] std::string show_ms(std::int64_t ms);

// "job-1, job-2, job-3"; of many the first few and how many more: "... and 15 more".
[[nodiscard]] std::string list_of(const std::vector<std::string>& names);

// "3 forks live: job-1, job-2, job-3".
[[nodiscard]] std::string forks_sentence(const std::vector<std::string>& names);

}  // namespace xenpack
