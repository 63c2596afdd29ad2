/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The part of libxc that says how a host is built and what Xen counts of it, beside fake_xen.h's:
 * two NUMA nodes with a hole between them, three processors of which one is offline, two pools. It
 * must not keep state between tests: each resets it.
 */
#pragma once

#include <stdint.h>

struct fake_books {
    long shared_pages, saved_pages; /* -1: this Xen shares no memory */
    const char* fail;               /* the function that fails with EPERM, or NULL */
};

extern struct fake_books books;

void fake_books_reset(void);
