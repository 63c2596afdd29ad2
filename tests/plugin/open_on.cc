// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin's open() with files of the test's choosing, for tests in C. Called by fake_host.c.
#include <unistd.h>

#include <string>

#include "plugin/libxl/toolstack.h"
#include "tests/plugin/fake_host.h"

int open_on(const xenpack_watcher_ops* watcher, const char* sysfs, const char* proc,
            xenpack_toolstack** ts_r, char* error, std::size_t size) {
    // Beside proc: a test that makes this file before open() has a helper whose starts are noticed.
    const std::string helper = std::string(proc) + "/../libxl-save-helper";
    const std::string scripts = std::string(proc) + "/../scripts";
    // As above: a test that has made this directory has forks paused when the watcher ends.
    const std::string run = std::string(proc) + "/../run";
    const std::string paused = ::access(run.c_str(), F_OK) == 0 ? run + "/paused-forks" : "";
    return xenpack::open_toolstack(watcher, {sysfs, proc, {helper}, scripts, paused}, ts_r, error,
                                   size);
}
