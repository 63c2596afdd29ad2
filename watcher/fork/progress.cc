// SPDX-License-Identifier: LGPL-2.1-or-later
// Answers, judgements, and the sentences that go with them. Pure.
#include "watcher/fork/progress.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

// SHUTDOWN_suspend of Xen's public/sched.h.
constexpr int kSuspend = 2;
// Names in one sentence.
constexpr std::size_t kMostNamed = 5;

GuestAnswer parse(std::string_view untrusted, std::string_view subject, std::string_view good) {
    if (subject.empty() || !untrusted.starts_with(subject)) {
        return {};
    }
    untrusted.remove_prefix(subject.size());
    constexpr std::string_view kFailed = " failed ";
    if (untrusted.starts_with(' ') && untrusted.substr(1) == good) {
        return {GuestAnswer::Word::good, {}};
    }
    if (untrusted.starts_with(kFailed)) {
        return {GuestAnswer::Word::failed, guest::as_sentence(untrusted.substr(kFailed.size()))};
    }
    return {};
}

// What both have in common; `late` is the sentence of one that did not answer in time.
Judgement judge(const Seen& seen, Patience& patience, std::int64_t now_ms, std::string_view failed,
                std::string_view late) {
    if (!seen.there) {
        return fail_with(EREMOTEIO, "its domain has gone");
    }
    if (seen.stopped) {
        return fail_with(EREMOTEIO, "it has shut down ({})", shutdown_name(*seen.stopped));
    }
    switch (seen.answer.word) {
        case GuestAnswer::Word::good:
            return Expected<void>();
        case GuestAnswer::Word::failed:
            return fail_with(EREMOTEIO, "{}: {}", failed, seen.answer.why);
        case GuestAnswer::Word::none:
            break;
    }
    if (seen.paused) {
        patience.deadline_ms.reset();
        return std::nullopt;
    }
    if (!patience.deadline_ms) {
        patience.deadline_ms = now_ms + patience.timeout_ms;
    }
    if (now_ms < *patience.deadline_ms) {
        return std::nullopt;
    }
    return fail_with(seen.held ? ENOMEM : ETIMEDOUT, "{} within {}: {}", late,
                     show_ms(patience.timeout_ms),
                     seen.held ? "it is held for want of memory (xenpack status says what for)"
                               : "is xenpack-guest running in it?");
}

}  // namespace

GuestAnswer parse_quiesced(std::string_view untrusted, std::string_view token) {
    return parse(untrusted, token, "ok");
}

GuestAnswer parse_ready(std::string_view untrusted, std::string_view generation) {
    return parse(untrusted, generation, "ready");
}

Judgement judge_quiet(const Seen& seen, Patience& patience, std::int64_t now_ms) {
    return judge(seen, patience, now_ms, "it cannot be quiet", "it has not said that it is quiet");
}

Judgement judge_ready(const Seen& seen, Patience& patience, std::int64_t now_ms) {
    return judge(seen, patience, now_ms, "it could not take its identity",
                 "it has not said that it has its identity");
}

std::string shutdown_name(int reason) {
    static constexpr std::array kNames{"poweroff", "reboot",   "suspend",
                                       "crash",    "watchdog", "soft reset"};
    const auto at = static_cast<std::size_t>(reason);
    return at < kNames.size() ? kNames[at] : fmt::format("reason {}", reason);
}

bool is_suspend(int shutdown_reason) {
    return shutdown_reason == kSuspend;
}

std::string show_ms(std::int64_t ms) {
    return ms < 1000 ? fmt::format("{} ms", ms)
                     : fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

std::string list_of(const std::vector<std::string>& names) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
        text += (i == 0 ? "" : ", ") + names[i];
    }
    return names.size() > kMostNamed
               ? fmt::format("{} and {} more", text, names.size() - kMostNamed)
               : text;
}

std::string forks_sentence(const std::vector<std::string>& names) {
    return fmt::format("{} {}: {}", names.size(), names.size() == 1 ? "fork lives" : "forks live",
                       list_of(names));
}

}  // namespace xenpack
