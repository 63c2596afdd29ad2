// SPDX-License-Identifier: LGPL-2.1-or-later
// A template's record, as Sealing has left it, turned into what Forking needs. What the record
// leaves open is filled in as libxl fills it in when it creates a domain.
#include "plugin/libxl/templates.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "plugin/libxl/store_read.h"
#include "plugin/libxl/userdata.h"
#include "plugin/libxl/vbd_number.h"

namespace xenpack {
namespace {

// The weight that Xen's schedulers give a domain by itself (CSCHED_DEFAULT_WEIGHT and
// CSCHED2_DEFAULT_WEIGHT of xen/common/sched).
constexpr int kDefaultWeight = 256;

constexpr std::uint32_t kPageMask = 4095;

// As libxl__domain_make makes it of its configuration (tools/libs/light/libxl_create.c, and
// libxl_x86.c for the processor's part).
xen_domctl_createdomain creation_of(const libxl_domain_config& config,
                                    const xc_domaininfo_t& info) {
    const libxl_domain_build_info& build = config.b_info;
    xen_domctl_createdomain creation{};
    creation.ssidref = info.ssidref;
    creation.cpupool_id = info.cpupool;
    creation.max_vcpus = static_cast<std::uint32_t>(build.max_vcpus);
    creation.max_evtchn_port = build.event_channels;
    creation.max_grant_frames = static_cast<std::int32_t>(build.max_grant_frames);
    creation.max_maptrack_frames = static_cast<std::int32_t>(build.max_maptrack_frames);
    creation.grant_opts =
        XEN_DOMCTL_GRANT_version(static_cast<std::uint32_t>(build.max_grant_version));
    creation.vmtrace_size =
        ((static_cast<std::uint32_t>(build.vmtrace_buf_kb) << 10) + kPageMask) & ~kPageMask;
    creation.flags = XEN_DOMCTL_CDF_hvm | XEN_DOMCTL_CDF_hap;
    if (!libxl_defbool_val(config.c_info.oos)) {
        creation.flags |= XEN_DOMCTL_CDF_oos_off;
    }
    if (libxl_defbool_val(build.nested_hvm)) {
        creation.flags |= XEN_DOMCTL_CDF_nested_virt;
    }
    if (libxl_defbool_val(build.vpmu)) {
        creation.flags |= XEN_DOMCTL_CDF_vpmu;
    }
    creation.arch.emulation_flags = XEN_X86_EMU_LAPIC;
    if (libxl_defbool_val(build.arch_x86.msr_relaxed)) {
        creation.arch.misc_flags |= XEN_X86_MSR_RELAXED;
    }
    return creation;
}

void add_pairs(ForkTree::Pairs& to, const std::string& prefix, libxl_key_value_list list) {
    for (char** pair = list; pair != nullptr && pair[0] != nullptr; pair += 2) {
        to.emplace_back(prefix + pair[0], pair[1] != nullptr ? pair[1] : "");
    }
}

ForkTree tree_of(const Template& of, const libxl_domain_config& config) {
    const libxl_domain_build_info& build = config.b_info;
    ForkTree tree;
    for (int i = 0; i < build.max_vcpus; ++i) {
        tree.vcpus_online.push_back(libxl_bitmap_test(&build.avail_vcpus, i) != 0);
    }
    tree.static_max_kib = build.max_memkb;
    tree.target_kib = build.target_memkb - build.video_memkb;
    tree.videoram_kib = build.video_memkb;
    tree.store_gfn = of.pages.store_gfn;
    tree.console_gfn = of.pages.console_gfn;
    tree.console_domid = of.servers.console_domid;
    add_pairs(tree.xsdata, "", config.c_info.xsdata);
    add_pairs(tree.xsdata, "platform/", config.c_info.platformdata);
    tree.template_uuid = uuid_text(of.uuid.data());
    return tree;
}

std::optional<std::uint64_t> number_in(const std::string& text) {
    std::uint64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc{} ? std::optional(number) : std::nullopt;
}

// Its forks would have memory of two moments.
Expected<std::shared_ptr<Template>> check_still(std::shared_ptr<Template> found,
                                                const xenpack_domain& domain) {
    if (found->sealed_cpu_ns && *found->sealed_cpu_ns != domain.cpu_time_ns) {
        return fail_with(ESTALE,
                         "template {} has run since it was sealed, over the memory that its forks "
                         "begin with: destroy it and its forks, and make it anew",
                         domain.domid);
    }
    return found;
}

}  // namespace

Expected<std::shared_ptr<Template>> Templates::find(std::uint32_t domid,
                                                    const std::uint8_t uuid[16]) {
    const auto facts = xen_.domain(domid, uuid);
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    if ((facts->domain.flags & XENPACK_DOMAIN_IS_DYING) != 0) {
        return fail_with(ESRCH, "domain {} is gone: Xen is taking its memory back", domid);
    }
    const auto known = known_.find(domid);
    if (known != known_.end() &&
        std::equal(known->second->uuid.begin(), known->second->uuid.end(), uuid)) {
        return check_still(known->second, facts->domain);
    }
    auto found = read(facts->domain);
    if (!found) {
        return found;
    }
    forget_the_dead();
    known_[domid] = *found;
    return check_still(std::move(*found), facts->domain);
}

Expected<std::shared_ptr<Template>> Templates::read(const xenpack_domain& domain) {
    const auto state = read_node(watcher_, domain_node(domain.domid, kTemplateNode));
    if (!state) {
        return tl::unexpected(state.error());
    }
    const auto record = read_userdata(xl_, domain.domid, kTemplateRecord);
    if (!record) {
        return tl::unexpected(record.error());
    }
    if (*state != "sealed" || !*record) {
        return fail_with(EINVAL, "domain {} is no template: it has not been sealed", domain.domid);
    }
    const auto cpu = read_node(watcher_, domain_node(domain.domid, kSealedCpuNode));
    if (!cpu) {
        return tl::unexpected(cpu.error());
    }
    auto found = std::make_shared<Template>();
    found->sealed_cpu_ns = number_in(*cpu);
    found->domid = domain.domid;
    std::copy_n(domain.uuid, found->uuid.size(), found->uuid.begin());
    ParsedConfig filled;
    if (!found->config.parse(xl_.get(), (*record)->c_str()) ||
        !filled.parse(xl_.get(), (*record)->c_str())) {
        return fail_with(EIO, "libxl cannot parse what was recorded of template {}", domain.domid);
    }
    // Called for what it fills in.
    std::uint64_t need_kib = 0;
    if (const int rc = libxl_domain_need_memory(xl_.get(), &filled.get(), domain.domid, &need_kib);
        rc != 0) {
        return fail_with(EIO,
                         "libxl cannot complete what was recorded of template {} (its code is "
                         "{})",
                         domain.domid, rc);
    }
    xc_domaininfo_t info{};
    if (xc_domain_getinfolist(xen_.handle(), domain.domid, 1, &info) != 1) {
        return hypercall_failure(fmt::format("cannot ask Xen about domain {}", domain.domid),
                                 errno);
    }
    found->creation = creation_of(filled.get(), info);
    if (auto ok = ask_xen(*found, found->creation.max_vcpus); !ok) {
        return tl::unexpected(ok.error());
    }
    if (auto ok = read_bases(*found); !ok) {
        return tl::unexpected(ok.error());
    }
    found->tree = tree_of(*found, filled.get());
    return found;
}

// Of one that an earlier version has sealed nothing stands there.
Expected<void> Templates::read_bases(Template& found) {
    const libxl_domain_config& config = found.config.get();
    for (int i = 0; i < config.num_disks; ++i) {
        const std::uint32_t number = vbd_number(config.disks[i].vdev).value_or(0);
        auto base = read_node(watcher_, disk_node(found.domid, number));
        if (!base) {
            return tl::unexpected(base.error());
        }
        found.bases[number] = *std::move(base);
    }
    return {};
}

Expected<void> Templates::ask_xen(Template& found, std::uint32_t vcpus) {
    auto pages = domains_.special_pages(found.domid);
    if (!pages) {
        return tl::unexpected(pages.error());
    }
    found.pages = *pages;
    for (auto [path, domid] :
         {std::pair{"/tool/xenstored/domid", &found.servers.store_domid},
          std::pair{"/tool/xenconsoled/domid", &found.servers.console_domid}}) {
        const auto text = read_node(watcher_, path);
        if (!text) {
            return tl::unexpected(text.error());
        }
        *domid = 0;  // dom0, where nothing else is said
        std::from_chars(text->data(), text->data() + text->size(), *domid);
    }
    auto placement = domains_.placement(found.domid, vcpus);
    if (!placement) {
        return tl::unexpected(placement.error());
    }
    found.placement = std::move(*placement);
    libxl_domain_sched_params scheduling;
    libxl_domain_sched_params_init(&scheduling);
    const int rc = libxl_domain_sched_params_get(xl_.get(), found.domid, &scheduling);
    if (rc == 0 && (scheduling.weight != kDefaultWeight || scheduling.cap > 0)) {
        found.scheduling = scheduling;
    }
    libxl_domain_sched_params_dispose(&scheduling);
    return {};
}

void Templates::forget_the_dead() {
    std::erase_if(known_, [this](const auto& entry) {
        return !xen_.domain(entry.first, entry.second->uuid.data());
    });
}

}  // namespace xenpack
