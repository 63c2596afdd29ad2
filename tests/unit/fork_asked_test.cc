// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/fork/asked.h promises: bounds are kept, and an address is one.
#include "watcher/fork/asked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace xenpack {
namespace {

using ::testing::HasSubstr;

TEST(Asked, ATimeoutIsWithinItsBounds) {
    EXPECT_TRUE(check_timeout(kAnswerLeastMs));
    EXPECT_TRUE(check_timeout(kAnswerMostMs));
    for (const std::int64_t bad : {std::int64_t{0}, kAnswerLeastMs - 1, kAnswerMostMs + 1}) {
        EXPECT_EQ(check_timeout(bad).error().code, EINVAL) << bad;
    }
    EXPECT_THAT(check_timeout(1).error().what,
                HasSubstr("1 ms is not between 100 ms and 3600.0 s"));
}

TEST(Asked, AnAddressIsOne) {
    for (const char* good :
         {"", "10.0.0.7", "10.0.0.7/24", "10.0.0.7/0", "10.0.0.7/32", "fd00::7", "fd00::7/64",
          "::/128", "10.0.0.7/24 10.0.0.1", "10.0.0.7/24 fd00::7/64"}) {
        EXPECT_TRUE(check_address(good)) << good;
    }
    for (const char* bad :
         {"banana", "10.0.0", "10.0.0.256", "10.0.0.7/", "10.0.0.7/33", "10.0.0.7/24/1",
          "10.0.0.7/-1", "10.0.0.7/+4", "10.0.0.7 /24", "/24", "fd00::7/129", "fd00:::7",
          " 10.0.0.7", "10.0.0.7\n", "10.0.0.7 ", "10.0.0.7  10.0.0.1", "10.0.0.7 banana"}) {
        EXPECT_EQ(check_address(bad).error().code, EINVAL) << bad;
    }
    EXPECT_EQ(check_address(std::string(300, '1')).error().code, EINVAL);
    EXPECT_FALSE(check_address(std::string("10.0.0.7\0x", 10)));
    EXPECT_THAT(check_address("a\nb").error().what, HasSubstr("'a?b' is no address"));
}

}  // namespace
}  // namespace xenpack
