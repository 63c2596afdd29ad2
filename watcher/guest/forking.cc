// SPDX-License-Identifier: LGPL-2.1-or-later
// Forking: the rules of forking.h. ForkSteps carries out what they say.
#include "watcher/guest/forking.h"

#include <utility>

namespace xenpack::guest {
namespace {

std::optional<std::string> answer(const std::string& subject, Outcome outcome, const char* good,
                                  const std::string& why) {
    switch (outcome) {
        case Outcome::pending:
            return std::nullopt;
        case Outcome::done:
            return subject + " " + good;
        case Outcome::failed:
            return subject + " failed " + why;
    }
    return std::nullopt;  // unreachable: the switch names every value
}

}  // namespace

ForkStep next_step(const ForkSeen& seen, const ForkKept& kept) {
    const bool quiesced = !kept.token.empty();
    if (seen.generation) {
        if (*seen.generation != kept.generation || kept.identity == Outcome::pending) {
            return ForkStep::identity;
        }
        if (kept.identity == Outcome::failed) {
            return ForkStep::none;
        }
        if (quiesced && kept.quiesced_in != *seen.generation) {
            return ForkStep::thaw;
        }
    }
    if (quiesced && seen.token != kept.token) {
        return ForkStep::resume;
    }
    if (seen.token && (!quiesced || kept.quiesce == Outcome::pending)) {
        return ForkStep::quiesce;
    }
    return ForkStep::none;
}

std::optional<std::string> quiesced_answer(const ForkSeen& seen, const ForkKept& kept) {
    if (!seen.token || *seen.token != kept.token) {
        return std::nullopt;
    }
    return answer(kept.token, kept.quiesce, "ok", kept.quiesce_why);
}

std::optional<std::string> fork_answer(const ForkSeen& seen, const ForkKept& kept) {
    if (!seen.generation || *seen.generation != kept.generation) {
        return std::nullopt;
    }
    // "ready" is for when the workload runs, and not merely may.
    if (kept.identity == Outcome::done && next_step(seen, kept) == ForkStep::thaw) {
        return std::nullopt;
    }
    return answer(kept.generation, kept.identity, "ready", kept.identity_why);
}

ForkKept started_anew(ForkKept kept) {
    if (kept.identity == Outcome::failed) {
        kept.generation.clear();
        kept.identity = Outcome::pending;
        kept.identity_why.clear();
    }
    return kept;
}

}  // namespace xenpack::guest
