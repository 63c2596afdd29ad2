/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The part of libxc, libxenevtchn and libxenforeignmemory that sharing rings use, and Xen's side of
 * one ring, domain FAKE_NEW_DOMID's: requests the test has it make, answers taken when it is
 * notified, processors that wait until an answer lets them go. Failures are asked for in
 * fake_fork.h. It must not keep state between tests.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_CHANNELS_FD = 70, FAKE_PORTS = 1200, FAKE_VCPUS = 16 };

struct fake_ring {
    int channels, memories; /* handles open now */
    int mapped;             /* pages mapped now */
    bool is_enabled;
    bool is_page_visible;    /* the page is in the domain's map */
    int pages;               /* given to the domain and not yet taken from it */
    int waiting[FAKE_VCPUS]; /* how often each processor is paused for want of an answer */
    int foreign_answers;     /* such that let nobody go */
    int answers;             /* taken off the ring since it was enabled */
    int unasked_answers;     /* of those, in excess of its requests: its places are miscounted */
    bool interrupt_taken;    /* VIRQ_ENOMEM is another program's */
    uint32_t interrupt_port; /* 0: not bound */
};

extern struct fake_ring ring;

void fake_ring_reset(void);

/* A processor finds no memory: it waits, with a request on the ring where there is room. */
void fake_ring_starve(int vcpu);
/* dom0 finds no memory for a page of the domain: a request that nobody waits for. */
void fake_ring_starve_dom0(void);
/* Free memory falls under Xen's mark. */
void fake_ring_memory_low(void);
/* Everything pending is told to the loop, one event at a time. Returns how many there were. */
int fake_ring_deliver(void);
/* The domain has ended; what dom0 has of it is still there. */
void fake_ring_domain_gone(void);
/* Handles, mappings and ports that are still there. */
int fake_ring_left(void);
