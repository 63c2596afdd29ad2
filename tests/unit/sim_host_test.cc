// SPDX-License-Identifier: LGPL-2.1-or-later
// What plugin/sim/host.h promises: every KiB is accounted for, and limits hold.
#include "plugin/sim/host.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plugin/sim/generate.h"

namespace xenpack::sim {
namespace {

constexpr std::uint64_t kMib = 1024;

std::shared_ptr<const Trace> steady(std::uint64_t anon_kib) {
    return std::make_shared<const Trace>(
        Trace{"steady", "", {{0, {anon_kib, anon_kib / 2, 0, 0, 0}}}});
}

HostConfig host_of(std::uint64_t total_mib) {
    return {total_mib * kMib, 64 * kMib, 512 * kMib};
}

DomainConfig domain_of(std::uint64_t memory_mib, std::uint64_t max_mib) {
    DomainConfig config;
    config.memory_kib = memory_mib * kMib;
    config.max_memory_kib = max_mib * kMib;
    return config;
}

void run(Host& host, std::int64_t ms) {
    for (const std::int64_t end = host.now_ms() + ms; host.now_ms() < end;) {
        host.step(100);
    }
}

std::uint64_t accounted_kib(const Host& host) {
    std::uint64_t sum = host.free_kib() + host.config().xen_kib + host.config().dom0_kib;
    for (const auto& domain : host.domains()) {
        sum += domain->current_kib + domain->overhead_kib;
    }
    return sum;
}

TEST(SimHost, AStartCostsItsMemoryItsTablesAndXensRecords) {
    DomainConfig config = domain_of(256, 1024);
    config.vcpus = 2;
    // 1 MiB a vCPU, a page for each MiB of maxmem, and 2 MiB.
    EXPECT_EQ(Host::start_cost_kib(config), 256 * kMib + 2 * kMib + 4 * 1024 + 2 * kMib);
    Host host(host_of(4096));
    const std::uint64_t before = host.free_kib();
    const Domain* domain = host.create(config, steady(0));
    ASSERT_NE(domain, nullptr);
    EXPECT_EQ(before - host.free_kib(), Host::start_cost_kib(config));
    EXPECT_EQ(domain->current_kib, 256 * kMib);
    EXPECT_EQ(domain->target_kib, 256 * kMib);
    EXPECT_EQ(domain->limit_kib, 257 * kMib);
}

TEST(SimHost, AStartThatDoesNotFitTakesNothing) {
    Host host(host_of(1024));
    const std::uint64_t before = host.free_kib();
    EXPECT_EQ(host.create(domain_of(448, 448), steady(0)), nullptr);
    EXPECT_EQ(host.free_kib(), before);
    EXPECT_TRUE(host.domains().empty());
    EXPECT_NE(host.create(domain_of(440, 440), steady(0)), nullptr);
}

TEST(SimHost, AStartMayTakeTheLastPage) {
    const DomainConfig config = domain_of(256, 512);
    Host host({Host::start_cost_kib(config) + 100, 60, 40});
    ASSERT_NE(host.create(config, steady(0)), nullptr);
    EXPECT_EQ(host.free_kib(), 0U);
}

TEST(SimHost, XenAndDom0NeverHaveMoreThanThereIs) {
    EXPECT_EQ(Host({100, 60, 50}).free_kib(), 0U);
    EXPECT_EQ(Host({100, 200, 50}).config().dom0_kib, 0U);
}

TEST(SimHost, DestroyGivesEverythingBackAndADomidIsNeverUsedAgain) {
    Host host(host_of(4096));
    const std::uint64_t before = host.free_kib();
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 20; ++i) {
        Domain* domain = host.create(domain_of(256, 512), steady(100 * kMib));
        ASSERT_NE(domain, nullptr);
        const std::uint32_t domid = domain->domid;
        EXPECT_TRUE(seen.insert(domid).second);
        EXPECT_EQ(host.find(domid), domain);
        host.set_target(*domain, 300 * kMib, false);
        run(host, 3000);
        EXPECT_EQ(domain->current_kib, 300 * kMib);
        host.destroy(domid);
        EXPECT_EQ(host.find(domid), nullptr);
        host.destroy(domid);
        EXPECT_EQ(host.free_kib(), before);
    }
}

TEST(SimHost, ATargetMovesTheLimitWithIt) {
    Host host(host_of(4096));
    Domain& domain = *host.create(domain_of(512, 1024), steady(0));
    host.set_target(domain, 700 * kMib, false);
    EXPECT_EQ(domain.target_kib, 700 * kMib);
    EXPECT_EQ(domain.limit_kib, 701 * kMib);
    host.set_target(domain, 300 * kMib, true);
    EXPECT_EQ(domain.limit_kib, 701 * kMib);
    host.set_target(domain, 800 * kMib, true);
    EXPECT_EQ(domain.limit_kib, 801 * kMib);
    host.set_target(domain, 300 * kMib, false);
    EXPECT_EQ(domain.limit_kib, 301 * kMib);
    host.set_limit(domain, 400 * kMib);
    EXPECT_EQ(domain.limit_kib, 401 * kMib);
    EXPECT_EQ(domain.target_kib, 300 * kMib);
}

TEST(SimHost, ADomainGrowsWithinItsLimitOnly) {
    Host host(host_of(4096));
    Domain& domain = *host.create(domain_of(512, 1024), steady(0));
    host.set_target(domain, 700 * kMib, false);
    host.set_limit(domain, 600 * kMib);
    run(host, 5000);
    EXPECT_EQ(domain.current_kib, 601 * kMib);
    // A limit below what it holds takes nothing away.
    host.set_limit(domain, 400 * kMib);
    run(host, 20'000);
    EXPECT_EQ(domain.current_kib, 601 * kMib);
}

TEST(SimHost, NobodyGrowsBeyondMaxmemAndNobodyTires) {
    Host host(host_of(4096));
    Domain& domain = *host.create(domain_of(512, 600), steady(0));
    host.set_target(domain, 900 * kMib, false);
    run(host, 60'000);
    EXPECT_EQ(domain.current_kib, 600 * kMib);
    EXPECT_FALSE(domain.balloon.asleep(host.now_ms()));
}

TEST(SimHost, GrowthEndsWithFreeMemoryAndItsDriverFallsAsleep) {
    Host host(host_of(2048));
    Domain& domain = *host.create(domain_of(512, 2048), steady(0));
    host.set_target(domain, 2000 * kMib, false);
    run(host, 30'000);
    EXPECT_LT(host.free_kib(), 4U);
    EXPECT_TRUE(domain.balloon.asleep(host.now_ms()));
}

TEST(SimHost, ADomainOfLessMemoryThanMaxmemFollowsOnceItHasBooted) {
    Host host(host_of(4096));
    DomainConfig config = domain_of(256, 2048);
    config.balloon.boot_ms = 4000;
    Domain& domain = *host.create(config, steady(0));
    host.set_target(domain, 400 * kMib, false);
    run(host, 3900);
    EXPECT_EQ(domain.current_kib, 256 * kMib);
    run(host, 1000);
    EXPECT_EQ(domain.current_kib, 400 * kMib);
    // What the kernel has made for all of maxmem is paid for by the little that it holds.
    EXPECT_EQ(domain.guest.stats().total_kib, (400 - 2048 / 64 - 2048 / 512 - 46) * kMib);
}

TEST(SimHost, TheBalloonLeavesAnonymousMemoryAlone) {
    Host host(host_of(4096));
    Domain& domain = *host.create(domain_of(1024, 1024), steady(500 * kMib));
    run(host, 5000);
    host.set_target(domain, 100 * kMib, false);
    run(host, 30'000);
    EXPECT_GE(domain.current_kib, 500 * kMib + domain.guest.overhead_kib());
    // It leaves what MemAvailable does not count: watermarks of 66 MiB, and a little.
    EXPECT_LE(domain.current_kib, 571 * kMib + domain.guest.overhead_kib());
    EXPECT_EQ(domain.guest.stats().oom_kills, 0U);
    EXPECT_EQ(domain.guest.stats().stalled_us, 0U);
    EXPECT_TRUE(domain.balloon.asleep(host.now_ms()));
}

TEST(SimHost, APausedDomainStandsStill) {
    Host host(host_of(4096));
    Domain& domain = *host.create(domain_of(512, 1024), steady(0));
    run(host, 3000);
    domain.paused = true;
    host.set_target(domain, 700 * kMib, false);
    run(host, 3000);
    EXPECT_EQ(domain.current_kib, 512 * kMib);
    EXPECT_EQ(domain.guest.stats().uptime_ms, 3000);
    domain.paused = false;
    run(host, 1000);
    EXPECT_EQ(domain.current_kib, 700 * kMib);
}

TEST(SimHost, NothingIsEverLostOrMadeUp) {
    std::mt19937_64 random(7);
    const auto below = [&random](std::uint64_t most) { return random() % most; };
    Host host(host_of(8192));
    const auto trace = std::make_shared<const Trace>(bursts({.gap_ms = 5000}));
    for (int i = 0; i < 20'000; ++i) {
        const auto& domains = host.domains();
        Domain* one = domains.empty() ? nullptr : domains[below(domains.size())].get();
        switch (below(12)) {
            case 0: {
                DomainConfig config = domain_of(1 + below(700), below(3000));
                config.vcpus = static_cast<unsigned>(1 + below(8));
                config.memory_kib += below(5);
                config.guest.swap_kib = below(2) * 100 * kMib;
                config.balloon.dead = below(10) == 0;
                config.balloon.offset_kib = static_cast<std::int64_t>(below(9000)) - 4500;
                (void)host.create(config, trace);
                break;
            }
            case 1:
                host.destroy(one != nullptr ? one->domid : 77);
                break;
            case 2:
                if (one != nullptr) {
                    host.set_limit(*one, below(4000 * kMib));
                }
                break;
            case 3:
            case 4:
                if (one != nullptr) {
                    host.set_target(*one, below(4000 * kMib), below(2) == 0);
                }
                break;
            default:
                host.step(static_cast<std::int64_t>(below(700)));
        }
        ASSERT_EQ(accounted_kib(host), host.config().total_kib) << "after operation " << i;
        for (const auto& domain : host.domains()) {
            ASSERT_LE(domain->current_kib, domain->config.max_memory_kib);
            ASSERT_EQ(domain->current_kib % 4, 0U);
        }
    }
    EXPECT_GT(host.now_ms(), 1'000'000);
}

TEST(SimHost, TheSameCallsGiveTheSameHost) {
    const auto played = [] {
        Host host(host_of(4096));
        const auto trace = std::make_shared<const Trace>(training({}));
        for (int i = 0; i < 5; ++i) {
            (void)host.create(domain_of(400, 1024), trace);
        }
        for (std::uint64_t i = 0; i < 2000; ++i) {
            host.set_target(*host.domains()[i % 5], (300 + i % 400) * kMib, false);
            host.step(100);
        }
        std::vector<std::uint64_t> result;
        for (const auto& domain : host.domains()) {
            const GuestStats& stats = domain->guest.stats();
            result.insert(result.end(), {domain->current_kib, stats.stalled_us, stats.refaults,
                                         stats.available_kib, stats.oom_kills});
        }
        return result;
    };
    EXPECT_EQ(played(), played());
}

TEST(SimHost, AForkTakesPagesOnlyAsItWrites) {
    Host host(host_of(2048));
    Domain* const source = host.create(domain_of(256, 256), steady(40 * kMib));
    run(host, 5'000);
    source->paused = true;
    const std::uint64_t free_before = host.free_kib();
    Domain* const fork = host.fork(*source);
    ASSERT_NE(fork, nullptr);
    EXPECT_EQ(fork->held_kib(), 256 * kMib);
    EXPECT_EQ(free_before - host.free_kib(), Host::fork_cost_kib(source->config));
    EXPECT_EQ(fork->guest.stats().total_kib, source->guest.stats().total_kib);
    fork->paused = false;
    std::uint64_t own = fork->current_kib;
    for (int second = 0; second < 60; ++second) {
        run(host, 1'000);
        EXPECT_GE(fork->current_kib, own);
        own = fork->current_kib;
        EXPECT_EQ(fork->held_kib(), 256 * kMib);
        EXPECT_EQ(accounted_kib(host), host.config().total_kib);
    }
    EXPECT_GT(own, 3 * kMib);
    EXPECT_LT(own, 32 * kMib);
    EXPECT_EQ(source->current_kib, 256 * kMib);
    host.destroy(fork->domid);
    EXPECT_EQ(host.free_kib(), free_before);
}

TEST(SimHost, AForkThatIsBalloonedGivesBackWhatIsItsOwn) {
    Host host(host_of(2048));
    Domain* const source = host.create(domain_of(256, 256), steady(10 * kMib));
    run(host, 5'000);
    source->paused = true;
    Domain* const fork = host.fork(*source);
    fork->paused = false;
    host.set_target(*fork, 160 * kMib, false);
    run(host, 5'000);
    EXPECT_EQ(fork->held_kib(), 160 * kMib);
    EXPECT_EQ(accounted_kib(host), host.config().total_kib);
    host.set_target(*fork, 256 * kMib, false);
    run(host, 5'000);
    EXPECT_EQ(fork->held_kib(), 256 * kMib);
    EXPECT_GT(fork->current_kib, 96 * kMib) << "what it gets anew is not shared";
    EXPECT_EQ(accounted_kib(host), host.config().total_kib);
}

TEST(SimHost, AForkThatWritesWhereNothingIsFreeIsStarved) {
    Host host(host_of(1024));
    Domain* const source = host.create(domain_of(256, 256), steady(100 * kMib));
    run(host, 5'000);
    source->paused = true;
    Domain* const fork = host.fork(*source);
    fork->paused = false;
    const std::uint64_t left = host.free_kib() - Host::start_cost_kib(domain_of(0, 0));
    DomainConfig rest = domain_of(0, 0);
    rest.memory_kib = left - 4 * kMib;
    const Domain* const hog = host.create(rest, steady(kMib));
    ASSERT_NE(hog, nullptr);
    for (int second = 0; second < 600 && !fork->fork->starved; ++second) {
        run(host, 1'000);
    }
    EXPECT_TRUE(fork->fork->starved);
    EXPECT_EQ(accounted_kib(host), host.config().total_kib);
    EXPECT_EQ(host.free_kib(), 0U) << "it has taken what there was";
    EXPECT_EQ(host.fork(*source), nullptr) << "there is no room for another";
    const std::int64_t worked_ms = fork->guest.stats().worked_ms;
    run(host, 1'000);
    EXPECT_EQ(fork->guest.stats().worked_ms, worked_ms) << "it waits";
    Host::feed(*fork);
    run(host, 1'000);
    EXPECT_TRUE(fork->fork->starved) << "there is still nothing";
    host.destroy(hog->domid);
    Host::feed(*fork);
    run(host, 1'000);
    EXPECT_FALSE(fork->fork->starved);
    EXPECT_GT(fork->guest.stats().worked_ms, worked_ms);
}

TEST(SimHost, AForkMayBeToldToWriteOverAllThatItShares) {
    Host host(host_of(2048));
    DomainConfig config = domain_of(256, 256);
    config.fork_writes_kib_per_s = 20 * kMib;
    Domain* const source = host.create(config, steady(10 * kMib));
    run(host, 5'000);
    source->paused = true;
    Domain* const fork = host.fork(*source);
    fork->paused = false;
    run(host, 5'000);
    EXPECT_GE(fork->current_kib, 100 * kMib);
    EXPECT_LT(fork->current_kib, 110 * kMib);
    run(host, 10'000);
    EXPECT_EQ(fork->current_kib, 256 * kMib);
    EXPECT_EQ(fork->fork->shared_kib, 0U);
    EXPECT_EQ(accounted_kib(host), host.config().total_kib);
}

}  // namespace
}  // namespace xenpack::sim
