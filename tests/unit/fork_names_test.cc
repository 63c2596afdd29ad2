// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/fork/names.h promises of the names of templates and forks.
#include "watcher/fork/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace xenpack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::set<std::string, std::less<>> kNone;

TEST(ForkNames, NumbersRunFromOneAndPassOverNamesThatAreTaken) {
    EXPECT_THAT(choose_names("job-%d", 3, kNone).value(), ElementsAre("job-1", "job-2", "job-3"));
    EXPECT_THAT(choose_names("job-%d.x", 3, {"job-1.x", "job-3.x", "job-2"}).value(),
                ElementsAre("job-2.x", "job-4.x", "job-5.x"));
}

TEST(ForkNames, OneForkNeedsNoNumber) {
    EXPECT_THAT(choose_names("db", 1, {"web"}).value(), ElementsAre("db"));
    const auto taken = choose_names("db", 1, {"db"});
    EXPECT_EQ(taken.error().code, EEXIST);
    EXPECT_THAT(taken.error().what, HasSubstr("db"));
}

TEST(ForkNames, SeveralCannotHaveOneName) {
    const auto refused = choose_names("same", 2, kNone);
    EXPECT_EQ(refused.error().code, EINVAL);
    EXPECT_THAT(refused.error().what, HasSubstr("%d"));
}

TEST(ForkNames, ACountMustBeOne) {
    EXPECT_THAT(choose_names("x-%d", 0, kNone).error().what, HasSubstr("0 is no number of forks"));
    EXPECT_EQ(choose_names("x-%d", kMostForksAtOnce + 1, kNone).error().code, EINVAL);
    EXPECT_EQ(choose_names("x-%d", kMostForksAtOnce, kNone)->size(), kMostForksAtOnce);
}

TEST(ForkNames, AreHostsNamesAndNoDomids) {
    for (const char* good : {"a", "A.b_c-9", "0x"}) {
        EXPECT_TRUE(check_name(good)) << good;
    }
    for (const std::string& bad :
         {std::string(), std::string("a/b"), std::string("a b"), std::string("7"),
          std::string("a\nb"), std::string("-a"), std::string("."), std::string("\xc3\xbc"),
          std::string(65, 'a')}) {
        EXPECT_EQ(check_name(bad).error().code, EINVAL) << bad;
        EXPECT_EQ(choose_names(bad, 1, kNone).error().code, EINVAL) << bad;
    }
    EXPECT_THAT(choose_names("%d-x", 1, kNone).value(), ElementsAre("1-x"));
    for (const char* bad : {"%d", "-%d", "a/%d", "%d-%d", "%s", "%"}) {
        EXPECT_EQ(choose_names(bad, 1, kNone).error().code, EINVAL) << bad;
    }
    EXPECT_TRUE(choose_names(std::string(63, 'a') + "%d", 9, kNone));
    EXPECT_EQ(choose_names(std::string(63, 'a') + "%d", 10, kNone).error().code, EINVAL);
}

TEST(ForkNames, ARefusalIsOneLineWhateverTheNameWas) {
    const std::string said = check_name("a\x1b[2J\nb" + std::string(200, 'x')).error().what;
    EXPECT_EQ(said.find_first_of("\n\x1b"), std::string::npos);
    EXPECT_LT(said.size(), 250U);
}

}  // namespace
}  // namespace xenpack
