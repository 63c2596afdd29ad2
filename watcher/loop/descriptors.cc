// SPDX-License-Identifier: LGPL-2.1-or-later
// setrlimit(2).
#include "watcher/loop/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

namespace xenpack {

void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    const rlim_t wanted = std::min<rlim_t>(kEnoughDescriptors, limit.rlim_max);
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace xenpack
