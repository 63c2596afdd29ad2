/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* See fake_books.h. As libxc does these, errors and all. */
#include "tests/plugin/fake_books.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xenctrl.h>

enum { NODES = 3, CPUS = 3 };

struct fake_books books;

void fake_books_reset(void) {
    memset(&books, 0, sizeof books);
}

static int fails(const char* function) {
    if (!books.fail || strcmp(books.fail, function) != 0)
        return 0;
    errno = EPERM;
    return -1;
}

long xc_sharing_used_frames(xc_interface* xch) {
    (void)xch;
    return books.shared_pages;
}

long xc_sharing_freed_pages(xc_interface* xch) {
    (void)xch;
    return books.saved_pages;
}

xc_nodemap_t xc_nodemap_alloc(xc_interface* xch) {
    (void)xch;
    return calloc(1, 1);
}

/* Node 1 is none. */
int xc_numainfo(xc_interface* xch, unsigned* max_nodes, xc_meminfo_t* meminfo, uint32_t* distance) {
    unsigned i, j;

    (void)xch;
    for (i = 0; meminfo && i < NODES; i++) {
        meminfo[i].memsize = i == 1 ? XEN_INVALID_MEM_SZ : (uint64_t)(1 + i) << 30;
        meminfo[i].memfree = i == 1 ? 0 : (uint64_t)1 << 20;
        for (j = 0; j < NODES; j++)
            distance[i * NODES + j] = i == 1 || j == 1 ? XEN_INVALID_NODE_DIST : i == j ? 10 : 21;
    }
    *max_nodes = NODES;
    return fails("xc_numainfo");
}

/* Processor 1 is offline. */
int xc_cputopoinfo(xc_interface* xch, unsigned* max_cpus, xc_cputopo_t* cputopo) {
    unsigned i;

    (void)xch;
    for (i = 0; cputopo && i < CPUS; i++) {
        cputopo[i].node = i == 1 ? XEN_INVALID_NODE_ID : i;
        cputopo[i].socket = i == 1 ? XEN_INVALID_SOCKET_ID : i;
        cputopo[i].core = i == 1 ? XEN_INVALID_CORE_ID : 7;
    }
    *max_cpus = CPUS;
    return fails("xc_cputopoinfo");
}

/* Pool 0 has processor 0, and pool 4 processor 2. */
xc_cpupoolinfo_t* xc_cpupool_getinfo(xc_interface* xch, uint32_t poolid) {
    xc_cpupoolinfo_t* pool;

    (void)xch;
    if (fails("xc_cpupool_getinfo"))
        return NULL;
    if (poolid > 4) {
        errno = ENOENT;
        return NULL;
    }
    pool = calloc(1, sizeof *pool);
    pool->cpumap = calloc(1, 1);
    pool->cpupool_id = poolid == 0 ? 0 : 4;
    pool->cpumap[0] = poolid == 0 ? 1 : 4;
    return pool;
}

void xc_cpupool_infofree(xc_interface* xch, xc_cpupoolinfo_t* info) {
    (void)xch;
    free(info->cpumap);
    free(info);
}
