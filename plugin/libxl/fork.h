// SPDX-License-Identifier: LGPL-2.1-or-later
// Forking: one fork, from the table's fork() to its answer: the domain, its memory, its nodes, its
// devices, and where any of it fails, nothing. A job of the toolstack. What to fork, and what
// becomes of it, is the watcher's.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/libxl/destroy.h"
#include "plugin/libxl/fork_devices.h"
#include "plugin/libxl/fork_domain.h"
#include "plugin/libxl/jobs.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class Forking final : public Job {
  public:
    Forking(Tools& tools, const xenpack_fork_request& request, xenpack_fork_done done, void* arg);

    void begin() override;
    void cancel() override;
    void abandon() noexcept override;

  private:
    using Clock = std::chrono::steady_clock;

    Expected<void> make();
    Expected<void> create();
    Expected<void> fork_memory();
    Expected<void> write_store();
    Expected<void> write_nodes(const std::vector<StoreNode>& nodes, const char* point);
    Expected<void> introduce();
    Expected<void> run();
    void finish();
    Expected<void> record();
    void devices_ended(const Expected<void>& result);
    Expected<void> complete();
    void undo(const Error& error);
    void sweep(const Error& error);
    void discard(const Error& error);
    void answer(int result, const std::string& why);
    // Microseconds since the last lap.
    std::uint32_t lap_us();

    Tools& tools_;
    ForkDomains domains_;
    ForkDevices devices_;
    Destruction destruction_;

    std::uint32_t template_domid_;
    DomainUuid template_uuid_;
    ForkTree::Pairs identity_;
    bool paused_;
    xenpack_fork_done done_;
    void* arg_;

    Clock::time_point asked_at_ = Clock::now();
    Clock::time_point lap_at_ = asked_at_;
    bool cancelled_ = false;
    bool is_made_ = false;      // there is a domain to undo
    bool has_devices_ = false;  // or some of them
    std::shared_ptr<Template> of_;
    Ports ports_;
    TreeParts parts_;
    xenpack_fork_result result_{};
};

}  // namespace xenpack
