/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The order in which the plugin called its fakes, one line per call. The fakes add, the tests
 * compare. Fakes never assert: cmocka's longjmp must not cross the plugin's C++ frames.
 */
#pragma once

void calls_add(const char* format, ...) __attribute__((format(printf, 1, 2)));
void calls_clear(void);
const char* calls_text(void);
