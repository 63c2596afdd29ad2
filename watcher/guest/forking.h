// SPDX-License-Identifier: LGPL-2.1-or-later
// Forking: what to do next, from what xenstore says now and what was done before. Called by
// ForkSteps, again and again until nothing is left to do. Pure: no file, no xenstore.
//
// One rule stands above the others: what was frozen for a template does not run in a fork of it
// before the fork has its identity. A fork begins as its template's memory, so it finds itself
// quiesced; it knows that it is a fork by a generation that it has given no identity yet. Where
// that failed nothing is thawed, until xenpack-guest is started anew and tries again.
#pragma once

#include <optional>
#include <string>

#include "watcher/guest/fork_text.h"

namespace xenpack::guest {

// `token` must have been read before `generation`: the other way about, the two could be of a
// template before it was suspended and of its fork after, which would look like a template that
// may go on.
struct ForkSeen {
    std::optional<std::string> token;       // xenpack/quiesce; none: there is no such node
    std::optional<std::string> generation;  // xenpack/fork/generation; none: this is no fork
};

enum class ForkStep {
    none,
    quiesce,   // hooks, freeze, sync, for seen.token
    resume,    // the zone was not suspended, or came back as it was: thaw, hooks
    identity,  // of seen.generation
    thaw,      // the identity is given, and what the template froze is frozen still
};

[[nodiscard]] ForkStep next_step(const ForkSeen& seen, const ForkKept& kept);

// What the answers should be now; none: the node is none of this domain's business.
[[nodiscard]] std::optional<std::string> quiesced_answer(const ForkSeen& seen,
                                                         const ForkKept& kept);
[[nodiscard]] std::optional<std::string> fork_answer(const ForkSeen& seen, const ForkKept& kept);

// How it starts over with what an earlier one has kept: an identity that failed is tried again.
[[nodiscard]] ForkKept started_anew(ForkKept kept);

}  // namespace xenpack::guest
