/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A domain is created as FAKE_NEW_DOMID, with a uuid as it was asked for. */
#include "tests/plugin/fake_fork.h"

#include <errno.h>
#include <libxl.h>
#include <libxl_utils.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xenctrl.h>
#include <xenguest.h>

#include <xen/hvm/params.h>

#include "tests/plugin/calls.h"
#include "tests/plugin/fake_watcher.h"
#include "tests/plugin/fake_xen.h"

struct fake_fork forking;

void fake_fork_reset(void) {
    memset(&forking, 0, sizeof forking);
    forking.suspends = true;
    forking.weight = 256;
}

static bool fails(const char* function) {
    if (forking.fail_also && !strcmp(forking.fail_also, function))
        return true;
    if (!forking.fail || strcmp(forking.fail, function))
        return false;
    if (forking.fail_after && forking.fail_after--)
        return false;
    if (forking.fail_times && !--forking.fail_times)
        forking.fail = NULL;
    return true;
}

static int hypercall(const char* function) {
    if (!fails(function))
        return 0;
    errno = forking.fail_with;
    return -1;
}

bool fake_fork_fails(const char* function) {
    return hypercall(function) != 0;
}

static int library(const char* function) {
    return fails(function) ? forking.fail_with : 0;
}

/* ---- libxc ------------------------------------------------------------------------------------
 */

int xc_domain_create(xc_interface* xch, uint32_t* pdomid, struct xen_domctl_createdomain* config) {
    (void)xch;
    calls_add("create %02x flags %x vcpus %u", config->handle[0], config->flags, config->max_vcpus);
    if (hypercall("xc_domain_create"))
        return -1;
    *pdomid = FAKE_NEW_DOMID;
    memcpy(fake_domain_add(FAKE_NEW_DOMID, 0)->handle, config->handle, sizeof config->handle);
    fake_domain(FAKE_NEW_DOMID)->flags |= XEN_DOMINF_paused;
    return 0;
}

int xc_domain_destroy(xc_interface* xch, uint32_t domid) {
    (void)xch;
    calls_add("destroy %u", domid);
    if (hypercall("xc_domain_destroy"))
        return -1;
    fake_domain_remove(domid);
    return 0;
}

int xc_memshr_fork(xc_interface* xch, uint32_t source_domain, uint32_t client_domain,
                   bool allow_with_iommu, bool block_interrupts) {
    (void)xch;
    (void)allow_with_iommu;
    (void)block_interrupts;
    calls_add("fork %u %u", source_domain, client_domain);
    return hypercall("xc_memshr_fork");
}

int xc_memshr_control(xc_interface* xch, uint32_t domid, int enable) {
    (void)xch;
    calls_add("share %u %d", domid, enable);
    return hypercall("xc_memshr_control");
}

xc_evtchn_port_or_error_t xc_evtchn_alloc_unbound(xc_interface* xch, uint32_t dom,
                                                  uint32_t remote_dom) {
    static int port = 0;

    (void)xch;
    calls_add("port %u %u", dom, remote_dom);
    port = port % 2 + 1;
    return hypercall("xc_evtchn_alloc_unbound") ? -1 : port;
}

int xc_hvm_param_set(xc_interface* handle, uint32_t dom, uint32_t param, uint64_t value) {
    (void)handle;
    calls_add("param %u %u=%llu", dom, param, (unsigned long long)value);
    return hypercall("xc_hvm_param_set");
}

int xc_hvm_param_get(xc_interface* handle, uint32_t dom, uint32_t param, uint64_t* value) {
    (void)handle;
    (void)dom;
    const bool has_none = (param == HVM_PARAM_CALLBACK_IRQ && forking.no_drivers) ||
                          (param == HVM_PARAM_SHARING_RING_PFN && forking.has_no_ring_place);
    *value = has_none ? 0 : 0xfe000 + param;
    return hypercall("xc_hvm_param_get");
}

int xc_clear_domain_pages(xc_interface* xch, uint32_t domid, unsigned long dst_pfn, int num) {
    (void)xch;
    (void)num;
    calls_add("clear %u %lx", domid, dst_pfn);
    return hypercall("xc_clear_domain_pages");
}

int xc_dom_gnttab_seed(xc_interface* xch, uint32_t guest_domid, bool is_hvm, xen_pfn_t console_gfn,
                       xen_pfn_t xenstore_gfn, uint32_t console_domid, uint32_t xenstore_domid) {
    (void)xch;
    (void)is_hvm;
    calls_add("grants %u console %llx %u store %llx %u", guest_domid,
              (unsigned long long)console_gfn, console_domid, (unsigned long long)xenstore_gfn,
              xenstore_domid);
    return hypercall("xc_dom_gnttab_seed");
}

int xc_domain_pause(xc_interface* xch, uint32_t domid) {
    (void)xch;
    if (forking.counts_pauses && fake_domain(domid)->flags & XEN_DOMINF_paused)
        forking.more_pauses++;
    else
        calls_add("pause %u", domid);
    if (forking.during_pause)
        forking.during_pause();
    if (hypercall("xc_domain_pause"))
        return -1;
    fake_domain(domid)->flags |= XEN_DOMINF_paused;
    return 0;
}

int xc_domain_unpause(xc_interface* xch, uint32_t domid) {
    (void)xch;
    calls_add("unpause %u", domid);
    if (hypercall("xc_domain_unpause"))
        return -1;
    fake_domain(domid)->flags &= ~(uint32_t)XEN_DOMINF_paused;
    return 0;
}

static void runs_again(uint32_t domid) {
    fake_domain(domid)->flags &= ~(uint32_t)XEN_DOMINF_shutdown;
    fake_domain(domid)->flags |= (uint32_t)XEN_DOMINF_shutdownmask << XEN_DOMINF_shutdownshift;
}

int xc_domain_soft_reset(xc_interface* xch, uint32_t domid) {
    (void)xch;
    calls_add("reset %u", domid);
    if (hypercall("xc_domain_soft_reset"))
        return -1;
    runs_again(domid);
    return 0;
}

/* A pool of 3 MiB, as libxl gives to 256 MiB and one processor. */
int xc_get_paging_mempool_size(xc_interface* xch, uint32_t domid, uint64_t* size) {
    (void)xch;
    (void)domid;
    *size = 3 << 20;
    return hypercall("xc_get_paging_mempool_size");
}

int xc_set_paging_mempool_size(xc_interface* xch, uint32_t domid, uint64_t size) {
    (void)xch;
    calls_add("pool %u %llu", domid, (unsigned long long)size);
    return hypercall("xc_set_paging_mempool_size");
}

int xc_domain_get_pod_target(xc_interface* xch, uint32_t domid, uint64_t* tot_pages,
                             uint64_t* pod_cache_pages, uint64_t* pod_entries) {
    (void)xch;
    (void)domid;
    *tot_pages = *pod_cache_pages = 0;
    *pod_entries = forking.pod_pages;
    return hypercall("xc_domain_get_pod_target");
}

/* Four processors and one node; domains may be anywhere. */
int xc_get_online_cpus(xc_interface* xch) {
    (void)xch;
    return 4;
}

int xc_get_cpumap_size(xc_interface* xch) {
    (void)xch;
    return 1;
}

int xc_get_nodemap_size(xc_interface* xch) {
    (void)xch;
    return 1;
}

int xc_vcpu_getaffinity(xc_interface* xch, uint32_t domid, int vcpu, xc_cpumap_t cpumap_hard,
                        xc_cpumap_t cpumap_soft, uint32_t flags) {
    (void)xch;
    (void)vcpu;
    (void)flags;
    cpumap_hard[0] = 0xf;
    cpumap_soft[0] = domid == 4 ? 0x3 : 0xf;
    return hypercall("xc_vcpu_getaffinity");
}

int xc_vcpu_setaffinity(xc_interface* xch, uint32_t domid, int vcpu, xc_cpumap_t cpumap_hard_inout,
                        xc_cpumap_t cpumap_soft_inout, uint32_t flags) {
    (void)xch;
    (void)flags;
    calls_add("place %u vcpu %d hard %x soft %x", domid, vcpu, cpumap_hard_inout[0],
              cpumap_soft_inout[0]);
    return hypercall("xc_vcpu_setaffinity");
}

int xc_domain_node_getaffinity(xc_interface* xch, uint32_t domind, xc_nodemap_t nodemap) {
    (void)xch;
    (void)domind;
    nodemap[0] = forking.nodes ? forking.nodes : 1;
    return hypercall("xc_domain_node_getaffinity");
}

int xc_domain_node_setaffinity(xc_interface* xch, uint32_t domind, xc_nodemap_t nodemap) {
    (void)xch;
    calls_add("nodes %u %x", domind, nodemap[0]);
    return hypercall("xc_domain_node_setaffinity");
}

/* ---- libxl: asynchronous calls ----------------------------------------------------------------
 */

static int asynchronous(const char* function, const libxl_asyncop_how* how) {
    int i;

    if (!how)
        abort(); /* the plugin never waits in a call */
    if (!forking.hold || strcmp(forking.hold, function)) {
        how->callback(NULL, library(function), how->u.for_callback);
        return 0;
    }
    for (i = 0; forking.held[i].what; i++)
        if (i + 1 == FAKE_OPERATIONS)
            abort();
    forking.held[i].what = function;
    forking.held[i].callback = (void (*)(void*, int, void*))how->callback;
    forking.held[i].arg = how->u.for_callback;
    return 0;
}

bool fake_fork_end(const char* what, int rc) {
    int i;

    for (i = 0; i < FAKE_OPERATIONS; i++) {
        if (forking.held[i].what && !strcmp(forking.held[i].what, what)) {
            forking.held[i].what = NULL;
            forking.held[i].callback(NULL, rc, forking.held[i].arg);
            return true;
        }
    }
    return false;
}

int libxl_ao_abort(libxl_ctx* ctx, const libxl_asyncop_how* how) {
    int i;

    (void)ctx;
    for (i = 0; i < FAKE_OPERATIONS; i++) {
        if (forking.held[i].what && forking.held[i].arg == how->u.for_callback) {
            forking.held[i].what = NULL;
            forking.aborts++;
            forking.held[i].callback(NULL, ERROR_ABORTED, forking.held[i].arg);
            return 0;
        }
    }
    return ERROR_NOTFOUND;
}

int libxl_domain_suspend_only(libxl_ctx* ctx, uint32_t domid, const libxl_asyncop_how* how) {
    (void)ctx;
    calls_add("libxl suspend %u", domid);
    if (forking.suspends)
        fake_domain_shut_down(domid, SHUTDOWN_suspend);
    return asynchronous("libxl_domain_suspend_only", how);
}

int libxl_domain_resume(libxl_ctx* ctx, uint32_t domid, int suspend_cancel,
                        const libxl_asyncop_how* how) {
    (void)ctx;
    calls_add("libxl resume %u %d", domid, suspend_cancel);
    runs_again(domid);
    return asynchronous("libxl_domain_resume", how);
}

int libxl_domain_destroy(libxl_ctx* ctx, uint32_t domid, const libxl_asyncop_how* how) {
    char path[64];
    int i;

    (void)ctx;
    calls_add("libxl destroy %u", domid);
    snprintf(path, sizeof path, "/local/domain/%u", domid);
    for (i = 0; i < FAKE_NODES; i++)
        if (!strncmp(watcher.nodes[i].path, path, strlen(path)))
            watcher.nodes[i].path[0] = '\0';
    for (i = 0; i < FAKE_USERDATA; i++)
        if (forking.userdata[i].domid == domid)
            forking.userdata[i].domid = 0;
    fake_domain_remove(domid);
    return asynchronous("libxl_domain_destroy", how);
}

int libxl_retrieve_domain_configuration(libxl_ctx* ctx, uint32_t domid,
                                        libxl_domain_config* d_config,
                                        const libxl_asyncop_how* how) {
    calls_add("libxl retrieve %u", domid);
    if (!library("libxl_retrieve_domain_configuration"))
        libxl_domain_config_from_json(ctx, d_config, xen.record);
    return asynchronous("libxl_retrieve_domain_configuration", how);
}

int libxl_device_disk_destroy(libxl_ctx* ctx, uint32_t domid, libxl_device_disk* disk,
                              const libxl_asyncop_how* how) {
    (void)ctx;
    calls_add("libxl take disk %u %s", domid, disk->vdev);
    return asynchronous("libxl_device_disk_destroy", how);
}

int libxl_device_nic_destroy(libxl_ctx* ctx, uint32_t domid, libxl_device_nic* nic,
                             const libxl_asyncop_how* how) {
    (void)ctx;
    calls_add("libxl take nic %u %d", domid, nic->devid);
    return asynchronous("libxl_device_nic_destroy", how);
}

/* ---- libxl: the others ------------------------------------------------------------------------
 */

static void fill_disks(libxl_device_disk** disks, int* n) {
    int i;

    *n = forking.disks;
    *disks = forking.disks ? calloc((size_t)forking.disks, sizeof **disks) : NULL;
    for (i = 0; i < forking.disks; i++) {
        (*disks)[i].vdev = strdup(i ? "xvdb" : "xvda");
        (*disks)[i].pdev_path = strdup(i                     ? "/srv/data.img"
                                       : forking.disk_target ? forking.disk_target
                                                             : "/srv/root.img");
        (*disks)[i].format = LIBXL_DISK_FORMAT_RAW;
        (*disks)[i].readwrite = i == 0;
    }
}

static void fill_nics(libxl_device_nic** nics, int* n) {
    int i;

    *n = forking.nics;
    *nics = forking.nics ? calloc((size_t)forking.nics, sizeof **nics) : NULL;
    for (i = 0; i < forking.nics; i++)
        (*nics)[i].devid = i;
}

void fake_fork_fill(void* config) {
    libxl_domain_config* c = config;

    fill_disks(&c->disks, &c->num_disks);
    fill_nics(&c->nics, &c->num_nics);
}

libxl_device_disk* libxl_device_disk_list(libxl_ctx* ctx, uint32_t domid, int* num) {
    libxl_device_disk* disks;

    (void)ctx;
    (void)domid;
    fill_disks(&disks, num);
    return disks;
}

void libxl_device_disk_list_free(libxl_device_disk* list, int num) {
    int i;

    for (i = 0; i < num; i++) {
        free(list[i].vdev);
        free(list[i].pdev_path);
    }
    free(list);
}

libxl_device_nic* libxl_device_nic_list(libxl_ctx* ctx, uint32_t domid, int* num) {
    libxl_device_nic* nics;

    (void)ctx;
    (void)domid;
    fill_nics(&nics, num);
    return nics;
}

void libxl_device_nic_list_free(libxl_device_nic* list, int num) {
    (void)num;
    free(list);
}

void libxl_device_disk_copy(libxl_ctx* ctx, libxl_device_disk* dst, const libxl_device_disk* src) {
    (void)ctx;
    *dst = *src;
    dst->vdev = strdup(src->vdev);
    dst->pdev_path = strdup(src->pdev_path);
}

void libxl_device_nic_copy(libxl_ctx* ctx, libxl_device_nic* dst, const libxl_device_nic* src) {
    (void)ctx;
    *dst = *src;
}

char* libxl_domain_config_to_json(libxl_ctx* ctx, libxl_domain_config* p) {
    (void)ctx;
    calls_add("json %s %02x disks %d nics %d", p->c_info.name ? p->c_info.name : "-",
              p->c_info.uuid.uuid[0], p->num_disks, p->num_nics);
    return fails("libxl_domain_config_to_json") ? NULL : strdup(xen.record);
}

const char* fake_userdata(uint32_t domid, const char* name) {
    int i;

    for (i = 0; i < FAKE_USERDATA; i++)
        if (forking.userdata[i].domid == domid && !strcmp(forking.userdata[i].name, name))
            return forking.userdata[i].text;
    return NULL;
}

void fake_userdata_set(uint32_t domid, const char* name, const char* text) {
    int i;

    for (i = 0; forking.userdata[i].domid; i++)
        if (i + 1 == FAKE_USERDATA)
            abort();
    forking.userdata[i].domid = domid;
    snprintf(forking.userdata[i].name, sizeof forking.userdata[i].name, "%s", name);
    snprintf(forking.userdata[i].text, sizeof forking.userdata[i].text, "%s", text);
}

int libxl_userdata_store(libxl_ctx* ctx, uint32_t domid, const char* userdata_userid,
                         const uint8_t* data, int datalen) {
    (void)ctx;
    (void)datalen;
    calls_add("userdata %u %s", domid, userdata_userid);
    if (fails("libxl_userdata_store"))
        return forking.fail_with;
    fake_userdata_set(domid, userdata_userid, (const char*)data);
    return 0;
}

int libxl_userdata_unlink(libxl_ctx* ctx, uint32_t domid, const char* userdata_userid) {
    int i;

    (void)ctx;
    calls_add("no userdata %u %s", domid, userdata_userid);
    for (i = 0; i < FAKE_USERDATA; i++)
        if (forking.userdata[i].domid == domid &&
            !strcmp(forking.userdata[i].name, userdata_userid))
            forking.userdata[i].domid = 0;
    return 0;
}

int libxl_domain_rename(libxl_ctx* ctx, uint32_t domid, const char* old_name,
                        const char* new_name) {
    char path[64];

    (void)ctx;
    calls_add("libxl rename %u %s %s", domid, old_name, new_name);
    if (fails("libxl_domain_rename"))
        return forking.fail_with;
    snprintf(path, sizeof path, "/local/domain/%u/name", domid);
    fake_store_set(path, new_name);
    return 0;
}

int libxl_domain_sched_params_get(libxl_ctx* ctx, uint32_t domid,
                                  libxl_domain_sched_params* params) {
    (void)ctx;
    (void)domid;
    params->weight = forking.weight;
    params->cap = 0;
    return 0;
}

int libxl_domain_sched_params_set(libxl_ctx* ctx, uint32_t domid,
                                  const libxl_domain_sched_params* params) {
    (void)ctx;
    calls_add("weight %u %d", domid, params->weight);
    return library("libxl_domain_sched_params_set");
}
