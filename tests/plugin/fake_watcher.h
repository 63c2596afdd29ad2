/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A watcher for the plugin to talk to: a loop the test turns by hand, a store of a few nodes, and
 * lists of the events and messages received. One at a time. It never asserts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin/toolstack.h"

enum { FAKE_ENTRIES = 32, FAKE_EVENTS = 1200, FAKE_NODES = 400 };

struct fake_entry {
    bool live;
    int fd; /* -1: a timeout */
    short events;
    uint64_t delay_us;
    void (*ready)(void* arg, int fd, short revents);
    void (*fired)(void* arg);
    void* arg;
};

struct fake_watcher {
    struct xenpack_watcher_ops ops;

    struct fake_entry entries[FAKE_ENTRIES];
    void (*sigchld)(void* arg);
    void* sigchld_arg;
    int fail_loop; /* what the next registrations return, or 0 */

    struct {
        char path[128], value[128];
    } nodes[FAKE_NODES];
    int fail_write; /* what write_guarded returns, or 0 */
    int fail_make, fail_remove, fail_introduce;
    bool list_nodes; /* each node that is made is a call, not only the first of them */
    int reads;

    struct xenpack_event events[FAKE_EVENTS];
    int n_events;
    void (*during_event)(const struct xenpack_event* event); /* or NULL */
    int event_depth, deepest_event;      /* on_event calls inside on_event calls */
    int messages[XENPACK_LOG_DEBUG + 1]; /* by level */
};

extern struct fake_watcher watcher;

/* An empty watcher, with its ops. */
void fake_watcher_reset(void);

/* How many descriptors and timeouts are registered; SIGCHLD counts as one. */
int fake_loop_registered(void);
/* Every live timeout of no delay fires, but none registered meanwhile. Returns how many. */
int fake_loop_round(void);
/* Every live timeout fires, whatever its delay, but none registered meanwhile. Returns how many. */
int fake_loop_all_timeouts(void);
/* The descriptor is ready for these events: calls who asked for one of them. Returns how many. */
int fake_loop_ready(int fd, short events);
/* The only live timeout, or NULL where there is none or more than one. */
struct fake_entry* fake_loop_timeout(void);

void fake_store_set(const char* path, const char* value);
void fake_store_remove(const char* path);
/* NULL where there is none. */
const char* fake_store_get(const char* path);

/* "created 5, died 5 ": the events received since the last call, in order. */
const char* fake_events(void);
