/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libxl and libxc for the plugin to be linked with instead of the real ones: a few domains the test
 * sets up, failures it asks for, and the hooks the plugin registered, which it can call as libxl
 * would. Keeps the rules of libxl_event.h that a plugin could break, and counts breaches.
 */
#pragma once

#include <libxl.h>
#include <libxl_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <xenctrl.h>

enum { FAKE_DOMAINS = 1200, FAKE_REGISTRATIONS = 16 };

/* What libxl knows of one registration with the application. Its address is for_libxl. */
struct fake_registration {
    bool live;
    bool is_timeout;
    int fd;
    void* for_app;
    int occurred;                                 /* how often the application has reported it */
    void (*then)(struct fake_registration* self); /* what libxl does when it is, or NULL */
};

struct fake_xen {
    xc_domaininfo_t domains[FAKE_DOMAINS]; /* ascending domid */
    unsigned n_domains;
    xc_physinfo_t physinfo;
    int lists; /* how often all were listed: calls that began at domid 0 */

    /* errno for the next calls, or 0 */
    int fail_list, fail_setmaxmem, fail_pod, fail_physinfo;
    /* libxl's codes for the next calls, or 0 */
    int fail_ctx, fail_target, fail_register;
    bool target_not_committed; /* libxl_set_memory_target writes nothing, yet returns 0 */
    void (*during_target)(void);

    const char* record; /* libxl's record of every domain, or NULL */
    uint64_t record_target_kib, record_max_kib;
    libxl_domain_type record_type;
    int record_vcpus;
    uint64_t paging_kib, iommu_kib; /* what libxl fills in for the record */
    uint64_t stubdomain_kib;        /* its device model in a domain of its own; 0: not */
    int fail_need;                  /* libxl's code, or 0 */

    const libxl_osevent_hooks* osevent;
    void* osevent_user;
    const libxl_event_hooks* events;
    void* events_user;
    const libxl_childproc_hooks* children;

    struct fake_registration registrations[FAKE_REGISTRATIONS];
    int contexts, interfaces; /* open now */
    int watched;              /* domain deaths watched for now */
    int watches_made;
    int sigchlds;
    int events_freed;
    int in_hook;
    int breaches; /* _occurred_ calls from inside a hook, or after the context was freed */
};

extern struct fake_xen xen;

/* No domains, nothing open, 1 GiB of memory of which half is free. */
void fake_xen_reset(void);

/* A running PVH domain (dom0: PV) of 100000 KiB limited to 101024; its uuid is `first` and 15
 * zeros. */
xc_domaininfo_t* fake_domain_add(uint32_t domid, uint8_t first);
void fake_domain_remove(uint32_t domid);
xc_domaininfo_t* fake_domain(uint32_t domid);
void fake_domain_shut_down(uint32_t domid, unsigned reason);

/* As libxl does these. Registrations return NULL where the hook refused. */
struct fake_registration* fake_xl_fd_register(int fd, short events);
int fake_xl_fd_modify(struct fake_registration* r, short events);
void fake_xl_fd_deregister(struct fake_registration* r);
struct fake_registration* fake_xl_timeout_register(struct timeval abs);
int fake_xl_timeout_cancel(struct fake_registration* r);
void fake_xl_event(libxl_event_type type, uint32_t domid);
void fake_xl_disaster(const char* message, int errnoval);
