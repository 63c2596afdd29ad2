/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The plugin opened on files of the test's own instead of /sys and /proc, with the fake watcher and
 * the fake Xen. Everything under one temporary directory, removed by fake_host_remove().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "plugin/toolstack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A control domain under the Xen the plugin was built for; fresh watcher and fresh Xen. */
void fake_host_make(void);
void fake_host_remove(void);

/* Writes DIR/PATH, making its directories. `path` begins with "sys/", "proc/", "scripts/" or
 * "run/".
 */
void fake_host_write(const char* path, const void* contents, size_t size);
/* The text of DIR/PATH, until the next call; NULL where there is no such file. */
const char* fake_host_read(const char* path);
void fake_host_unlink(const char* path);
/* A process libxl's helper: argv as libxl runs it, `mode` "--save-domain" or "--restore-domain". */
/* Opens the helper's program, as starting it does; the process is fake_host_save_helper()'s. */
void fake_host_start_helper(void);
/* Replaces the helper's program, as an upgrade does. */
void fake_host_upgrade_helper(void);
void fake_host_save_helper(int pid, const char* mode, unsigned domid);

/* The plugin's open() on those files. */
int fake_host_open(struct xenpack_toolstack** ts_r, char* error, size_t size);
/* Opens it; aborts the test where that fails. */
struct xenpack_toolstack* fake_host_opened(void);
const struct xenpack_toolstack_ops* fake_host_plugin(void);

/* In open_on.cc, which sees the plugin's C++. */
int open_on(const struct xenpack_watcher_ops* watcher, const char* sysfs, const char* proc,
            struct xenpack_toolstack** ts_r, char* error, size_t size);

#ifdef __cplusplus
}
#endif
