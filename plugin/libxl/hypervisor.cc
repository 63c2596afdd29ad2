// SPDX-License-Identifier: LGPL-2.1-or-later
// libxc's structures turned into the interface's, and its failures into sentences. Called from the
// loop's thread only. It must not touch libxl or the store.
#include "plugin/libxl/hypervisor.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace xenpack {
namespace {

// One round trip lists this many domains. A larger host takes more of them.
constexpr unsigned kListBatch = 256;

tl::unexpected<Error> gone(std::uint32_t domid, const std::uint8_t uuid[16]) {
    return fail_with(ESRCH, "domain {} with uuid {} is not there (any more)", domid,
                     uuid_text(uuid));
}

std::uint32_t flags_of(const xc_domaininfo_t& info) noexcept {
    std::uint32_t flags = 0;
    const auto add_if = [&](bool is_so, xenpack_domain_flags flag) {
        if (is_so) {
            flags |= std::uint32_t{flag};
        }
    };
    add_if((info.flags & XEN_DOMINF_paused) != 0, XENPACK_DOMAIN_IS_PAUSED);
    add_if((info.flags & XEN_DOMINF_shutdown) != 0, XENPACK_DOMAIN_IS_SHUTDOWN);
    add_if((info.flags & XEN_DOMINF_dying) != 0, XENPACK_DOMAIN_IS_DYING);
    add_if((info.flags & XEN_DOMINF_hvm_guest) != 0, XENPACK_DOMAIN_IS_HVM);
    // Who builds a domain holds it paused. Let go it is built, though its vcpu may have to wait.
    add_if(info.cpu_time == 0 && (info.flags & XEN_DOMINF_paused) != 0, XENPACK_DOMAIN_NEVER_RAN);
    return flags;
}

xenpack_domain to_domain(const xc_domaininfo_t& info) noexcept {
    xenpack_domain domain{};
    domain.domid = info.domain;
    std::copy_n(info.handle, sizeof domain.uuid, domain.uuid);
    domain.flags = flags_of(info);
    domain.shutdown_reason = -1;
    if ((info.flags & XEN_DOMINF_shutdown) != 0) {
        domain.shutdown_reason =
            static_cast<int>((info.flags >> XEN_DOMINF_shutdownshift) & XEN_DOMINF_shutdownmask);
    }
    domain.current_kib = info.tot_pages * kPageKib;
    domain.limit_kib = info.max_pages * kPageKib;
    domain.shared_kib = info.shr_pages * kPageKib;
    domain.claimed_kib = info.outstanding_pages * kPageKib;
    domain.cpu_time_ns = info.cpu_time;
    domain.vcpus_online = info.nr_online_vcpus;
    return domain;
}

bool may_have_videoram(const xc_domaininfo_t& info) noexcept {
#if defined(__i386__) || defined(__x86_64__)
    return (info.arch_config.emulation_flags & XEN_X86_EMU_VGA) != 0;
#else
    static_cast<void>(info);
    return true;
#endif
}

}  // namespace

tl::unexpected<Error> hypercall_failure(const std::string& what, int code) {
    // A hypervisor answers EACCES to a control call of another interface version.
    if (code == EACCES) {
        return fail_with(code,
                         "{}: Xen refused the call; either its version is not {} or this process "
                         "may not control it",
                         what, XENPACK_XEN_VERSION);
    }
    return fail_with(code, "{}: {}", what, std::strerror(code));
}

DomainUuid copy_uuid(const std::uint8_t uuid[16]) {
    DomainUuid copy{};
    std::copy_n(uuid, copy.size(), copy.begin());
    return copy;
}

std::string uuid_text(const std::uint8_t uuid[16]) {
    std::string text;
    for (int i = 0; i < 16; ++i) {
        text += fmt::format("{:02x}{}", uuid[i], i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
    }
    return text;
}

Expected<Hypervisor> Hypervisor::open(xentoollog_logger* logger) {
    xc_interface* xc = xc_interface_open(logger, logger, 0);
    if (xc == nullptr) {
        const int code = geteuid() != 0 ? EPERM : ENODEV;
        return fail_with(code, "cannot reach the hypervisor: {}",
                         code == EPERM ? "run xenpackd as root"
                                       : "is this dom0, with the xen-privcmd module loaded?");
    }
    return Hypervisor(xc);
}

Expected<xenpack_host> Hypervisor::host() {
    xc_physinfo_t info{};
    if (xc_physinfo(xc_.get(), &info) != 0) {
        return hypercall_failure("cannot ask Xen how much memory the host has", errno);
    }
    // Xen counts claimed pages among the free ones, and pages on its scrub list in neither.
    // Claims are checked against what is free only when made, so they can exceed it later.
    const std::uint64_t claimed = std::min(info.outstanding_pages, info.free_pages);
    xenpack_host host{};
    host.total_kib = info.total_pages * kPageKib;
    host.free_kib = (info.free_pages - claimed) * kPageKib;
    host.scrub_kib = info.scrub_pages * kPageKib;
    host.claimed_kib = info.outstanding_pages * kPageKib;
    host.nodes = info.nr_nodes;
    host.cpus = info.nr_cpus;
    return host;
}

Expected<std::vector<xenpack_domain>> Hypervisor::list() {
    std::vector<xenpack_domain> domains;
    std::vector<xc_domaininfo_t> batch(kListBatch);
    std::uint32_t next = 0;
    for (;;) {
        const int n = xc_domain_getinfolist(xc_.get(), next, kListBatch, batch.data());
        if (n < 0) {
            return hypercall_failure("cannot list the domains", errno);
        }
        for (int i = 0; i < n; ++i) {
            domains.push_back(to_domain(batch[static_cast<std::size_t>(i)]));
        }
        if (static_cast<unsigned>(n) < kListBatch) {
            return domains;
        }
        next = domains.back().domid + 1;
    }
}

Expected<DomainFacts> Hypervisor::domain(std::uint32_t domid, const std::uint8_t uuid[16]) {
    xc_domaininfo_t info{};
    const int n = xc_domain_getinfolist(xc_.get(), domid, 1, &info);
    if (n < 0) {
        return hypercall_failure(fmt::format("cannot ask Xen about domain {}", domid), errno);
    }
    // The call answers with the first domain that is not below domid.
    if (n == 0 || info.domain != domid || std::memcmp(info.handle, uuid, 16) != 0) {
        return gone(domid, uuid);
    }
    return DomainFacts{to_domain(info), may_have_videoram(info), info.max_vcpu_id + 1};
}

Expected<void> Hypervisor::set_limit(std::uint32_t domid, std::uint64_t limit_kib) {
    if (xc_domain_setmaxmem(xc_.get(), domid, limit_kib) != 0) {
        return hypercall_failure(
            fmt::format("cannot limit domain {} to {} KiB in Xen", domid, limit_kib), errno);
    }
    return {};
}

Expected<void> Hypervisor::set_pod_target(std::uint32_t domid, std::uint64_t pages) {
    if (xc_domain_set_pod_target(xc_.get(), domid, pages, nullptr, nullptr, nullptr) != 0) {
        return hypercall_failure(
            fmt::format("cannot set the populate-on-demand target of domain {} to {} "
                        "pages in Xen",
                        domid, pages),
            errno);
    }
    return {};
}

Expected<std::uint64_t> Hypervisor::pod_pages(std::uint32_t domid) {
    std::uint64_t held = 0;
    std::uint64_t cached = 0;
    std::uint64_t open = 0;
    if (xc_domain_get_pod_target(xc_.get(), domid, &held, &cached, &open) != 0) {
        return hypercall_failure(
            fmt::format("cannot ask Xen which pages of domain {} are populated", domid), errno);
    }
    return open;
}

Expected<bool> Hypervisor::has_drivers(std::uint32_t domid) {
    std::uint64_t interrupt = 0;
    if (xc_hvm_param_get(xc_.get(), domid, HVM_PARAM_CALLBACK_IRQ, &interrupt) != 0) {
        return hypercall_failure(
            fmt::format("cannot ask Xen whether domain {} has Xen's drivers", domid), errno);
    }
    return interrupt != 0;
}

Expected<void> Hypervisor::pause(std::uint32_t domid) {
    if (xc_domain_pause(xc_.get(), domid) != 0) {
        return hypercall_failure(fmt::format("cannot pause domain {}", domid), errno);
    }
    return {};
}

Expected<void> Hypervisor::unpause(std::uint32_t domid) {
    if (xc_domain_unpause(xc_.get(), domid) != 0) {
        return hypercall_failure(fmt::format("cannot unpause domain {}", domid), errno);
    }
    return {};
}

Expected<void> Hypervisor::soft_reset(std::uint32_t domid) {
    if (xc_domain_soft_reset(xc_.get(), domid) != 0) {
        return hypercall_failure(fmt::format("cannot reset domain {}", domid), errno);
    }
    return {};
}

Expected<void> Hypervisor::shrink_paging_pool(std::uint32_t domid, std::uint64_t kib) {
    std::uint64_t now = 0;
    int r = xc_get_paging_mempool_size(xc_.get(), domid, &now);
    if (r == 0 && now > kib * 1024) {
        r = xc_set_paging_mempool_size(xc_.get(), domid, kib * 1024);
    }
    if (r != 0) {
        // Xen says ENOMEM where it cannot take back what is in use (hap_set_allocation).
        return hypercall_failure(
            fmt::format("cannot make the paging pool of domain {} smaller", domid),
            errno == ENOMEM ? EBUSY : errno);
    }
    return {};
}

Expected<void> Hypervisor::destroy(std::uint32_t domid) {
    if (xc_domain_destroy(xc_.get(), domid) != 0) {
        return hypercall_failure(fmt::format("cannot destroy domain {}", domid), errno);
    }
    return {};
}

}  // namespace xenpack
