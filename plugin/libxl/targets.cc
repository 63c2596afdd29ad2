// SPDX-License-Identifier: LGPL-2.1-or-later
// The steps of libxl_set_memory_target (tools/libs/light/libxl_mem.c) without its lock and without
// parsing the domain's stored configuration, and that function itself. Called by the toolstack
// table. Every step that fails undoes the earlier ones.
#include "plugin/libxl/targets.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

namespace xenpack {
namespace {

// The store holds decimal numbers of at most 20 digits here.
constexpr std::size_t kNumberBytes = 24;

constexpr std::uint64_t kMibInKib = 1024;

std::string memory_path(std::uint32_t domid, const char* node) {
    return fmt::format("/local/domain/{}/memory/{}", domid, node);
}

// A number the control domain wrote into the store. ENOENT where there is none.
Expected<std::uint64_t> read_number(const xenpack_watcher_ops& watcher, const std::string& path) {
    std::array<char, kNumberBytes> text{};
    const int length =
        watcher.store_ops->read(watcher.store, path.c_str(), text.data(), text.size());
    if (length < 0) {
        return fail_with(-length, "cannot read {}: {}", path, std::strerror(-length));
    }
    std::uint64_t number = 0;
    const char* last = text.data() + length;
    const auto parsed = std::from_chars(text.data(), last, number);
    if (parsed.ec != std::errc() || parsed.ptr != last) {
        return fail_with(EINVAL, "{} is \"{}\", which is not a number", path, text.data());
    }
    return number;
}

// libxl says little with its codes; which domain and what for is known here.
int errno_of(int rc) noexcept {
    switch (rc) {
        case ERROR_INVAL:
            return EINVAL;
        case ERROR_NOMEM:
            return ENOMEM;
        case ERROR_DOMAIN_NOTFOUND:
            return ESRCH;
        case ERROR_JSON_CONFIG_EMPTY:
            return ENODATA;
        case ERROR_LOCK_FAIL:
            return ENOLCK;
        default:
            return EIO;
    }
}

}  // namespace

Expected<DomainFacts> Targets::settable(const DomainId& id, const char* what) {
    auto facts = xen_.domain(id.domid, id.uuid);
    if (!facts) {
        return facts;
    }
    if ((facts->domain.flags & XENPACK_DOMAIN_IS_DYING) != 0) {
        return fail_with(ESRCH, "domain {} is gone: Xen is taking its memory back", id.domid);
    }
    if ((facts->domain.flags & XENPACK_DOMAIN_IS_SHUTDOWN) != 0) {
        return fail_with(EBUSY, "{} of domain {} is left alone: it has shut down (reason {})", what,
                         id.domid, facts->domain.shutdown_reason);
    }
    const auto busy = helpers_.works_on(id.domid);
    if (!busy) {
        return tl::unexpected(busy.error());
    }
    if (*busy) {
        return fail_with(EBUSY,
                         "{} of domain {} is left alone: it is being saved, restored or migrated",
                         what, id.domid);
    }
    return facts;
}

// The rest of a domain's memory, the videoram, is not the balloon's. Only an emulated VGA has any:
// for a PV or PVH domain libxl records 0, and no read is spent on it.
Expected<std::uint64_t> Targets::videoram_kib(const DomainFacts& facts) {
    if (!facts.may_have_videoram) {
        return std::uint64_t{0};
    }
    auto videoram = read_number(watcher_, memory_path(facts.domain.domid, "videoram"));
    if (!videoram && videoram.error().code == ENOENT) {
        return std::uint64_t{0};
    }
    return videoram;
}

Expected<Targets::Plan> Targets::plan(const TargetRequest& request) {
    if (request.target_kib > request.static_max_kib) {
        return fail_with(ERANGE,
                         "the target of domain {}, {} KiB, is over its memory/static-max, {} KiB",
                         request.id.domid, request.target_kib, request.static_max_kib);
    }
    const auto facts = settable(request.id, "the memory target");
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    const auto videoram = videoram_kib(*facts);
    if (!videoram) {
        return tl::unexpected(videoram.error());
    }
    if (request.target_kib <= *videoram) {
        return fail_with(ERANGE,
                         "the target of domain {}, {} KiB, leaves nothing beside its videoram, "
                         "{} KiB",
                         request.id.domid, request.target_kib, *videoram);
    }
    Plan plan{facts->domain, *videoram, request.target_kib + kLibxlExtraKib, true};
    plan.sets_limit = !request.keep_limit || plan.limit_kib > plan.before.limit_kib;
    return plan;
}

Expected<void> Targets::set_short(const TargetRequest& request) {
    // libxl keeps no /local/domain/0/vm, so there is nothing to guard the transaction with.
    if (request.id.domid == 0) {
        return fail_with(EINVAL,
                         "the control domain's target cannot be set the short way: use libxl's");
    }
    const auto made = plan(request);
    if (!made) {
        return tl::unexpected(made.error());
    }
    if (made->sets_limit) {
        if (auto ok = xen_.set_limit(request.id.domid, made->limit_kib); !ok) {
            return ok;
        }
    }
    const bool has_pod = (made->before.flags & XENPACK_DOMAIN_IS_HVM) != 0;
    if (has_pod) {
        const std::uint64_t kib = request.target_kib - made->videoram_kib + kLibxlExtraKib;
        if (auto ok = xen_.set_pod_target(request.id.domid, kib / kPageKib); !ok) {
            undo_limit(*made);
            return ok;
        }
    }
    auto published = publish(request, *made);
    if (!published) {
        if (has_pod) {
            undo_pod_target(*made);
        }
        undo_limit(*made);
    }
    return published;
}

// The guard is the node that libxl writes when it makes a domain, naming its uuid: where the domid
// has passed to another domain, or to none, nothing is written.
Expected<void> Targets::publish(const TargetRequest& request, const Plan& plan) {
    const std::uint64_t target_kib = request.target_kib - plan.videoram_kib;
    const std::string vm = "/vm/" + uuid_text(request.id.uuid);
    const std::string guard = fmt::format("/local/domain/{}/vm", request.id.domid);
    const std::string target_path = memory_path(request.id.domid, "target");
    const std::string target = fmt::format("{}", target_kib);
    const std::string vm_memory_path = vm + "/memory";
    const std::string vm_memory = fmt::format("{}", target_kib / kMibInKib);
    const std::array<xenpack_store_write, 2> writes{{
        {target_path.c_str(), target.c_str()},
        {vm_memory_path.c_str(), vm_memory.c_str()},
    }};
    const int r = watcher_.store_ops->write_guarded(watcher_.store, guard.c_str(), vm.c_str(),
                                                    writes.data(), writes.size());
    if (r == -ESRCH) {
        return fail_with(ESRCH, "domain {} is gone from the store: {} does not hold {}",
                         request.id.domid, guard, vm);
    }
    if (r < 0) {
        // The store's EBUSY (others kept changing it) is not a domain that is being saved.
        return fail_with(r == -EBUSY ? EIO : -r, "cannot write {}: {}", target_path,
                         std::strerror(-r));
    }
    return {};
}

Expected<void> Targets::set_by_libxl(const TargetRequest& request) {
    const auto made = plan(request);
    if (!made) {
        return tl::unexpected(made.error());
    }
    const int rc = libxl_set_memory_target(xl_.get(), request.id.domid,
                                           static_cast<std::int64_t>(request.target_kib), 0,
                                           made->sets_limit ? 1 : 0);
    if (rc == 0) {
        return confirm(request, *made);
    }
    if (auto still = xen_.domain(request.id.domid, request.id.uuid); !still) {
        return tl::unexpected(still.error());
    }
    undo_limit(*made);  // libxl leaves the limit set where a later step fails
    return fail_with(errno_of(rc),
                     "libxl cannot set the target of domain {} to {} KiB (its code is {}; the "
                     "line before says why)",
                     request.id.domid, request.target_kib, rc);
}

// libxl returns success where its transaction fails for another reason than a conflict.
Expected<void> Targets::confirm(const TargetRequest& request, const Plan& plan) {
    const std::string path = memory_path(request.id.domid, "target");
    const auto found = read_number(watcher_, path);
    const std::uint64_t wanted_kib = request.target_kib - plan.videoram_kib;
    if (found && *found == wanted_kib) {
        return {};
    }
    undo_limit(plan);
    return found ? fail_with(EIO, "libxl set {} to {} but it holds {}: another program sets it too",
                             path, wanted_kib, *found)
                 : tl::unexpected(found.error());
}

Expected<void> Targets::set_limit(const DomainId& id, std::uint64_t limit_kib) {
    if (const auto facts = settable(id, "the limit"); !facts) {
        return tl::unexpected(facts.error());
    }
    return xen_.set_limit(id.domid, limit_kib + kLibxlExtraKib);
}

void Targets::undo_limit(const Plan& plan) noexcept {
    if (!plan.sets_limit) {
        return;
    }
    if (auto ok = xen_.set_limit(plan.before.domid, plan.before.limit_kib); !ok) {
        warn(ok.error());
    }
}

// What the domain held is the target that asks for no more. Pages Xen has already added to its
// populate-on-demand cache stay with the domain until its balloon driver returns them.
void Targets::undo_pod_target(const Plan& plan) noexcept {
    if (auto ok = xen_.set_pod_target(plan.before.domid, plan.before.current_kib / kPageKib); !ok) {
        warn(ok.error());
    }
}

// A domain that has gone meanwhile has nothing to undo.
void Targets::warn(const Error& error) noexcept {
    if (error.code != ESRCH) {
        watcher_.log(watcher_.user, XENPACK_LOG_WARNING, error.what.c_str());
    }
}

}  // namespace xenpack
