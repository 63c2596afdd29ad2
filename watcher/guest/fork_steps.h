// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkSteps: carries out what Forking says: hooks, freezing, the identity, answers, and the record
// of it that outlives a crash. Owned by ForkAgent, in whose thread it may wait. It does not decide
// what is next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/forking.h"
#include "watcher/guest/identity.h"
#include "watcher/guest/store_link.h"

namespace xenpack::guest {

// For each hook, and for the workload to stand still: as long as the host waits for an answer where
// nobody says otherwise (kAnswerMs of watcher/fork/asked.h). Many forks that wake at once on few
// processors are slow, and it is the host's to say when that is too slow.
inline constexpr std::uint64_t kHookMs = 60'000;

struct ForkSetup {
    std::string workload;  // a cgroup v2 directory; empty: nothing is frozen
    std::string root;      // before /etc, /run and /proc; empty but in tests
    std::string random_device = "/dev/urandom";
    Ioctl ioctl = kernel_ioctl;  // for the random device
    std::uint64_t patience_ms = kHookMs;
};

class ForkSteps {
  public:
    // Takes up what an earlier one has kept.
    explicit ForkSteps(ForkSetup setup);

    // Does all there is to do now, and writes the answers. An error is of xenstore, or of a
    // workload that cannot be thawed: call again, where it says so with a new connection.
    [[nodiscard]] Expected<void> look(Nodes& nodes);

    // Quiesced, so that the next thing to be seen may be another domain's.
    [[nodiscard]] bool is_quiesced() const { return !kept_.token.empty(); }

  private:
    struct Given;

    [[nodiscard]] static Expected<ForkSeen> see(Nodes& nodes);
    [[nodiscard]] Expected<void> carry_out(ForkStep step, const ForkSeen& seen, Nodes& nodes);
    void quiesce(const ForkSeen& seen);
    [[nodiscard]] Expected<void> be_quiet(const std::string& token) const;
    [[nodiscard]] Expected<void> resume();
    [[nodiscard]] Expected<void> thaw_workload();
    [[nodiscard]] Expected<void> give_identity(const std::string& generation, Nodes& nodes);
    [[nodiscard]] Expected<void> become(const std::string& generation, const Given& given) const;
    [[nodiscard]] Expected<void> answer(const ForkSeen& seen, Nodes& nodes);
    [[nodiscard]] Expected<void> save() const;
    [[nodiscard]] std::string hooks(const char* name) const;
    [[nodiscard]] std::string kept_path() const;

    ForkSetup setup_;
    ForkKept kept_;
    // As last written; to be written again by whoever is started anew.
    std::optional<std::string> quiesced_written_;
    std::optional<std::string> fork_written_;
};

}  // namespace xenpack::guest
