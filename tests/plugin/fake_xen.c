/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of libxl and libxc that the plugin calls. It must not keep state between tests. */
#include "tests/plugin/fake_xen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugin/calls.h"
#include "tests/plugin/fake_fork.h"
#include "tests/plugin/fake_ring.h"
#include "tests/plugin/fake_watcher.h"

struct fake_xen xen;

static char a_context, an_interface; /* only their addresses are used */

void fake_xen_reset(void) {
    fake_fork_reset();
    fake_ring_reset();
    memset(&xen, 0, sizeof xen);
    xen.physinfo.total_pages = 262144;
    xen.physinfo.free_pages = 131072;
    xen.physinfo.nr_nodes = 1;
    xen.physinfo.nr_cpus = 4;
}

/* ---- domains ----------------------------------------------------------------------------------
 */

xc_domaininfo_t* fake_domain_add(uint32_t domid, uint8_t first) {
    unsigned at = 0;
    xc_domaininfo_t* d;

    while (at < xen.n_domains && xen.domains[at].domain < domid)
        at++;
    memmove(&xen.domains[at + 1], &xen.domains[at], (xen.n_domains - at) * sizeof xen.domains[0]);
    xen.n_domains++;
    d = &xen.domains[at];
    memset(d, 0, sizeof *d);
    d->domain = (domid_t)domid;
    d->handle[0] = first;
    d->flags = 255u << XEN_DOMINF_shutdownshift;
    if (domid > 0) /* dom0 is a PV domain */
        d->flags |= XEN_DOMINF_hvm_guest | XEN_DOMINF_hap;
    d->tot_pages = 25000;
    d->max_pages = 25256;
    d->cpu_time = 1;
    d->nr_online_vcpus = 1;
    d->arch_config.emulation_flags = XEN_X86_EMU_LAPIC;
    return d;
}

xc_domaininfo_t* fake_domain(uint32_t domid) {
    unsigned i;

    for (i = 0; i < xen.n_domains; i++)
        if (xen.domains[i].domain == domid)
            return &xen.domains[i];
    abort();
}

void fake_domain_remove(uint32_t domid) {
    xc_domaininfo_t* d = fake_domain(domid);
    size_t at = (size_t)(d - xen.domains);

    if (domid == FAKE_NEW_DOMID)
        fake_ring_domain_gone();
    memmove(d, d + 1, (xen.n_domains - at - 1) * sizeof *d);
    xen.n_domains--;
}

void fake_domain_shut_down(uint32_t domid, unsigned reason) {
    xc_domaininfo_t* d = fake_domain(domid);

    d->flags &= ~((uint32_t)XEN_DOMINF_shutdownmask << XEN_DOMINF_shutdownshift);
    d->flags |= XEN_DOMINF_shutdown | reason << XEN_DOMINF_shutdownshift;
}

/* ---- libxc ------------------------------------------------------------------------------------
 */

static int failed(int code) {
    errno = code;
    return -1;
}

xc_interface* xc_interface_open(xentoollog_logger* logger, xentoollog_logger* dombuild_logger,
                                unsigned open_flags) {
    (void)logger;
    (void)dombuild_logger;
    (void)open_flags;
    xen.interfaces++;
    return (xc_interface*)(void*)&an_interface;
}

int xc_interface_close(xc_interface* xch) {
    (void)xch;
    xen.interfaces--;
    return 0;
}

int xc_physinfo(xc_interface* xch, xc_physinfo_t* info) {
    (void)xch;
    if (xen.fail_physinfo)
        return failed(xen.fail_physinfo);
    *info = xen.physinfo;
    return 0;
}

int xc_domain_getinfolist(xc_interface* xch, uint32_t first_domain, unsigned int max_domains,
                          xc_domaininfo_t* info) {
    unsigned i, n = 0;

    (void)xch;
    if (xen.fail_list)
        return failed(xen.fail_list);
    if (first_domain == 0)
        xen.lists++;
    for (i = 0; i < xen.n_domains && n < max_domains; i++)
        if (xen.domains[i].domain >= first_domain)
            info[n++] = xen.domains[i];
    return (int)n;
}

int xc_domain_setmaxmem(xc_interface* xch, uint32_t domid, uint64_t max_memkb) {
    (void)xch;
    calls_add("setmaxmem %u %llu", domid, (unsigned long long)max_memkb);
    if (xen.fail_setmaxmem)
        return failed(xen.fail_setmaxmem);
    fake_domain(domid)->max_pages = max_memkb / 4;
    return 0;
}

int xc_domain_set_pod_target(xc_interface* xch, uint32_t domid, uint64_t target_pages,
                             uint64_t* tot_pages, uint64_t* pod_cache_pages,
                             uint64_t* pod_entries) {
    (void)xch;
    (void)tot_pages;
    (void)pod_cache_pages;
    (void)pod_entries;
    calls_add("pod %u %llu", domid, (unsigned long long)target_pages);
    if (xen.fail_pod)
        return failed(xen.fail_pod);
    /* Xen refuses a target over the limit: the order of the two calls matters. */
    return target_pages > fake_domain(domid)->max_pages ? failed(EINVAL) : 0;
}

/* ---- libxl: a context and its calls -----------------------------------------------------------
 */

int libxl_ctx_alloc(libxl_ctx** pctx, int version, unsigned flags, xentoollog_logger* lg) {
    (void)version;
    (void)flags;
    (void)lg;
    if (xen.fail_ctx)
        return xen.fail_ctx;
    xen.contexts++;
    *pctx = (libxl_ctx*)(void*)&a_context;
    return 0;
}

/* Like libxl: gives back its descriptors, and leaves cancelled timeouts with the application. */
int libxl_ctx_free(libxl_ctx* ctx) {
    int i;

    if (!ctx)
        return 0;
    for (i = 0; i < FAKE_OPERATIONS; i++)
        if (forking.held[i].what)
            abort(); /* as libxl does with an operation under way */
    for (i = 0; i < FAKE_REGISTRATIONS; i++)
        if (xen.registrations[i].live && !xen.registrations[i].is_timeout)
            fake_xl_fd_deregister(&xen.registrations[i]);
    xen.watched = 0;
    xen.contexts--;
    return 0;
}

int libxl_set_memory_target(libxl_ctx* ctx, uint32_t domid, int64_t target_memkb, int relative,
                            int enforce) {
    char path[64], value[32];

    (void)ctx;
    calls_add("libxl_set_memory_target %u %lld relative %d enforce %d", domid,
              (long long)target_memkb, relative, enforce);
    if (enforce)
        fake_domain(domid)->max_pages = (uint64_t)(target_memkb + 1024) / 4;
    if (xen.during_target)
        xen.during_target();
    if (xen.fail_target)
        return xen.fail_target;
    if (!xen.target_not_committed) {
        snprintf(path, sizeof path, "/local/domain/%u/memory/target", domid);
        snprintf(value, sizeof value, "%lld", (long long)target_memkb);
        fake_store_set(path, value);
    }
    return 0;
}

int libxl_userdata_retrieve(libxl_ctx* ctx, uint32_t domid, const char* userdata_userid,
                            uint8_t** data_r, int* datalen_r) {
    const char* kept = fake_userdata(domid, userdata_userid);

    (void)ctx;
    *data_r = NULL;
    *datalen_r = 0;
    if (kept) {
        *data_r = (uint8_t*)strdup(kept);
        *datalen_r = (int)strlen(kept) + 1;
    } else if (xen.record && !strcmp(userdata_userid, "libxl-json")) {
        *data_r = (uint8_t*)strdup(xen.record);
        *datalen_r = (int)strlen(xen.record) + 1;
    }
    return 0;
}

void libxl_domain_config_init(libxl_domain_config* p) {
    memset(p, 0, sizeof *p);
    p->b_info.target_memkb = LIBXL_MEMKB_DEFAULT;
    p->b_info.max_memkb = LIBXL_MEMKB_DEFAULT;
}

void libxl_domain_config_dispose(libxl_domain_config* p) {
    libxl_device_disk_list_free(p->disks, p->num_disks);
    libxl_device_nic_list_free(p->nics, p->num_nics);
}

int libxl_domain_config_from_json(libxl_ctx* ctx, libxl_domain_config* p, const char* s) {
    (void)ctx;
    if (strcmp(s, xen.record) || s[0] != '{')
        return ERROR_FAIL;
    p->b_info.target_memkb = xen.record_target_kib;
    p->b_info.max_memkb = xen.record_max_kib;
    p->c_info.type = p->b_info.type = xen.record_type;
    p->c_info.uuid.uuid[0] = 0x77;
    p->b_info.max_vcpus = xen.record_vcpus;
    fake_fork_fill(p);
    return 0;
}

/* Fills in what the configuration leaves open, as libxl does; its sum is of no use to a test. */
int libxl_domain_need_memory(libxl_ctx* ctx, libxl_domain_config* d_config,
                             uint32_t domid_for_logging, uint64_t* need_memkb) {
    libxl_domain_build_info* b = &d_config->b_info;

    (void)ctx;
    (void)domid_for_logging;
    if (xen.fail_need)
        return xen.fail_need;
    if (b->target_memkb == LIBXL_MEMKB_DEFAULT)
        b->target_memkb = b->max_memkb;
    if (!b->max_vcpus)
        b->max_vcpus = 1;
    b->shadow_memkb = xen.paging_kib;
    b->iommu_memkb = xen.iommu_kib;
    b->stubdomain_memkb = xen.stubdomain_kib;
    b->video_memkb = 8192;
    libxl_defbool_set(&b->device_model_stubdomain, xen.stubdomain_kib != 0);
    libxl_defbool_set(&d_config->c_info.oos, true);
    libxl_defbool_set(&b->nested_hvm, false);
    libxl_defbool_set(&b->vpmu, false);
    libxl_defbool_set(&b->arch_x86.msr_relaxed, false);
    *need_memkb = 1;
    return 0;
}

void libxl_defbool_set(libxl_defbool* db, bool b) {
    db->val = b ? 1 : -1;
}

bool libxl_defbool_val(libxl_defbool db) {
    if (!db.val)
        abort(); /* libxl's own assertion: nobody has said yes or no */
    return db.val > 0;
}

/* ---- libxl: events ----------------------------------------------------------------------------
 */

void libxl_osevent_register_hooks(libxl_ctx* ctx, const libxl_osevent_hooks* hooks, void* user) {
    (void)ctx;
    xen.osevent = hooks;
    xen.osevent_user = user;
}

void libxl_event_register_callbacks(libxl_ctx* ctx, const libxl_event_hooks* hooks, void* user) {
    (void)ctx;
    xen.events = hooks;
    xen.events_user = user;
}

void libxl_childproc_setmode(libxl_ctx* ctx, const libxl_childproc_hooks* hooks, void* user) {
    (void)ctx;
    (void)user;
    xen.children = hooks;
}

void libxl_childproc_sigchld_occurred(libxl_ctx* ctx) {
    (void)ctx;
    xen.sigchlds++;
}

int libxl_evenable_domain_death(libxl_ctx* ctx, uint32_t domid, libxl_ev_user user,
                                libxl_evgen_domain_death** evgen_out) {
    (void)ctx;
    (void)user;
    if (xen.fail_register)
        return xen.fail_register;
    calls_add("watch %u", domid);
    xen.watched++;
    xen.watches_made++;
    *evgen_out = malloc(1);
    return 0;
}

void libxl_evdisable_domain_death(libxl_ctx* ctx, libxl_evgen_domain_death* evgen) {
    (void)ctx;
    xen.watched--;
    free(evgen);
}

void libxl_event_free(libxl_ctx* ctx, libxl_event* event) {
    (void)ctx;
    xen.events_freed++;
    free(event);
}

static void occurred(struct fake_registration* r) {
    if (xen.in_hook || !xen.contexts || !r->live)
        xen.breaches++;
    r->occurred++;
    if (r->then)
        r->then(r);
}

void libxl_osevent_occurred_fd(libxl_ctx* ctx, void* for_libxl, int fd, short events,
                               short revents) {
    struct fake_registration* r = for_libxl;

    (void)ctx;
    (void)events;
    (void)revents;
    if (r->fd != fd || r->is_timeout)
        xen.breaches++;
    occurred(r);
}

void libxl_osevent_occurred_timeout(libxl_ctx* ctx, void* for_libxl) {
    struct fake_registration* r = for_libxl;

    (void)ctx;
    if (!r->is_timeout)
        xen.breaches++;
    occurred(r);
    r->live = false;
}

static struct fake_registration* fresh(void) {
    int i;

    for (i = 0; i < FAKE_REGISTRATIONS; i++) {
        if (!xen.registrations[i].live) {
            memset(&xen.registrations[i], 0, sizeof xen.registrations[i]);
            return &xen.registrations[i];
        }
    }
    abort();
}

struct fake_registration* fake_xl_fd_register(int fd, short events) {
    struct fake_registration* r = fresh();
    int rc;

    xen.in_hook++;
    rc = xen.osevent->fd_register(xen.osevent_user, fd, &r->for_app, events, r);
    xen.in_hook--;
    r->fd = fd;
    r->live = rc == 0;
    return r->live ? r : NULL;
}

int fake_xl_fd_modify(struct fake_registration* r, short events) {
    int rc;

    xen.in_hook++;
    rc = xen.osevent->fd_modify(xen.osevent_user, r->fd, &r->for_app, events);
    xen.in_hook--;
    return rc;
}

void fake_xl_fd_deregister(struct fake_registration* r) {
    xen.in_hook++;
    xen.osevent->fd_deregister(xen.osevent_user, r->fd, r->for_app);
    xen.in_hook--;
    r->live = false;
}

struct fake_registration* fake_xl_timeout_register(struct timeval abs) {
    struct fake_registration* r = fresh();
    int rc;

    xen.in_hook++;
    rc = xen.osevent->timeout_register(xen.osevent_user, &r->for_app, abs, r);
    xen.in_hook--;
    r->fd = -1;
    r->is_timeout = true;
    r->live = rc == 0;
    return r->live ? r : NULL;
}

int fake_xl_timeout_cancel(struct fake_registration* r) {
    struct timeval at_once = {0, 0};
    int rc;

    xen.in_hook++;
    rc = xen.osevent->timeout_modify(xen.osevent_user, &r->for_app, at_once);
    xen.in_hook--;
    return rc;
}

void fake_xl_event(libxl_event_type type, uint32_t domid) {
    libxl_event* event = calloc(1, sizeof *event);

    if (!event)
        abort();
    event->type = type;
    event->domid = domid;
    xen.events->event_occurs(xen.events_user, event);
}

void fake_xl_disaster(const char* message, int errnoval) {
    xen.events->disaster(xen.events_user, 0, message, errnoval);
}
