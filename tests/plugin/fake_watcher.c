/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The watcher's side of plugin/toolstack.h, in a few arrays. Called by the plugin under test. */
#include "tests/plugin/fake_watcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/plugin/calls.h"

struct fake_watcher watcher;

static int add(const struct fake_entry* entry, void** handle_r) {
    int i;

    if (watcher.fail_loop)
        return watcher.fail_loop;
    for (i = 0; i < FAKE_ENTRIES; i++) {
        if (!watcher.entries[i].live) {
            watcher.entries[i] = *entry;
            watcher.entries[i].live = true;
            *handle_r = &watcher.entries[i];
            return 0;
        }
    }
    return -ENOMEM;
}

static int fd_register(void* loop, int fd, short events, void (*ready)(void*, int, short),
                       void* arg, void** handle_r) {
    struct fake_entry entry = {.fd = fd, .events = events, .ready = ready, .arg = arg};

    (void)loop;
    return add(&entry, handle_r);
}

static int fd_modify(void* loop, void* handle, short events) {
    (void)loop;
    if (watcher.fail_loop)
        return watcher.fail_loop;
    ((struct fake_entry*)handle)->events = events;
    return 0;
}

/* A handle given twice would be a use after free in a real loop: here it aborts the test. */
static void deregister(void* loop, void* handle) {
    struct fake_entry* entry = handle;

    (void)loop;
    if (!entry->live)
        abort();
    entry->live = false;
}

static int timeout_register(void* loop, uint64_t delay_us, void (*fired)(void*), void* arg,
                            void** handle_r) {
    struct fake_entry entry = {.fd = -1, .delay_us = delay_us, .fired = fired, .arg = arg};

    (void)loop;
    return add(&entry, handle_r);
}

static int child_register(void* loop, void (*sigchld)(void*), void* arg) {
    (void)loop;
    if (watcher.fail_loop)
        return watcher.fail_loop;
    watcher.sigchld = sigchld;
    watcher.sigchld_arg = arg;
    return 0;
}

static void child_deregister(void* loop) {
    (void)loop;
    watcher.sigchld = NULL;
}

static int write_guarded(void* store, const char* guard_path, const char* guard_value,
                         const struct xenpack_store_write* writes, size_t n) {
    const char* guard = fake_store_get(guard_path);
    size_t i;

    (void)store;
    calls_add("guard %s %s", guard_path, guard_value);
    if (watcher.fail_write)
        return watcher.fail_write;
    if (!guard || strcmp(guard, guard_value))
        return -ESRCH;
    for (i = 0; i < n; i++) {
        calls_add("write %s %s", writes[i].path, writes[i].value);
        fake_store_set(writes[i].path, writes[i].value);
    }
    return 0;
}

static int store_read(void* store, const char* path, char* buf, size_t size) {
    const char* value = fake_store_get(path);

    (void)store;
    watcher.reads++;
    calls_add("read %s", path);
    if (!value)
        return -ENOENT;
    if (strlen(value) >= size)
        return -ENOBUFS;
    strcpy(buf, value);
    return (int)strlen(value);
}

static int store_make(void* store, const struct xenpack_store_node* nodes, size_t n) {
    static const char* const access[] = {"", " host", " reads", " owns"};
    size_t i;

    (void)store;
    if (watcher.fail_make)
        return watcher.fail_make;
    for (i = 0; i < n; i++) {
        if (watcher.list_nodes)
            calls_add("node %s=%s%s", nodes[i].path, nodes[i].value, access[nodes[i].access]);
        fake_store_set(nodes[i].path, nodes[i].value);
    }
    if (!watcher.list_nodes)
        calls_add("make %s", nodes[0].path);
    return 0;
}

static int store_remove(void* store, const char* path) {
    size_t length = strlen(path);
    int i;

    (void)store;
    calls_add("remove %s", path);
    for (i = 0; i < FAKE_NODES; i++) {
        char* at = watcher.nodes[i].path;
        if (!strncmp(at, path, length) && (at[length] == '/' || !at[length]))
            at[0] = '\0';
    }
    return watcher.fail_remove;
}

static int store_introduce(void* store, uint32_t domid, uint64_t gfn, uint32_t port) {
    (void)store;
    calls_add("introduce %u gfn %llx port %u", domid, (unsigned long long)gfn, port);
    return watcher.fail_introduce;
}

static void on_event(void* user, const struct xenpack_event* event) {
    (void)user;
    if (watcher.n_events == FAKE_EVENTS)
        abort();
    watcher.events[watcher.n_events++] = *event;
    watcher.event_depth++;
    if (watcher.event_depth > watcher.deepest_event)
        watcher.deepest_event = watcher.event_depth;
    if (watcher.during_event)
        watcher.during_event(event);
    watcher.event_depth--;
}

static void on_log(void* user, enum xenpack_log_level level, const char* message) {
    (void)user;
    (void)message;
    watcher.messages[level]++;
}

static const struct xenpack_loop_ops loop_ops = {fd_register,      fd_modify,  deregister,
                                                 timeout_register, deregister, child_register,
                                                 child_deregister};
static const struct xenpack_store_ops store_ops = {write_guarded, store_read, store_make,
                                                   store_remove, store_introduce};

void fake_watcher_reset(void) {
    memset(&watcher, 0, sizeof watcher);
    watcher.ops.version = XENPACK_TOOLSTACK_VERSION;
    watcher.ops.loop_ops = &loop_ops;
    watcher.ops.store_ops = &store_ops;
    watcher.ops.on_event = on_event;
    watcher.ops.log = on_log;
    calls_clear();
}

int fake_loop_registered(void) {
    int i, n = watcher.sigchld ? 1 : 0;

    for (i = 0; i < FAKE_ENTRIES; i++)
        n += watcher.entries[i].live ? 1 : 0;
    return n;
}

static int fire(uint64_t longest_us) {
    struct fake_entry* due[FAKE_ENTRIES];
    int i, n = 0, fired = 0;

    for (i = 0; i < FAKE_ENTRIES; i++) {
        struct fake_entry* entry = &watcher.entries[i];
        if (entry->live && entry->fd < 0 && entry->delay_us <= longest_us)
            due[n++] = entry;
    }
    for (i = 0; i < n; i++) {
        if (due[i]->live) {
            struct fake_entry entry = *due[i];
            due[i]->live = false;
            entry.fired(entry.arg);
            fired++;
        }
    }
    return fired;
}

int fake_loop_round(void) {
    return fire(0);
}

int fake_loop_all_timeouts(void) {
    return fire(UINT64_MAX);
}

int fake_loop_ready(int fd, short events) {
    int i, n = 0;

    for (i = 0; i < FAKE_ENTRIES; i++) {
        struct fake_entry* entry = &watcher.entries[i];
        if (entry->live && entry->fd == fd && (entry->events & events)) {
            entry->ready(entry->arg, fd, (short)(entry->events & events));
            n++;
        }
    }
    return n;
}

struct fake_entry* fake_loop_timeout(void) {
    struct fake_entry* found = NULL;
    int i, n = 0;

    for (i = 0; i < FAKE_ENTRIES; i++) {
        if (watcher.entries[i].live && watcher.entries[i].fd < 0) {
            found = &watcher.entries[i];
            n++;
        }
    }
    return n == 1 ? found : NULL;
}

void fake_store_set(const char* path, const char* value) {
    int i, free_at = -1;

    for (i = 0; i < FAKE_NODES; i++) {
        if (!strcmp(watcher.nodes[i].path, path))
            break;
        if (free_at < 0 && !watcher.nodes[i].path[0])
            free_at = i;
    }
    if (i == FAKE_NODES)
        i = free_at;
    if (i < 0)
        abort();
    snprintf(watcher.nodes[i].path, sizeof watcher.nodes[i].path, "%s", path);
    snprintf(watcher.nodes[i].value, sizeof watcher.nodes[i].value, "%s", value);
}

void fake_store_remove(const char* path) {
    int i;

    for (i = 0; i < FAKE_NODES; i++)
        if (!strcmp(watcher.nodes[i].path, path))
            watcher.nodes[i].path[0] = '\0';
}

const char* fake_store_get(const char* path) {
    int i;

    for (i = 0; i < FAKE_NODES; i++)
        if (!strcmp(watcher.nodes[i].path, path))
            return watcher.nodes[i].value;
    return NULL;
}

const char* fake_events(void) {
    static const char* const names[] = {"created", "paused",    "unpaused", "shut_down",
                                        "died",    "host_lost", "starved",  "low"};
    static char text[2048];
    size_t used = 0;
    int i;

    text[0] = '\0';
    for (i = 0; i < watcher.n_events; i++) {
        const struct xenpack_event* e = &watcher.events[i];
        int n = snprintf(text + used, sizeof text - used, "%s %u", names[e->type], e->domid);
        used += (size_t)n;
        if (e->shutdown_reason >= 0)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, " reason %d", e->shutdown_reason);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 i + 1 < watcher.n_events ? ", " : "");
    }
    watcher.n_events = 0;
    return text;
}
