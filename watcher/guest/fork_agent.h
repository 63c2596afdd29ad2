// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkAgent: the thread that watches xenstore for being quiesced and for being a fork, and has
// ForkSteps act. Owned by Reporter, whose loop it never holds up: hooks, freezing and xenstore may
// take their time here.
#pragma once

#include <cstdint>
#include <memory>

#include "watcher/error.h"
#include "watcher/guest/fork_steps.h"

namespace xenpack::guest {

class ForkAgent {
  public:
    // Starts the thread. A xenstore that cannot be reached is tried again for ever.
    [[nodiscard]] static Expected<std::unique_ptr<ForkAgent>> start(ForkSetup setup);
    ~ForkAgent();
    ForkAgent(const ForkAgent&) = delete;
    ForkAgent& operator=(const ForkAgent&) = delete;

    // As StoreWriter's: a thread that is in the middle of something longer than this is left
    // behind, its hook is killed with the process, and the next start does it again. What is frozen
    // stays frozen: only the host knows whether it is about to be suspended.
    void close(std::uint64_t patience_ms);

  private:
    struct Shared;
    explicit ForkAgent(std::shared_ptr<Shared> shared);

    std::shared_ptr<Shared> shared_;
};

}  // namespace xenpack::guest
