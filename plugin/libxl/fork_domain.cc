// SPDX-License-Identifier: LGPL-2.1-or-later
// The order and the arguments are those of libxl's for a PVH domain it restores
// (tools/libs/light/libxl_dom.c, libxl__build_pre; tools/libs/guest/xg_sr_restore_x86_hvm.c). No
// libxl and no store here.
#include "plugin/libxl/fork_domain.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xenpack {
namespace {

// Xen takes one lock for many control calls and gives some up, to be tried again, while another
// holds it (HVM_PARAM_IDENT_PT in xen/arch/x86/hvm/hvm.c); a call takes microseconds.
constexpr int kTries = 10000;

#ifndef ERESTART
#define ERESTART 85
#endif

template <class Call>
int retried(Call&& call) {
    for (int i = 1;; ++i) {
        const int r = call();
        const bool again = r < 0 && (errno == EINTR || errno == ERESTART || errno == EAGAIN);
        if (!again || i == kTries) {
            return r;
        }
        sched_yield();
    }
}

// Every bit there is a processor or a node for.
bool is_everywhere(const std::vector<std::uint8_t>& map, int count) {
    for (int i = 0; i < count; ++i) {
        if ((map[static_cast<std::size_t>(i) / 8] & (1U << (i % 8))) == 0) {
            return false;
        }
    }
    return true;
}

}  // namespace

Expected<std::uint32_t> ForkDomains::create(const xen_domctl_createdomain& like,
                                            const std::uint8_t uuid[16]) {
    xen_domctl_createdomain config = like;
    std::copy_n(uuid, sizeof config.handle, config.handle);
    std::uint32_t domid = 0;  // any
    if (retried([&] { return xc_domain_create(xc_, &domid, &config); }) != 0) {
        return hypercall_failure("cannot create a domain", errno);
    }
    return domid;
}

Expected<void> ForkDomains::fork(std::uint32_t template_domid, std::uint32_t domid) {
    if (xc_memshr_fork(xc_, template_domid, domid, false, false) != 0) {
        return hypercall_failure(fmt::format("cannot fork domain {}", template_domid), errno);
    }
    // Xen counts whole MiB in it. Where this fails the fork only costs more than it needs to.
    std::uint64_t pool = 0;
    if (xc_get_paging_mempool_size(xc_, template_domid, &pool) == 0) {
        static_cast<void>(xc_set_paging_mempool_size(xc_, domid, pool));
    }
    return {};
}

Expected<std::uint32_t> ForkDomains::port(std::uint32_t domid, std::uint32_t server) {
    const int port = xc_evtchn_alloc_unbound(xc_, domid, server);
    if (port < 0) {
        return hypercall_failure(fmt::format("cannot make an event channel of domain {}", domid),
                                 errno);
    }
    return static_cast<std::uint32_t>(port);
}

Expected<void> ForkDomains::set_parameter(std::uint32_t domid, std::uint32_t parameter,
                                          std::uint64_t value) {
    if (retried([&] { return xc_hvm_param_set(xc_, domid, parameter, value); }) != 0) {
        return hypercall_failure(
            fmt::format("cannot set HVM parameter {} of domain {}", parameter, domid), errno);
    }
    return {};
}

Expected<Ports> ForkDomains::connect(std::uint32_t domid, const SpecialPages& pages,
                                     const Servers& servers) {
    const auto store = port(domid, servers.store_domid);
    if (!store) {
        return tl::unexpected(store.error());
    }
    const auto console = port(domid, servers.console_domid);
    if (!console) {
        return tl::unexpected(console.error());
    }
    if (auto ok = set_parameter(domid, HVM_PARAM_STORE_EVTCHN, *store); !ok) {
        return tl::unexpected(ok.error());
    }
    if (auto ok = set_parameter(domid, HVM_PARAM_CONSOLE_EVTCHN, *console); !ok) {
        return tl::unexpected(ok.error());
    }
    // Xen's fork has copied what was in its template's rings.
    for (const std::uint64_t gfn : {pages.store_gfn, pages.console_gfn}) {
        if (xc_clear_domain_page(xc_, domid, gfn) != 0) {
            return hypercall_failure(fmt::format("cannot clear a page of domain {}", domid), errno);
        }
    }
    if (xc_dom_gnttab_seed(xc_, domid, true, pages.console_gfn, pages.store_gfn,
                           servers.console_domid, servers.store_domid) != 0) {
        return hypercall_failure(fmt::format("cannot grant domain {}'s rings", domid), errno);
    }
    return Ports{*store, *console};
}

Expected<SpecialPages> ForkDomains::special_pages(std::uint32_t domid) {
    SpecialPages pages;
    if (xc_hvm_param_get(xc_, domid, HVM_PARAM_STORE_PFN, &pages.store_gfn) != 0 ||
        xc_hvm_param_get(xc_, domid, HVM_PARAM_CONSOLE_PFN, &pages.console_gfn) != 0) {
        return hypercall_failure(fmt::format("cannot read HVM parameters of domain {}", domid),
                                 errno);
    }
    return pages;
}

Expected<Placement> ForkDomains::placement(std::uint32_t domid, std::uint32_t vcpus) {
    Placement found;
    const int cpus = xc_get_online_cpus(xc_);
    const int cpu_bytes = xc_get_cpumap_size(xc_);
    xc_physinfo_t host{};
    const int node_bytes = xc_get_nodemap_size(xc_);
    if (cpus < 0 || cpu_bytes <= 0 || node_bytes <= 0 || xc_physinfo(xc_, &host) != 0) {
        return hypercall_failure("cannot ask Xen for its processors", errno);
    }
    for (int i = 0; i < static_cast<int>(vcpus); ++i) {
        Placement::Vcpu vcpu{i, std::vector<std::uint8_t>(static_cast<std::size_t>(cpu_bytes)),
                             std::vector<std::uint8_t>(static_cast<std::size_t>(cpu_bytes))};
        if (xc_vcpu_getaffinity(xc_, domid, i, vcpu.hard.data(), vcpu.soft.data(),
                                XEN_VCPUAFFINITY_HARD | XEN_VCPUAFFINITY_SOFT) != 0) {
            return hypercall_failure(fmt::format("cannot read where domain {} may run", domid),
                                     errno);
        }
        if (!is_everywhere(vcpu.hard, cpus) || !is_everywhere(vcpu.soft, cpus)) {
            found.vcpus.push_back(std::move(vcpu));
        }
    }
    std::vector<std::uint8_t> nodes(static_cast<std::size_t>(node_bytes));
    if (xc_domain_node_getaffinity(xc_, domid, nodes.data()) != 0) {
        return hypercall_failure(fmt::format("cannot read which nodes domain {} is on", domid),
                                 errno);
    }
    if (!is_everywhere(nodes, static_cast<int>(host.nr_nodes))) {
        found.nodes = std::move(nodes);
    }
    return found;
}

Expected<void> ForkDomains::place_vcpu(std::uint32_t domid, const Placement::Vcpu& wanted) {
    Placement::Vcpu copy = wanted;  // Xen writes back what it has made of it
    if (xc_vcpu_setaffinity(xc_, domid, copy.vcpu, copy.hard.data(), copy.soft.data(),
                            XEN_VCPUAFFINITY_HARD | XEN_VCPUAFFINITY_SOFT) != 0) {
        return hypercall_failure(fmt::format("cannot say where domain {} may run", domid), errno);
    }
    return {};
}

Expected<void> ForkDomains::place(std::uint32_t domid, const Placement& placement) {
    for (const Placement::Vcpu& vcpu : placement.vcpus) {
        if (auto ok = place_vcpu(domid, vcpu); !ok) {
            return ok;
        }
    }
    if (placement.nodes.empty()) {
        return {};
    }
    std::vector<std::uint8_t> nodes = placement.nodes;
    if (xc_domain_node_setaffinity(xc_, domid, nodes.data()) != 0) {
        return hypercall_failure(fmt::format("cannot say on which nodes domain {} is", domid),
                                 errno);
    }
    return {};
}

namespace {

std::vector<std::string> why_no_sharing(int code) {
    switch (code) {
        case ENOSYS:
            return {
                "this Xen was built without memory sharing (CONFIG_MEM_SHARING, which needs "
                "CONFIG_UNSUPPORTED): install one that was built with it"};
        case EOPNOTSUPP:
            return {
                "this Xen shares memory on processors with Intel VT-x only, and this one has "
                "none"};
        case ENODEV:
            return {"this host has no hardware assisted paging (EPT), which memory sharing needs"};
        default:
            return {fmt::format("Xen refuses to share memory: {}", std::strerror(code))};
    }
}

// Xen has rings for sharing with a PV dom0 only (xen/common/vm_event.c, vm_event_domctl).
Expected<std::vector<std::string>> check_dom0(xc_interface* xc) {
    xc_domaininfo_t dom0{};
    if (xc_domain_getinfolist(xc, 0, 1, &dom0) != 1) {
        return hypercall_failure("cannot ask Xen about dom0", errno);
    }
    std::vector<std::string> missing;
    if (dom0.domain == 0 && (dom0.flags & XEN_DOMINF_hvm_guest) != 0) {
        missing.emplace_back(
            "dom0 is PVH, and only from a PV dom0 can forks be kept whole when memory runs out: "
            "boot Xen without dom0=pvh");
    }
    return missing;
}

}  // namespace

Expected<std::vector<std::string>> ForkDomains::missing() {
    xc_physinfo_t host{};
    if (xc_physinfo(xc_, &host) != 0) {
        return hypercall_failure("cannot ask Xen what it can do", errno);
    }
    if ((host.capabilities & XEN_SYSCTL_PHYSCAP_hvm) == 0) {
        return std::vector<std::string>{
            "this host cannot run PVH domains: hardware virtualisation is missing or switched off"};
    }
    auto missing = check_dom0(xc_);
    if (!missing) {
        return missing;
    }
    const auto add = [&missing](const std::vector<std::string>& more) {
        missing->insert(missing->end(), more.begin(), more.end());
        return missing;
    };
    if ((host.capabilities & XEN_SYSCTL_PHYSCAP_hap) == 0) {
        return add(why_no_sharing(ENODEV));
    }
    xen_domctl_createdomain config{};
    config.flags = XEN_DOMCTL_CDF_hvm | XEN_DOMCTL_CDF_hap;
    config.max_vcpus = 1;
    config.max_grant_frames = 1;
    config.max_maptrack_frames = 0;
    config.grant_opts = XEN_DOMCTL_GRANT_version(1);
    config.arch.emulation_flags = XEN_X86_EMU_LAPIC;
    const std::uint8_t nobody[16]{};
    const auto domid = create(config, nobody);
    if (!domid) {
        return tl::unexpected(domid.error().during("trying memory sharing"));
    }
    const int r = xc_memshr_control(xc_, *domid, 1);
    const int code = errno;
    if (xc_domain_destroy(xc_, *domid) != 0) {
        return hypercall_failure(fmt::format("cannot destroy domain {}, which was made to try "
                                             "memory sharing",
                                             *domid),
                                 errno);
    }
    return r == 0 ? missing : add(why_no_sharing(code));
}

}  // namespace xenpack
