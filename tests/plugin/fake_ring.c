/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One page, as xen/common/vm_event.c uses it. */
#include "tests/plugin/fake_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xenctrl.h>
#include <xenevtchn.h>
#include <xenforeignmemory.h>

#include <xen/vm_event.h>

#include "tests/plugin/calls.h"
#include "tests/plugin/fake_fork.h"
#include "tests/plugin/fake_watcher.h"

enum { XENS_PORT = 7 };

struct fake_ring ring;

static char a_handle, a_memory; /* only their addresses are used */
static _Alignas(4096) char page[4096];
static vm_event_front_ring_t front;
static int requests; /* on the ring as it is enabled now */
static struct { bool bound, pending, masked; } ports[FAKE_PORTS];
static uint32_t ring_port; /* dom0's, 0: not bound */

void fake_ring_reset(void) {
    memset(&ring, 0, sizeof ring);
    memset(ports, 0, sizeof ports);
    ring_port = 0;
    requests = 0;
}

void fake_ring_domain_gone(void) {
    ring.is_enabled = ring.is_page_visible = false;
    ring.pages = 0;
    memset(ring.waiting, 0, sizeof ring.waiting);
}

/* ---- libxc ------------------------------------------------------------------------------------
 */

int xc_domain_decrease_reservation(xc_interface* xch, uint32_t domid, unsigned long nr_extents,
                                   unsigned int extent_order, xen_pfn_t* extent_start) {
    (void)xch;
    (void)extent_order;
    calls_add("take page %u %llx", domid, (unsigned long long)*extent_start);
    if (nr_extents != 1)
        abort();
    if (!ring.is_page_visible)
        return 0;
    ring.is_page_visible = false;
    ring.pages--;
    return 1;
}

int xc_domain_decrease_reservation_exact(xc_interface* xch, uint32_t domid,
                                         unsigned long nr_extents, unsigned int extent_order,
                                         xen_pfn_t* extent_start) {
    if (fake_fork_fails("xc_domain_decrease_reservation_exact"))
        return -1;
    return xc_domain_decrease_reservation(xch, domid, nr_extents, extent_order, extent_start) == 1
               ? 0
               : -1;
}

int xc_domain_populate_physmap_exact(xc_interface* xch, uint32_t domid, unsigned long nr_extents,
                                     unsigned int extent_order, unsigned int mem_flags,
                                     xen_pfn_t* extent_start) {
    (void)xch;
    (void)nr_extents;
    (void)extent_order;
    (void)mem_flags;
    calls_add("page %u %llx", domid, (unsigned long long)*extent_start);
    if (fake_fork_fails("xc_domain_populate_physmap_exact"))
        return -1;
    ring.is_page_visible = true;
    ring.pages++;
    return 0;
}

/* Xen's macros reckon addresses in several kinds of integers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
static void lay_out(void) {
    FRONT_RING_INIT(&front, (vm_event_sring_t*)(void*)page, sizeof page);
}
#pragma GCC diagnostic pop

int xc_memshr_ring_enable(xc_interface* xch, uint32_t domid, uint32_t* port) {
    (void)xch;
    calls_add("ring %u", domid);
    if (fake_fork_fails("xc_memshr_ring_enable"))
        return -1;
    if (ring.is_enabled || !ring.is_page_visible) {
        errno = ring.is_enabled ? EBUSY : ENOENT;
        return -1;
    }
    lay_out();
    ring.is_enabled = true;
    requests = ring.answers = ring.unasked_answers = 0;
    *port = XENS_PORT;
    return 0;
}

int xc_memshr_ring_disable(xc_interface* xch, uint32_t domid) {
    (void)xch;
    calls_add("no ring %u", domid);
    if (fake_fork_fails("xc_memshr_ring_disable"))
        return -1;
    if (!ring.is_enabled) {
        errno = EINVAL;
        return -1;
    }
    ring.is_enabled = false;
    return 0;
}

/* ---- libxenforeignmemory ----------------------------------------------------------------------
 */

xenforeignmemory_handle* xenforeignmemory_open(struct xentoollog_logger* logger,
                                               unsigned open_flags) {
    (void)logger;
    (void)open_flags;
    if (fake_fork_fails("xenforeignmemory_open"))
        return NULL;
    ring.memories++;
    return (xenforeignmemory_handle*)(void*)&a_memory;
}

int xenforeignmemory_close(xenforeignmemory_handle* fmem) {
    (void)fmem;
    ring.memories--;
    return 0;
}

void* xenforeignmemory_map(xenforeignmemory_handle* fmem, uint32_t dom, int prot, size_t pages,
                           const xen_pfn_t arr[], int err[]) {
    (void)fmem;
    if (pages != 1 || err || prot != (PROT_READ | PROT_WRITE))
        abort();
    calls_add("map %u %llx", dom, (unsigned long long)arr[0]);
    if (fake_fork_fails("xenforeignmemory_map"))
        return NULL;
    memset(page, 0xa5, sizeof page); /* whatever was there */
    ring.mapped++;
    return page;
}

int xenforeignmemory_unmap(xenforeignmemory_handle* fmem, void* addr, size_t pages) {
    (void)fmem;
    (void)pages;
    if (addr != page)
        abort();
    ring.mapped--;
    return 0;
}

/* ---- libxenevtchn -----------------------------------------------------------------------------
 */

static int bind_port(void) {
    int i;

    for (i = 1; i < FAKE_PORTS; i++) {
        if (!ports[i].bound) {
            ports[i].bound = true;
            ports[i].pending = ports[i].masked = false;
            return i;
        }
    }
    abort();
}

xenevtchn_handle* xenevtchn_open(struct xentoollog_logger* logger, unsigned int flags) {
    (void)logger;
    (void)flags;
    if (fake_fork_fails("xenevtchn_open"))
        return NULL;
    ring.channels++;
    return (xenevtchn_handle*)(void*)&a_handle;
}

/* With it go all its ports. */
int xenevtchn_close(xenevtchn_handle* xce) {
    (void)xce;
    ring.channels--;
    memset(ports, 0, sizeof ports);
    ring_port = ring.interrupt_port = 0;
    return 0;
}

int xenevtchn_fd(xenevtchn_handle* xce) {
    (void)xce;
    return FAKE_CHANNELS_FD;
}

/* A port that has just been bound has an event pending, which may be that of one that was missed.
 */
xenevtchn_port_or_error_t xenevtchn_bind_interdomain(xenevtchn_handle* xce, uint32_t domid,
                                                     evtchn_port_t remote_port) {
    (void)xce;
    calls_add("bind %u %u", domid, remote_port);
    if (fake_fork_fails("xenevtchn_bind_interdomain"))
        return -1;
    ring_port = (uint32_t)bind_port();
    ports[ring_port].pending = true;
    return (int)ring_port;
}

xenevtchn_port_or_error_t xenevtchn_bind_virq(xenevtchn_handle* xce, unsigned int virq) {
    (void)xce;
    if (virq != VIRQ_ENOMEM)
        abort();
    if (ring.interrupt_taken) {
        errno = EEXIST;
        return -1;
    }
    ring.interrupt_port = (uint32_t)bind_port();
    return (int)ring.interrupt_port;
}

int xenevtchn_unbind(xenevtchn_handle* xce, evtchn_port_t port) {
    (void)xce;
    if (!ports[port].bound)
        abort();
    ports[port].bound = ports[port].pending = false;
    if (port == ring_port)
        ring_port = 0;
    return 0;
}

xenevtchn_port_or_error_t xenevtchn_pending(xenevtchn_handle* xce) {
    int i;

    (void)xce;
    for (i = 1; i < FAKE_PORTS; i++) {
        if (ports[i].pending && !ports[i].masked) {
            ports[i].pending = false;
            ports[i].masked = true;
            return i;
        }
    }
    abort(); /* a read that blocks */
}

int xenevtchn_unmask(xenevtchn_handle* xce, evtchn_port_t port) {
    (void)xce;
    ports[port].masked = false;
    return 0;
}

static void take_answer(const vm_event_response_t* answer) {
    ring.answers++;
    if (ring.answers > requests)
        ring.unasked_answers++;
    if (answer->version != VM_EVENT_INTERFACE_VERSION ||
        answer->reason != VM_EVENT_REASON_MEM_SHARING)
        abort();
    if (!(answer->flags & VM_EVENT_FLAG_VCPU_PAUSED))
        ring.foreign_answers++;
    else if (answer->vcpu_id < FAKE_VCPUS && ring.waiting[answer->vcpu_id] > 0)
        ring.waiting[answer->vcpu_id]--;
}

int xenevtchn_notify(xenevtchn_handle* xce, evtchn_port_t port) {
    (void)xce;
    calls_add("notify");
    if (fake_fork_fails("xenevtchn_notify"))
        return -1;
    if (port != ring_port || !ring.is_enabled)
        abort();
    while (front.rsp_cons != front.sring->rsp_prod) {
        take_answer(RING_GET_RESPONSE(&front, front.rsp_cons));
        front.rsp_cons++;
    }
    return 0;
}

/* ---- what Xen does ----------------------------------------------------------------------------
 */

static void put(uint32_t vcpu, uint32_t flags) {
    vm_event_request_t request = {.version = VM_EVENT_INTERFACE_VERSION,
                                  .flags = flags,
                                  .reason = VM_EVENT_REASON_MEM_SHARING,
                                  .vcpu_id = vcpu,
                                  .u.mem_sharing.gfn = 0x1000 + vcpu};

    memcpy(RING_GET_REQUEST(&front, front.req_prod_pvt), &request, sizeof request);
    front.req_prod_pvt++;
    front.sring->req_prod = front.req_prod_pvt;
    requests++;
    if (ring_port)
        ports[ring_port].pending = true;
}

/* Without room it is not paused, and faults again. */
void fake_ring_starve(int vcpu) {
    if (!ring.is_enabled)
        abort(); /* Xen would crash the domain */
    if (RING_FREE_REQUESTS(&front) == 0)
        return;
    ring.waiting[vcpu]++;
    put((uint32_t)vcpu, VM_EVENT_FLAG_VCPU_PAUSED);
}

void fake_ring_starve_dom0(void) {
    put(15, 0);
}

void fake_ring_memory_low(void) {
    ports[ring.interrupt_port].pending = true;
}

static bool is_pending(void) {
    int i;

    for (i = 1; i < FAKE_PORTS; i++)
        if (ports[i].pending && !ports[i].masked)
            return true;
    return false;
}

int fake_ring_deliver(void) {
    int n = 0;

    while (is_pending()) {
        if (!fake_loop_ready(FAKE_CHANNELS_FD, XENPACK_IN))
            abort();
        n++;
    }
    return n;
}

int fake_ring_left(void) {
    int i, n = ring.channels + ring.memories + ring.mapped;

    for (i = 1; i < FAKE_PORTS; i++)
        n += ports[i].bound;
    return n;
}
