// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's pressure trigger: a file descriptor that poll(2) reports POLLPRI for when tasks
// stalled for memory. Reporter polls it.
//
// The trigger is "some 25000 500000": any task stalled for 25 ms in all within half a second.
// - 500 ms is the shortest window the kernel allows, and events come at most once in a window: two
//   a second at the worst.
// - While there are stalls the kernel looks ten times in a window, here each 50 ms. 25 ms is half
// of
//   that: a stall that fills one such time is told at its end, and a lone reclaim of some
//   milliseconds is not.
// Without CAP_SYS_RESOURCE, Linux 6.4 and later only take windows of whole 2 s: then it is
// "some 100000 2000000", told up to 2 s late.
#pragma once

#include <string>

#include "watcher/error.h"
#include "watcher/guest/fd.h"

namespace xenpack::guest {

// Fails where the kernel has no PSI (file missing), has it switched off (psi=0), or refuses the
// trigger. The trigger lives as long as the descriptor; POLLERR means the kernel took it away.
[[nodiscard]] Expected<Fd> open_psi_trigger(const std::string& pressure_file);

}  // namespace xenpack::guest
