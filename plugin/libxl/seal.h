// SPDX-License-Identifier: LGPL-2.1-or-later
// Sealing: a domain made a template, from the table's seal() to its answer; and where that fails,
// the domain runs on as it was. A job of the toolstack. That the guest is quiet, and who may be a
// template, is the watcher's.
//
// What is done before devices are taken away can be undone; what comes then cannot, and does not
// fail but for want of memory for a page.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "plugin/libxl/delay.h"
#include "plugin/libxl/jobs.h"
#include "plugin/libxl/operation.h"
#include "plugin/libxl/parsed_config.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class Sealing final : public Job {
  public:
    // `name` "": it keeps the one it has.
    struct Request {
        std::uint32_t domid;
        DomainUuid uuid;
        std::string name;
        std::uint64_t timeout_ms;
        std::vector<std::string> missing;  // what this host lacks for forks
    };
    Sealing(Tools& tools, Request request, xenpack_done done, void* arg);
    ~Sealing() override;

    void begin() override;
    void cancel() override;
    void abandon() noexcept override;
    void host_changed() override;

  private:
    struct Devices;

    // Runs a step; its failure, memory included, is undone.
    template <class Step>
    void step(Step&& run);

    // ---- before it is suspended
    Expected<void> look();
    Expected<void> look_at_broken_off(const DomainFacts& facts);
    Expected<void> check(const DomainFacts& facts);
    void read_config();
    Expected<void> check_config();
    Expected<void> announce();
    Expected<void> suspend();
    Expected<void> suspended(int rc);
    // ---- suspended
    Expected<void> hold();
    Expected<void> keep_record();
    Expected<void> rename();
    void take_devices();
    void device_taken(int rc);
    void shrink();
    void hold_for_good();
    Expected<void> finish(bool reset);
    std::vector<std::pair<std::string, std::string>> look_at_bases();
    Expected<void> mark_sealed(std::uint64_t cpu_time_ns);
    // ---- what fails
    void undo(const Error& error);
    void settle(const Error& error);
    void run_on(const Error& error);
    void withdraw(const Error& error);
    void answer(int result, const std::string& why);

    Expected<bool> is_suspended();
    std::string node(const char* below) const;
    void remove_node(const char* below);
    void warn(const std::string& what) noexcept;

    Tools& tools_;
    Operation operation_;
    Delay timeout_;
    Delay late_;
    std::uint32_t domid_;
    std::uint64_t timeout_ms_;
    std::vector<std::string> missing_;
    xenpack_done done_;
    void* arg_;

    ParsedConfig config_;
    std::string old_name_;
    std::unique_ptr<Devices> devices_;
    libxl_evgen_domain_death* end_watch_ = nullptr;
    Error late_error_;
    bool cancelled_ = false;
    bool timed_out_ = false;
    bool withdrawn_ = false;  // libxl has taken its request back
    bool undoing_ = false;
    // What has been done, for undoing.
    bool announced_ = false;
    bool held_ = false;
    bool recorded_ = false;
    bool renamed_ = false;
    bool irrevocable_ = false;
};

}  // namespace xenpack
