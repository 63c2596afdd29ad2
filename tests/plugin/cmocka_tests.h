/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every test file here begins with: cmocka with the headers it wants, the fakes, a fixture. */
#pragma once

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <errno.h>
#include <string.h>

#include "tests/plugin/calls.h"
#include "tests/plugin/fake_host.h"
#include "tests/plugin/fake_ring.h"
#include "tests/plugin/fake_watcher.h"
#include "tests/plugin/fake_xen.h"

#define UUID(first) ((const uint8_t[16]){first})

static inline int host_up(void** state) {
    (void)state;
    fake_host_make();
    return 0;
}

/* With the plugin open: *state is the toolstack. */
static inline int plugin_up(void** state) {
    fake_host_make();
    *state = fake_host_opened();
    return 0;
}

/* A closed plugin leaves nothing with the loop or with Xen, and has kept libxl's rules. */
static inline int plugin_down(void** state) {
    if (*state)
        fake_host_plugin()->close(*state);
    fake_host_remove();
    return fake_loop_registered() || xen.contexts || xen.interfaces || xen.watched ||
           xen.breaches || fake_ring_left();
}

static inline int host_down(void** state) {
    *state = NULL;
    return plugin_down(state);
}
