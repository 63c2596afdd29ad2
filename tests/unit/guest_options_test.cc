// SPDX-License-Identifier: LGPL-2.1-or-later
// The command line of xenpack-guest: what it takes, and what it refuses in words.
#include "watcher/guest/options.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace xenpack::guest {
namespace {

Expected<Options> parse(std::initializer_list<const char*> arguments) {
    return parse_options({arguments.begin(), arguments.size()});
}

std::string refusal(std::initializer_list<const char*> arguments) {
    const auto options = parse(arguments);
    return options ? "accepted" : options.error().what;
}

TEST(GuestOptions, RunsWithAHeartbeatOfHalfAMinuteAndNoBrake) {
    const auto options = parse({});
    ASSERT_TRUE(options);
    EXPECT_EQ(options->action, Options::Action::run);
    EXPECT_EQ(options->heartbeat_s, 30U);
    EXPECT_TRUE(options->brake.empty());
}

TEST(GuestOptions, TakesValuesBehindEqualsOrAsTheNextWord) {
    const auto spaced = parse({"--heartbeat", "7", "--brake", "/sys/fs/cgroup/w"});
    const auto joined = parse({"--heartbeat=7", "--brake=/sys/fs/cgroup/w"});
    ASSERT_TRUE(spaced && joined);
    EXPECT_EQ(spaced->heartbeat_s, 7U);
    EXPECT_EQ(joined->heartbeat_s, 7U);
    EXPECT_EQ(spaced->brake, "/sys/fs/cgroup/w");
    EXPECT_EQ(joined->brake, "/sys/fs/cgroup/w");
}

TEST(GuestOptions, KnowsItsActions) {
    EXPECT_EQ(parse({"--once"})->action, Options::Action::once);
    EXPECT_EQ(parse({"--help"})->action, Options::Action::help);
    EXPECT_EQ(parse({"-h"})->action, Options::Action::help);
    EXPECT_EQ(parse({"--version"})->action, Options::Action::version);
}

TEST(GuestOptions, ForkHasANumberAndNames) {
    EXPECT_EQ(parse({"fork"})->action, Options::Action::fork);
    EXPECT_EQ(parse({"fork"})->forks, 1U);
    const auto options = parse({"fork", "4", "--name", "job-%d"});
    ASSERT_TRUE(options);
    EXPECT_EQ(options->forks, 4U);
    EXPECT_EQ(options->fork_name, "job-%d");
    EXPECT_EQ(parse({"fork", "--name=j%d"})->fork_name, "j%d");
    for (const auto& bad :
         {"0", "257", "-1", "x", "--once", "--name=", "--name=job", "--name=%d%d"}) {
        EXPECT_FALSE(parse({"fork", bad})) << bad;
    }
    EXPECT_FALSE(parse({"--heartbeat=7", "fork"}));
    EXPECT_EQ(parse({"fork", "--help"})->action, Options::Action::help);
    EXPECT_EQ(parse({"fork", "2", "-h"})->action, Options::Action::help);
    EXPECT_FALSE(parse({"fork", "--help=1"}));
}

TEST(GuestOptions, HeartbeatHasTheRangeOfTheReport) {
    EXPECT_EQ(parse({"--heartbeat=1"})->heartbeat_s, 1U);
    EXPECT_EQ(parse({"--heartbeat=600"})->heartbeat_s, 600U);
    const std::string words = "--heartbeat needs a number of seconds from 1 to 600";
    for (const char* bad : {"--heartbeat=0", "--heartbeat=601", "--heartbeat=-1", "--heartbeat=5s",
                            "--heartbeat=", "--heartbeat"}) {
        EXPECT_EQ(refusal({bad}), words) << bad;
    }
}

TEST(GuestOptions, BrakeNeedsAnAbsolutePath) {
    EXPECT_NE(refusal({"--brake"}), "accepted");
    EXPECT_NE(refusal({"--brake="}), "accepted");
    EXPECT_NE(refusal({"--brake", "workload"}), "accepted");
}

TEST(GuestOptions, WorkloadNeedsAnAbsolutePath) {
    EXPECT_EQ(parse({"--workload=/sys/fs/cgroup/w"})->workload, "/sys/fs/cgroup/w");
    EXPECT_TRUE(parse({"--brake=/sys/fs/cgroup/w"})->workload.empty());
    EXPECT_EQ(refusal({"--workload"}),
              "--workload needs the path of a cgroup, as in /sys/fs/cgroup/workload");
    EXPECT_NE(refusal({"--workload", "w"}), "accepted");
}

TEST(GuestOptions, RefusesWhatItDoesNotKnow) {
    EXPECT_EQ(refusal({"--fast"}), "unknown option --fast; --help lists them");
    EXPECT_EQ(refusal({"once"}), "unknown option once; --help lists them");
    EXPECT_NE(refusal({"--once=1"}), "accepted");
    EXPECT_NE(refusal({""}), "accepted");
}

TEST(GuestOptions, HelpNamesEveryOption) {
    for (const char* name :
         {"--heartbeat", "--brake", "--workload", "--once", "--help", "--version"}) {
        EXPECT_NE(help_text().find(name), std::string_view::npos) << name;
    }
}

}  // namespace
}  // namespace xenpack::guest
