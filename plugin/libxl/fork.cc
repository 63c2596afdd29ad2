// SPDX-License-Identifier: LGPL-2.1-or-later
// The steps in their order. Xen's fork comes first of those that fill the domain: it overwrites
// what was set before. The domain runs as soon as there is all that it reads: what its backends and
// other toolstacks want takes longer, and its disks and networks wait for that as for any backend.
// Each step that changes the host ends in a fault point.
#include "plugin/libxl/fork.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "plugin/libxl/userdata.h"
#include "watcher/fault_point.h"

namespace xenpack {
namespace {

constexpr char kDestroyed[] = "it was destroyed while it was being made";
constexpr char kCancelled[] = "the toolstack was closed while it was being made";

// What libxl keeps of a fork: its template's configuration under its own name and uuid, with its
// own devices.
Expected<std::string> record_of(XlContext& xl, Template& of, std::string name,
                                const DomainUuid& uuid, ForkDevices& devices) {
    libxl_domain_config copy = of.config.get();  // shares all that it points to
    copy.c_info.name = name.data();
    std::copy(uuid.begin(), uuid.end(), copy.c_info.uuid.uuid);
    devices.put_into(copy);
    const std::unique_ptr<char, decltype(&std::free)> json(
        libxl_domain_config_to_json(xl.get(), &copy), &std::free);
    if (!json) {
        return fail_with(EIO, "libxl cannot write down the configuration of {}", name);
    }
    return std::string(json.get());
}

std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace

Forking::Forking(Tools& tools, const xenpack_fork_request& request, xenpack_fork_done done,
                 void* arg)
    : Job{copy_uuid(request.uuid), request.name},
      tools_{tools},
      domains_{tools.xen},
      destruction_{tools},
      template_domid_{request.template_domid},
      template_uuid_{copy_uuid(request.template_uuid)},
      paused_{request.paused != 0},
      done_{done},
      arg_{arg} {
    for (std::size_t i = 0; i < request.identity_n; ++i) {
        identity_.emplace_back(request.identity[i].path, request.identity[i].value);
    }
}

std::uint32_t Forking::lap_us() {
    const auto now = Clock::now();
    const auto lap = std::chrono::duration_cast<std::chrono::microseconds>(now - lap_at_);
    lap_at_ = now;
    return static_cast<std::uint32_t>(lap.count());
}

void Forking::begin() {
    Expected<void> made = fail_with(ECANCELED, "{}", kCancelled);
    if (!cancelled_) {
        try {
            made = make();
        } catch (const std::bad_alloc&) {
            made = fail_with(ENOMEM, "no memory to fork {}", name_);
        }
    }
    if (!made) {
        undo(made.error());
        return;
    }
    // The loop has room for others in between, which run the sooner.
    tools_.later.add([this] { finish(); });
}

// It runs, or could.
void Forking::finish() {
    Expected<void> known = fail_with(ECANCELED, "{}", kCancelled);
    if (!cancelled_) {
        known = write_nodes(parts_.rest, "fork.known").and_then([&] { return record(); });
    }
    if (!known) {
        undo(known.error());
        return;
    }
    std::vector<hotplug::Device> devices = devices_.to_attach(result_.domid, of_->bases);
    if (devices.empty()) {
        devices_ended({});
        return;
    }
    has_devices_ = true;
    tools_.devices.attach(std::move(devices),
                          [this](const Expected<void>& result) { devices_ended(result); });
}

Expected<void> Forking::make() {
    auto found = tools_.templates.find(template_domid_, template_uuid_.data());
    if (!found) {
        return tl::unexpected(found.error());
    }
    of_ = std::move(*found);
    devices_ = ForkDevices(tools_.xl, of_->config.get(), uuid_.data());
    if (auto ok = check_name(tools_, *this); !ok) {
        return ok;
    }
    lap_us();
    return create()
        .and_then([&] { return fork_memory(); })
        .and_then([&] { return write_store(); })
        .and_then([&] { return introduce(); })
        .and_then([&] { return run(); });
}

Expected<void> Forking::create() {
    const auto domid = domains_.create(of_->creation, uuid_.data());
    if (!domid) {
        return tl::unexpected(domid.error());
    }
    result_.domid = *domid;
    is_made_ = true;
    result_.create_us = lap_us();
    fault_point("fork.created");
    return {};
}

Expected<void> Forking::fork_memory() {
    if (auto ok = domains_.fork(template_domid_, result_.domid); !ok) {
        return ok;
    }
    fault_point("fork.memory");
    const auto ports = domains_.connect(result_.domid, of_->pages, of_->servers);
    if (!ports) {
        return tl::unexpected(ports.error());
    }
    ports_ = *ports;
    if (auto ok = domains_.place(result_.domid, of_->placement); !ok) {
        return ok;
    }
    if (of_->scheduling) {
        const int rc =
            libxl_domain_sched_params_set(tools_.xl.get(), result_.domid, &*of_->scheduling);
        if (rc != 0) {
            return fail_with(EIO,
                             "libxl cannot give domain {} its template's weight (its code is "
                             "{})",
                             result_.domid, rc);
        }
    }
    fault_point("fork.params");
    if (auto ok = tools_.rings.serve(result_.domid, uuid_.data()); !ok) {
        return ok;
    }
    result_.memory_us = lap_us();
    fault_point("fork.ring");
    return {};
}

Expected<void> Forking::write_store() {
    ForkTree tree = of_->tree;
    tree.domid = result_.domid;
    tree.uuid = uuid_text(uuid_.data());
    tree.name = name_;
    tree.store_port = ports_.store;
    tree.console_port = ports_.console;
    tree.start_time_ms = now_ms();
    tree.identity = identity_;
    parts_ = fork_nodes(tree);
    devices_.add_nodes(parts_, result_.domid, tools_.scripts);
    return write_nodes(parts_.first, "fork.store");
}

// Both parts end in a fault point of their own.
Expected<void> Forking::write_nodes(const std::vector<StoreNode>& nodes, const char* point) {
    std::vector<xenpack_store_node> list;
    list.reserve(nodes.size());
    for (const StoreNode& node : nodes) {
        list.push_back({node.path.c_str(), node.value.c_str(), node.access, result_.domid});
    }
    const xenpack_watcher_ops& watcher = tools_.watcher;
    if (const int r = watcher.store_ops->make(watcher.store, list.data(), list.size()); r < 0) {
        return fail_with(-r, "cannot write the nodes of domain {}: {}", result_.domid,
                         std::strerror(-r));
    }
    fault_point(point);
    return {};
}

Expected<void> Forking::record() {
    const auto text = record_of(tools_.xl, *of_, name_, uuid_, devices_);
    if (!text) {
        return tl::unexpected(text.error());
    }
    if (auto ok = write_userdata(tools_.xl, result_.domid, kLibxlRecord, *text); !ok) {
        return ok;
    }
    fault_point("fork.recorded");
    return {};
}

Expected<void> Forking::introduce() {
    const xenpack_watcher_ops& watcher = tools_.watcher;
    const int r = watcher.store_ops->introduce(watcher.store, result_.domid, of_->pages.store_gfn,
                                               ports_.store);
    if (r < 0) {
        return fail_with(-r, "cannot introduce domain {} to xenstored: {}", result_.domid,
                         std::strerror(-r));
    }
    result_.store_us = lap_us();
    fault_point("fork.introduced");
    return {};
}

Expected<void> Forking::run() {
    if (!paused_) {
        if (auto ok = tools_.xen.unpause(result_.domid); !ok) {
            return ok;
        }
    }
    const auto whole =
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - asked_at_);
    result_.whole_us = static_cast<std::uint32_t>(whole.count());
    lap_us();
    fault_point("fork.unpaused");
    return {};
}

void Forking::devices_ended(const Expected<void>& result) {
    Expected<void> ended = result;
    if (cancelled_) {
        ended = fail_with(ECANCELED, "{}", kCancelled);
    }
    if (ended) {
        fault_point("fork.devices");
        ended = complete();
    }
    if (!ended) {
        undo(ended.error());
        return;
    }
    result_.device_us = lap_us();
    answer(0, "");
}

// Only of one that is there: others may have destroyed it meanwhile, and what was written since
// must go. libxl takes its nodes away first, others may not have come so far.
Expected<void> Forking::complete() {
    if (const auto there = tools_.xen.domain(result_.domid, uuid_.data()); !there) {
        return fail_with(there.error().code, "{}", kDestroyed);
    }
    const std::string guard = domain_node(result_.domid, "vm");
    const std::string vm = vm_node(uuid_text(uuid_.data()));
    const std::string path = domain_node(result_.domid, kForkStateNode);
    const xenpack_store_write write{path.c_str(), "complete"};
    const xenpack_watcher_ops& watcher = tools_.watcher;
    const int r =
        watcher.store_ops->write_guarded(watcher.store, guard.c_str(), vm.c_str(), &write, 1);
    if (r == -ESRCH) {
        return fail_with(ESRCH, "{}", kDestroyed);
    }
    if (r < 0) {
        return fail_with(-r, "cannot write {}: {}", path, std::strerror(-r));
    }
    fault_point("fork.complete");
    return {};
}

void Forking::undo(const Error& error) {
    if (!is_made_) {
        answer(code_of(error), error.what);
        return;
    }
    destruction_.begin(result_.domid, uuid_, [this, error](const Expected<void>& result) {
        if (!result && result.error().code == ESRCH) {
            sweep(error);
        } else if (result) {
            discard(error);
        } else {
            answer(code_of(error),
                   fmt::format("{}; and what was made of it cannot be taken away: {}", error.what,
                               result.error().what));
        }
    });
}

// Somebody else has destroyed it: what was made after that belongs to nobody.
void Forking::sweep(const Error& error) {
    if (const auto removed = remove_nodes(tools_, result_.domid, uuid_); !removed) {
        answer(code_of(error), fmt::format("{}; and {}", error.what, removed.error().what));
        return;
    }
    discard(error);
}

// Where somebody else took the nodes away no script has taken its devices away.
void Forking::discard(const Error& error) {
    std::vector<std::string> backends = devices_.backends(result_.domid);
    if (backends.empty() || !has_devices_) {
        answer(code_of(error), error.what);
        return;
    }
    tools_.devices.discard(
        uuid_text(uuid_.data()), std::move(backends),
        [this, error](const Expected<void>&) { answer(code_of(error), error.what); });
}

void Forking::cancel() {
    cancelled_ = true;
}

void Forking::abandon() noexcept {
    done_(arg_, -ECANCELED, kCancelled, nullptr);
}

void Forking::answer(int result, const std::string& why) {
    const std::unique_ptr<Job> self = tools_.jobs.take(*this);
    done_(arg_, result, why.c_str(), result == 0 ? &result_ : nullptr);
}

}  // namespace xenpack
