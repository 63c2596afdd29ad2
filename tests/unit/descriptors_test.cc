// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/loop/descriptors.h promises, on the limits of this very process.
#include "watcher/loop/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace xenpack {
namespace {

rlimit limit() {
    rlimit now{};
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    return now;
}

TEST(Descriptors, AreRaisedAsFarAsIsPermittedAndNeverLowered) {
    const rlimit before = limit();
    const rlim_t most = std::min<rlim_t>(before.rlim_max, kEnoughDescriptors);
    rlimit low{most / 2, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    raise_descriptor_limit();
    EXPECT_EQ(limit().rlim_cur, most);
    EXPECT_EQ(limit().rlim_max, before.rlim_max);
    rlimit high{before.rlim_max, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &high), 0);
    raise_descriptor_limit();
    EXPECT_EQ(limit().rlim_cur, before.rlim_max);
    setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace xenpack
