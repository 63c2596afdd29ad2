/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The part of libxl and libxc that templates, forks and destruction use, beside fake_xen.h's. Each
 * call is told to calls.h; any can be made to fail by its name; libxl's asynchronous ones end
 * inside the call, as they may, or when the test says so. It must not keep state between tests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FAKE_USERDATA = 16, FAKE_OPERATIONS = 8, FAKE_NEW_DOMID = 9 };

struct fake_fork {
    const char* fail;        /* the function that fails, or NULL */
    int fail_with;           /* errno of xc_..., libxl's code of libxl_... */
    int fail_times;          /* so often, then no more; 0: always */
    int fail_after;          /* having succeeded so often */
    const char* fail_also;   /* another that fails, always, or NULL */
    const char* hold;        /* the asynchronous function that does not end by itself, or NULL */
    const char* disk_target; /* of the first disk, where it is not /srv/root.img */
    int disks, nics; /* of every configuration, and of every domain until they are destroyed */
    uint64_t pod_pages;
    bool suspends;   /* a domain that is asked to */
    bool no_drivers; /* in any kernel, for Xen */
    bool has_no_ring_place;
    bool counts_pauses; /* of domains that are paused already, instead of telling each */
    int more_pauses;
    int weight;    /* of every domain */
    uint8_t nodes; /* of every domain, a bit for each; 0: the first */
    void (*during_pause)(void);

    struct {
        uint32_t domid;
        char name[32], text[64];
    } userdata[FAKE_USERDATA];
    struct {
        const char* what; /* NULL: none */
        void (*callback)(void* ctx, int rc, void* arg);
        void* arg;
    } held[FAKE_OPERATIONS];
    int aborts;
};

extern struct fake_fork forking;

/* Nothing fails, nothing is held, domains suspend. */
void fake_fork_reset(void);
/* The function fails now: errno is set. */
bool fake_fork_fails(const char* function);
/* The first operation of that name that is held ends with that code. False: there is none. */
bool fake_fork_end(const char* what, int rc);
/* What the worker for devices was given, and what holds it ("attach" in `hold`) or makes it fail
 * (`fail`, with an errno): see fake_devices.cc. This ends what it holds. False: nothing. */
bool fake_devices_end(void);
/* NULL where there is none. */
const char* fake_userdata(uint32_t domid, const char* name);
void fake_userdata_set(uint32_t domid, const char* name, const char* text);
/* What a configuration and a domain have: for fake_xen.c. */
void fake_fork_fill(void* config);

#ifdef __cplusplus
}
#endif
