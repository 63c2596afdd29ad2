/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Builds and removes the directory that stands for /sys and /proc. Called by the tests' fixtures.
 */
#define _GNU_SOURCE
#include "tests/plugin/fake_host.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/plugin/fake_watcher.h"
#include "tests/plugin/fake_xen.h"

/* The interface gives the struct and the function one name, and declares only the struct. */
const struct xenpack_toolstack_ops* xenpack_toolstack(void);

static char directory[64];

static void die(const char* what) {
    perror(what);
    abort();
}

static void full_path(const char* path, char* out, size_t size) {
    if ((size_t)snprintf(out, size, "%s/%s", directory, path) >= size)
        abort();
}

void fake_host_write(const char* path, const void* contents, size_t size) {
    char full[256];
    char* slash;
    int fd;

    full_path(path, full, sizeof full);
    for (slash = strchr(full + strlen(directory) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    if (fd < 0 || write(fd, contents, size) != (ssize_t)size)
        die(full);
    close(fd);
}

const char* fake_host_read(const char* path) {
    static char text[65536];
    char full[256];
    size_t size;
    FILE* file;

    full_path(path, full, sizeof full);
    file = fopen(full, "r");
    if (!file)
        return NULL;
    size = fread(text, 1, sizeof text - 1, file);
    text[size] = '\0';
    fclose(file);
    return text;
}

static void write_text(const char* path, const char* text) {
    fake_host_write(path, text, strlen(text));
}

void fake_host_unlink(const char* path) {
    char full[256];

    full_path(path, full, sizeof full);
    if (unlink(full))
        die(full);
}

void fake_host_save_helper(int pid, const char* mode, unsigned domid) {
    char path[64], command[256];
    int n;

    snprintf(path, sizeof path, "proc/%d/comm", pid);
    write_text(path, "libxl-save-help\n");
    n = snprintf(command, sizeof command, "/usr/lib/xen/bin/libxl-save-helper%c%s%c%d%c%d%c%u%c0",
                 0, mode, 0, 11, 0, -1, 0, domid, 0);
    snprintf(path, sizeof path, "proc/%d/cmdline", pid);
    fake_host_write(path, command, (size_t)n + 1);
}

void fake_host_make(void) {
    char major[8], minor[8];

    fake_watcher_reset();
    fake_xen_reset();
    strcpy(directory, "/tmp/xenpack-plugin-XXXXXX");
    if (!mkdtemp(directory))
        die(directory);
    if (sscanf(fake_host_plugin()->built_for, "Xen %7[0-9].%7[0-9]", major, minor) != 2)
        abort();
    write_text("sys/hypervisor/type", "xen\n");
    fake_host_write("sys/hypervisor/version/major", major, strlen(major));
    fake_host_write("sys/hypervisor/version/minor", minor, strlen(minor));
    write_text("proc/xen/capabilities", "control_d\n");
    write_text("proc/1/comm", "init\n");
    write_text("libxl-save-helper", "the program itself\n");
}

void fake_host_start_helper(void) {
    char path[128];
    FILE* file;

    snprintf(path, sizeof path, "%s/libxl-save-helper", directory);
    file = fopen(path, "r"); /* as execve would */
    if (!file)
        die(path);
    fclose(file);
}

void fake_host_upgrade_helper(void) {
    char from[128], to[128];

    write_text("libxl-save-helper.new", "another program\n");
    snprintf(from, sizeof from, "%s/libxl-save-helper.new", directory);
    snprintf(to, sizeof to, "%s/libxl-save-helper", directory);
    if (rename(from, to))
        die(from);
}

static int remove_one(const char* path, const struct stat* st, int type, struct FTW* ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fake_host_remove(void) {
    nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int fake_host_open(struct xenpack_toolstack** ts_r, char* error, size_t size) {
    char sysfs[80], proc[80];

    snprintf(sysfs, sizeof sysfs, "%s/sys", directory);
    snprintf(proc, sizeof proc, "%s/proc", directory);
    return open_on(&watcher.ops, sysfs, proc, ts_r, error, size);
}

struct xenpack_toolstack* fake_host_opened(void) {
    struct xenpack_toolstack* ts;
    char error[512];

    if (fake_host_open(&ts, error, sizeof error)) {
        fprintf(stderr, "%s\n", error);
        abort();
    }
    return ts;
}

const struct xenpack_toolstack_ops* fake_host_plugin(void) {
    return xenpack_toolstack();
}
