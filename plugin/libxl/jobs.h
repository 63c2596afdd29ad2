// SPDX-License-Identifier: LGPL-2.1-or-later
// Jobs: what is under way: sealings, forks, destructions, each from its call to its answer. Owned
// by the toolstack. It must not know what any of them does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/libxl/device_worker.h"
#include "plugin/libxl/fork_rings.h"
#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/later.h"
#include "plugin/libxl/saving.h"
#include "plugin/libxl/store_read.h"
#include "plugin/libxl/taken_names.h"
#include "plugin/libxl/templates.h"
#include "plugin/libxl/xl_context.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class Job {
  public:
    // Which domain it works on, so that no two work on one; and the name that it is about to give.
    Job(const DomainUuid& uuid, std::string name) : uuid_{uuid}, name_{std::move(name)} {}
    virtual ~Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    // In the loop, once, some time after the call.
    virtual void begin() = 0;
    // Undo what there is and answer with ECANCELED, soon.
    virtual void cancel() = 0;
    // There is no time left: only answer. Once; the job is then destroyed.
    virtual void abandon() noexcept = 0;
    // A domain has shut down or ended.
    virtual void host_changed() {}

    const DomainUuid& uuid() const noexcept { return uuid_; }
    const std::string& name() const noexcept { return name_; }

  protected:
    DomainUuid uuid_;
    std::string name_;
};

class Jobs {
  public:
    explicit Jobs(Later& later) : later_{later} {}

    // EBUSY where another is working on that domain already.
    Expected<void> add(std::unique_ptr<Job> job);
    // The job, which answers as the last thing it does.
    std::unique_ptr<Job> take(Job& job);
    // Whether another job than `self` is about to give this name. Null: whether any is.
    bool is_giving(const std::string& name, const Job* self) const;
    // Whether one is working on that domain.
    bool is_on(const DomainUuid& uuid) const;
    bool empty() const noexcept { return jobs_.empty(); }

    void host_changed();
    void cancel_all();
    void abandon_all() noexcept;

  private:
    Later& later_;
    std::vector<std::unique_ptr<Job>> jobs_;
};

// What jobs work with. All of it outlives them.
struct Tools {
    const xenpack_watcher_ops& watcher;
    Hypervisor& xen;
    XlContext& xl;
    SaveHelpers& helpers;
    Later& later;
    TakenNames& names;
    Templates& templates;
    ForkRings& rings;
    Jobs& jobs;
    DeviceWorker& devices;
    const std::string& scripts;  // the directory of libxl's hotplug scripts
};

// EEXIST where another domain than `except` has the job's name, or is about to.
Expected<void> check_name(Tools& tools, const Job& job, std::uint32_t except = kNoDomain);
// EEXIST where another domain than `except`, or a job, has that name.
Expected<void> check_name(Tools& tools, const std::string& name, std::uint32_t except);

int code_of(const Error& error) noexcept;

}  // namespace xenpack
