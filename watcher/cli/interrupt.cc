// SPDX-License-Identifier: LGPL-2.1-or-later
// Signal handlers of the command line. Called by status --watch and events.
#include "watcher/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace xenpack {

namespace {

// _exit is among the few calls a handler may make.
void on_interrupt(int) {
    _exit(0);
}

}  // namespace

void end_well_when_interrupted() {
    struct sigaction action {};
    action.sa_handler = &on_interrupt;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

}  // namespace xenpack
