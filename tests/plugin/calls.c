/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A text that grows by a line per call. Used by every fake; a test that overruns it is aborted. */
#include "tests/plugin/calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static char text[16384];
static size_t used;

void calls_add(const char* format, ...) {
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    if (n < 0 || used + (size_t)n + 2 > sizeof text)
        abort();
    used += (size_t)n;
    text[used++] = '\n';
    text[used] = '\0';
}

void calls_clear(void) {
    used = 0;
    text[0] = '\0';
}

const char* calls_text(void) {
    return text;
}
