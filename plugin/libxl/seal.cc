// SPDX-License-Identifier: LGPL-2.1-or-later
// The steps in their order: everything that can fail, then what cannot be undone. libxl's suspend
// leaves its request in the store when it is cut short, and can say success where it has withdrawn
// it (tools/libs/light/libxl_dom_suspend.c): Xen and the store are asked what has come of it.
#include "plugin/libxl/seal.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "hotplug/base.h"
#include "plugin/libxl/fork_nodes.h"
#include "plugin/libxl/paging_pool.h"
#include "plugin/libxl/template_check.h"
#include "plugin/libxl/userdata.h"
#include "plugin/libxl/vbd_number.h"
#include "watcher/fault_point.h"

namespace xenpack {
namespace {

constexpr char kShutdownNode[] = "control/shutdown";
constexpr char kCancelled[] = "the toolstack was closed while it was being sealed";

// A guest that has taken up the request may suspend as long as this afterwards: Linux gives its
// tasks 20 s to freeze (kernel/power/process.c, freeze_timeout_msecs), and gives up then.
constexpr std::uint64_t kLateUs = 30'000'000;

// Choice: Xen counts pauses, and nobody unpauses what does not run a hundred times.
constexpr int kTemplatePauses = 100;

constexpr int kSuspendReason = 2;  // SHUTDOWN_suspend of xen/sched.h

bool has(const xenpack_domain& domain, xenpack_domain_flags flag) noexcept {
    return (domain.flags & std::uint32_t{flag}) != 0;
}

bool has_suspended(const xenpack_domain& domain) noexcept {
    return has(domain, XENPACK_DOMAIN_IS_SHUTDOWN) && domain.shutdown_reason == kSuspendReason;
}

Expected<void> check_script(const std::string& path, const char* for_what) {
    if (access(path.c_str(), X_OK) != 0) {
        return fail_with(ENOTSUP, "its forks' {} are made by {}, which is not there: {}", for_what,
                         path, std::strerror(errno));
    }
    return {};
}

}  // namespace

// A domain's disks and networks, as libxl finds them in the store, and their destructions.
struct Sealing::Devices {
    Devices(Tools& tools, std::uint32_t domid) {
        disks = libxl_device_disk_list(tools.xl.get(), domid, &disks_n);
        nics = libxl_device_nic_list(tools.xl.get(), domid, &nics_n);
    }
    ~Devices() {
        libxl_device_disk_list_free(disks, disks_n);
        libxl_device_nic_list_free(nics, nics_n);
    }
    Devices(const Devices&) = delete;
    Devices& operator=(const Devices&) = delete;

    libxl_device_disk* disks = nullptr;
    int disks_n = 0;
    libxl_device_nic* nics = nullptr;
    int nics_n = 0;
    std::vector<std::unique_ptr<Operation>> operations;
    int under_way = 0;
};

Sealing::Sealing(Tools& tools, Request request, xenpack_done done, void* arg)
    : Job{request.uuid, std::move(request.name)},
      tools_{tools},
      operation_{tools.xl, tools.later},
      timeout_{tools.watcher,
               [this] {
                   timed_out_ = true;
                   operation_.abort();
               }},
      late_{tools.watcher, [this] { run_on(late_error_); }},
      domid_{request.domid},
      timeout_ms_{request.timeout_ms},
      missing_{std::move(request.missing)},
      done_{done},
      arg_{arg} {}

Sealing::~Sealing() {
    if (end_watch_ != nullptr) {
        tools_.xl.ignore_end(end_watch_);
    }
}

template <class Step>
void Sealing::step(Step&& run) {
    Expected<void> done;
    try {
        done = cancelled_ && !irrevocable_ ? fail_with(ECANCELED, "{}", kCancelled)
                                           : std::forward<Step>(run)();
    } catch (const std::bad_alloc&) {
        done = fail_with(ENOMEM, "no memory to seal domain {}", domid_);
    }
    if (!done) {
        undo(done.error());
    }
}

// ---- before it is suspended ---------------------------------------------------------------------

void Sealing::begin() {
    step([this] { return look(); });
}

Expected<void> Sealing::look() {
    const auto facts = tools_.xen.domain(domid_, uuid_.data());
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    const auto state = read_node(tools_.watcher, node(kTemplateNode));
    const auto name = read_node(tools_.watcher, node("name"));
    if (!state || !name) {
        return tl::unexpected(state ? name.error() : state.error());
    }
    old_name_ = *name;
    if (*state == "sealed") {
        return fail_with(EINVAL, "domain {} is a template already", domid_);
    }
    if (*state != "sealing") {
        name_ = name_.empty() ? old_name_ : name_;
        return check(*facts).map([&] { read_config(); });
    }
    announced_ = true;
    return look_at_broken_off(*facts);
}

// As a daemon that has died has left it. With its record it has passed hold(); a paused domain that
// is no longer shut down has been reset.
Expected<void> Sealing::look_at_broken_off(const DomainFacts& facts) {
    const auto wanted = read_node(tools_.watcher, node(kTemplateNameNode));
    const auto record = read_userdata(tools_.xl, domid_, kTemplateRecord);
    if (!wanted || !record) {
        return tl::unexpected(wanted ? record.error() : wanted.error());
    }
    name_ = wanted->empty() ? old_name_ : *wanted;
    recorded_ = record->has_value();
    if (recorded_ && !config_.parse(tools_.xl.get(), (*record)->c_str())) {
        return fail_with(EIO, "libxl cannot parse what was recorded of domain {}", domid_);
    }
    held_ = has(facts.domain, XENPACK_DOMAIN_IS_PAUSED);
    if (has_suspended(facts.domain)) {
        if (!recorded_) {
            read_config();
            return {};
        }
        return hold().and_then([&] { return rename(); }).map([&] { take_devices(); });
    }
    if (recorded_ && held_ && !has(facts.domain, XENPACK_DOMAIN_IS_SHUTDOWN)) {
        irrevocable_ = true;
        return finish(false);
    }
    return fail_with(EAGAIN, "the sealing of domain {} was broken off before it had suspended",
                     domid_);
}

Expected<void> Sealing::check(const DomainFacts& facts) {
    const xenpack_domain& domain = facts.domain;
    if (has(domain, XENPACK_DOMAIN_IS_DYING)) {
        return fail_with(ESRCH, "domain {} is gone: Xen is taking its memory back", domid_);
    }
    if (!missing_.empty()) {
        return fail_with(ENOTSUP, "no templates on this host: {}", fmt::join(missing_, "; "));
    }
    if (!has(domain, XENPACK_DOMAIN_IS_HVM)) {
        return fail_with(ENOTSUP,
                         "domain {} cannot be a template: it is not PVH. Create it with "
                         "type=\"pvh\"",
                         domid_);
    }
    if (has(domain, XENPACK_DOMAIN_IS_SHUTDOWN) || has(domain, XENPACK_DOMAIN_IS_PAUSED)) {
        return fail_with(EINVAL, "domain {} is {}, so it cannot suspend: it must run", domid_,
                         has(domain, XENPACK_DOMAIN_IS_PAUSED) ? "paused" : "shut down");
    }
    const auto busy = tools_.helpers.works_on(domid_);
    if (!busy) {
        return tl::unexpected(busy.error());
    }
    if (*busy) {
        return fail_with(EBUSY, "domain {} is being saved, restored or migrated", domid_);
    }
    const auto open = tools_.xen.pod_pages(domid_);
    if (!open) {
        return tl::unexpected(open.error());
    }
    if (*open > 0) {
        return fail_with(ENOTSUP,
                         "domain {} cannot be a template: {} of its pages are populated on demand. "
                         "Create it with memory= equal to maxmem=",
                         domid_, *open);
    }
    const auto can = tools_.xen.has_drivers(domid_);
    if (!can) {
        return tl::unexpected(can.error());
    }
    if (!*can) {
        return fail_with(ENOTSUP,
                         "domain {} cannot be a template: its kernel has no drivers for Xen, or "
                         "has not started yet",
                         domid_);
    }
    return check_name(tools_, *this, domid_);
}

void Sealing::read_config() {
    operation_.begin(
        [this](libxl_ctx* ctx, const libxl_asyncop_how* how) {
            return libxl_retrieve_domain_configuration(ctx, domid_, &config_.get(), how);
        },
        [this](int rc) {
            step([&]() -> Expected<void> {
                if (rc != 0) {
                    return fail_with(EIO,
                                     "libxl cannot read the configuration of domain {} (its "
                                     "code is {})",
                                     domid_, rc);
                }
                return check_config();
            });
        });
}

Expected<void> Sealing::check_config() {
    auto ok = check_forkable(config_.get());
    if (ok && config_.get().num_disks > 0) {
        ok = check_script(tools_.scripts + "/block-xenpack", "disks");
    }
    if (ok && config_.get().num_nics > 0) {
        ok = check_script(tools_.scripts + "/vif-xenpack", "networks");
    }
    if (!ok) {
        return tl::unexpected(
            ok.error().during(fmt::format("domain {} cannot be a template", domid_)));
    }
    if (announced_) {  // one that was broken off, and has suspended
        return suspended(0);
    }
    return announce().and_then([&] { return suspend(); });
}

Expected<void> Sealing::announce() {
    const std::string state = node(kTemplateNode);
    const std::string name = node(kTemplateNameNode);
    const std::array<xenpack_store_node, 2> nodes{{
        {state.c_str(), "sealing", XENPACK_STORE_HOST_ONLY, domid_},
        {name.c_str(), name_.c_str(), XENPACK_STORE_AS_PARENT, domid_},
    }};
    const xenpack_watcher_ops& watcher = tools_.watcher;
    if (const int r = watcher.store_ops->make(watcher.store, nodes.data(), nodes.size()); r < 0) {
        return fail_with(-r, "cannot write {}: {}", state, std::strerror(-r));
    }
    announced_ = true;
    return {};
}

Expected<void> Sealing::suspend() {
    if (!timeout_.start(timeout_ms_ * 1000)) {
        return fail_with(ENOMEM, "no memory to wait for domain {}", domid_);
    }
    operation_.begin(
        [this](libxl_ctx* ctx, const libxl_asyncop_how* how) {
            return libxl_domain_suspend_only(ctx, domid_, how);
        },
        [this](int rc) {
            timeout_.stop();
            step([&] { return suspended(rc); });
        });
    return {};
}

Expected<void> Sealing::suspended(int rc) {
    const auto has_it = is_suspended();
    if (!has_it) {
        return tl::unexpected(has_it.error());
    }
    if (rc == 0 && *has_it) {
        fault_point("seal.suspended");
        return hold()
            .and_then([&] { return keep_record(); })
            .and_then([&] { return rename(); })
            .map([&] { take_devices(); });
    }
    // 0 here is libxl's way to say that the guest has not taken up its request in a minute.
    withdrawn_ = rc == 0;
    if (timed_out_ || rc == 0 || rc == ERROR_TIMEDOUT || rc == ERROR_GUEST_TIMEDOUT) {
        return fail_with(ETIMEDOUT, "domain {} has not suspended in {} ms", domid_, timeout_ms_);
    }
    return fail_with(EIO,
                     "libxl cannot suspend domain {} (its code is {}; the line before says "
                     "why)",
                     domid_, rc);
}

// ---- suspended ----------------------------------------------------------------------------------

// For good: nothing of this plugin unpauses a template.
Expected<void> Sealing::hold() {
    if (!held_) {
        if (auto ok = tools_.xen.pause(domid_); !ok) {
            return ok;
        }
        held_ = true;
    }
    fault_point("seal.paused");
    return {};
}

Expected<void> Sealing::keep_record() {
    const std::unique_ptr<char, decltype(&std::free)> json(
        libxl_domain_config_to_json(tools_.xl.get(), &config_.get()), &std::free);
    if (!json) {
        return fail_with(EIO, "libxl cannot write down the configuration of domain {}", domid_);
    }
    if (auto ok = write_userdata(tools_.xl, domid_, kTemplateRecord, json.get()); !ok) {
        return ok;
    }
    recorded_ = true;
    fault_point("seal.recorded");
    return {};
}

Expected<void> Sealing::rename() {
    if (name_ != old_name_) {
        if (auto ok = check_name(tools_, *this, domid_); !ok) {
            return ok;
        }
        const int rc =
            libxl_domain_rename(tools_.xl.get(), domid_, old_name_.c_str(), name_.c_str());
        if (rc != 0) {
            return fail_with(EIO, "libxl cannot rename domain {} to {} (its code is {})", domid_,
                             name_, rc);
        }
        renamed_ = true;
    }
    fault_point("seal.renamed");
    return {};
}

// Their backends hold pages of the domain, which could not be shared; and its disks must be
// nobody's to write to. It is suspended: it cannot take part in this.
void Sealing::take_devices() {
    irrevocable_ = true;
    devices_ = std::make_unique<Devices>(tools_, domid_);
    devices_->under_way = 1;  // until all have begun
    const auto begin = [this](const Operation::Start& start) {
        devices_->operations.push_back(std::make_unique<Operation>(tools_.xl, tools_.later));
        ++devices_->under_way;
        devices_->operations.back()->begin(start, [this](int rc) { device_taken(rc); });
    };
    for (int i = 0; i < devices_->disks_n; ++i) {
        begin([this, disk = &devices_->disks[i]](libxl_ctx* ctx, const libxl_asyncop_how* how) {
            return libxl_device_disk_destroy(ctx, domid_, disk, how);
        });
    }
    for (int i = 0; i < devices_->nics_n; ++i) {
        begin([this, nic = &devices_->nics[i]](libxl_ctx* ctx, const libxl_asyncop_how* how) {
            return libxl_device_nic_destroy(ctx, domid_, nic, how);
        });
    }
    tools_.later.add([this] { device_taken(0); });
}

// What a hotplug script has failed to clean up does not keep the domain from being a template.
void Sealing::device_taken(int rc) {
    if (rc != 0) {
        warn(fmt::format("libxl cannot take away all of a device of domain {} (its code is {})",
                         domid_, rc));
    }
    if (--devices_->under_way == 0) {
        fault_point("seal.devices");
        step([this] { return finish(true); });
    }
}

// Where that fails forks cost more than they need to, and that is all.
void Sealing::shrink() {
    const auto facts = tools_.xen.domain(domid_, uuid_.data());
    const auto ok = facts.and_then([&](const DomainFacts& has) {
        return tools_.xen.shrink_paging_pool(domid_,
                                             paging_pool_kib(has.domain.limit_kib, has.vcpus));
    });
    if (!ok) {
        warn(ok.error().what);
    }
}

// Against an admin's `xl unpause`, which ends one pause and lets a template with one run on, over
// the memory that its forks begin with.
void Sealing::hold_for_good() {
    for (int more = 1; more < kTemplatePauses; ++more) {
        if (auto ok = tools_.xen.pause(domid_); !ok) {
            warn(ok.error().what);
            return;
        }
    }
}

Expected<void> Sealing::finish(bool reset) {
    if (reset) {
        if (auto ok = tools_.xen.soft_reset(domid_); !ok) {
            return ok;
        }
        fault_point("seal.reset");
    }
    hold_for_good();
    shrink();
    return tools_.xen.domain(domid_, uuid_.data())
        .and_then([&](const DomainFacts& facts) { return mark_sealed(facts.domain.cpu_time_ns); })
        .map([&] {
            remove_node(kTemplateNameNode);
            answer(0, "");
        });
}

// What nobody must write to from now on, by the nodes that say so: no hotplug script gives it to a
// domain that would, and no fork is made over what has been written to all the same.
std::vector<std::pair<std::string, std::string>> Sealing::look_at_bases() {
    std::vector<std::pair<std::string, std::string>> bases;
    const libxl_domain_config& config = config_.get();
    for (int i = 0; i < config.num_disks; ++i) {
        const libxl_device_disk& disk = config.disks[i];
        const auto base = hotplug::look_at_base(disk.pdev_path);
        if (base) {
            bases.emplace_back(disk_node(domid_, vbd_number(disk.vdev).value_or(0)),
                               hotplug::to_text(*base));
        } else {
            warn(base.error().what);
        }
    }
    return bases;
}

Expected<void> Sealing::mark_sealed(std::uint64_t cpu_time_ns) {
    const std::string state = node(kTemplateNode);
    const std::string cpu = node(kSealedCpuNode);
    const std::string cpu_text = fmt::format("{}", cpu_time_ns);
    std::vector<xenpack_store_node> nodes{
        {state.c_str(), "sealed", XENPACK_STORE_HOST_ONLY, domid_},
        {cpu.c_str(), cpu_text.c_str(), XENPACK_STORE_HOST_ONLY, domid_},
    };
    const auto bases = look_at_bases();
    for (const auto& [path, base] : bases) {
        nodes.push_back({path.c_str(), base.c_str(), XENPACK_STORE_HOST_ONLY, domid_});
    }
    const xenpack_watcher_ops& watcher = tools_.watcher;
    if (const int r = watcher.store_ops->make(watcher.store, nodes.data(), nodes.size()); r < 0) {
        return fail_with(-r, "cannot write {}: {}", state, std::strerror(-r));
    }
    return {};
}

// ---- what fails ---------------------------------------------------------------------------------

void Sealing::undo(const Error& error) {
    undoing_ = true;
    if (irrevocable_) {
        answer(code_of(error),
               fmt::format("{}; it has lost its devices, and cannot run on: seal it again, or "
                           "destroy it",
                           error.what));
        return;
    }
    if (!announced_) {
        answer(code_of(error), error.what);
        return;
    }
    if (renamed_ &&
        libxl_domain_rename(tools_.xl.get(), domid_, name_.c_str(), old_name_.c_str()) != 0) {
        warn(fmt::format("domain {} keeps the name {}: libxl cannot rename it to {}", domid_, name_,
                         old_name_));
    }
    if (recorded_) {
        if (auto ok = remove_userdata(tools_.xl, domid_, kTemplateRecord); !ok) {
            warn(ok.error().what);
        }
    }
    settle(error);
}

// Whatever has come of the request to suspend, in the end the domain runs.
void Sealing::settle(const Error& error) {
    const auto has_it = is_suspended();
    if (has_it && *has_it) {
        operation_.begin(
            [this](libxl_ctx* ctx, const libxl_asyncop_how* how) {
                return libxl_domain_resume(ctx, domid_, 1, how);
            },
            [this, error](int rc) {
                if (rc != 0) {
                    warn(fmt::format("libxl cannot resume domain {} (its code is {})", domid_, rc));
                }
                run_on(error);
            });
        return;
    }
    if (!has_it || withdrawn_) {
        run_on(error);
        return;
    }
    withdraw(error);
}

// A request that nobody has taken up is taken back. One that has been taken up can still be
// followed until the guest has given up.
void Sealing::withdraw(const Error& error) {
    const std::string request = node(kShutdownNode);
    const xenpack_store_write nothing{request.c_str(), ""};
    const xenpack_watcher_ops& watcher = tools_.watcher;
    const int r =
        watcher.store_ops->write_guarded(watcher.store, request.c_str(), "suspend", &nothing, 1);
    if (r != -ESRCH) {
        if (r < 0) {
            warn(fmt::format("cannot take back the request to suspend of domain {}: {}", domid_,
                             std::strerror(-r)));
        }
        run_on(error);
        return;
    }
    late_error_ = error;
    end_watch_ = tools_.xl.watch_end(domid_);
    if (cancelled_ || end_watch_ == nullptr || !late_.start(kLateUs)) {
        warn(
            fmt::format("domain {} has been asked to suspend and may do so yet: nobody would "
                        "wake it",
                        domid_));
        run_on(error);
    }
}

void Sealing::host_changed() {
    if (!late_.is_running()) {
        return;
    }
    const auto has_it = is_suspended();
    if (!has_it || *has_it) {
        late_.stop();
        settle(late_error_);
    }
}

void Sealing::run_on(const Error& error) {
    if (held_) {
        if (auto ok = tools_.xen.unpause(domid_); !ok) {
            warn(ok.error().what);
        }
    }
    remove_node(kTemplateNode);
    answer(code_of(error), error.what);
}

void Sealing::cancel() {
    cancelled_ = true;
    timeout_.stop();
    if (late_.is_running()) {
        late_.stop();
        run_on({kCancelled, ECANCELED});
        return;
    }
    if (!irrevocable_ && !undoing_) {
        operation_.abort();
    }
}

void Sealing::abandon() noexcept {
    done_(arg_, -ECANCELED, kCancelled);
}

void Sealing::answer(int result, const std::string& why) {
    const std::unique_ptr<Job> self = tools_.jobs.take(*this);
    done_(arg_, result, why.c_str());
}

Expected<bool> Sealing::is_suspended() {
    return tools_.xen.domain(domid_, uuid_.data()).map([](const DomainFacts& facts) {
        return has_suspended(facts.domain);
    });
}

std::string Sealing::node(const char* below) const {
    return domain_node(domid_, below);
}

void Sealing::remove_node(const char* below) {
    const std::string path = node(below);
    const int r = tools_.watcher.store_ops->remove(tools_.watcher.store, path.c_str());
    if (r < 0) {
        warn(fmt::format("cannot remove {}: {}", path, std::strerror(-r)));
    }
}

void Sealing::warn(const std::string& what) noexcept {
    tools_.watcher.log(tools_.watcher.user, XENPACK_LOG_WARNING, what.c_str());
}

}  // namespace xenpack
