// SPDX-License-Identifier: LGPL-2.1-or-later
// account/: that a host's parts and the remainder are all it has, whatever was counted; what each
// domain takes and frees; and how families are added up.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/any_domains.h"
#include "watcher/account/account.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;

CountedDomain counted(DomainKind kind, std::uint64_t own_kib, std::uint64_t shared_kib = 0,
                      std::optional<std::size_t> template_at = {}) {
    return {kind, own_kib, shared_kib, 256 * kMib, {1 * kMib, 123, 1}, template_at};
}

std::int64_t sum_of(const HostAccount& host) {
    return static_cast<std::int64_t>(host.dom0_kib + host.zones_kib + host.forks_kib +
                                     host.templates_kib + host.others_kib + host.shared_kib +
                                     host.paging_kib + host.records_kib + host.map_kib +
                                     host.free_kib) +
           host.remainder_kib;
}

TEST(Account, PartsAndRemainderAreAllThereIs) {
    const xenpack_host_books books{4096 * kMib, 1000 * kMib, 0, 40 * kMib, 200 * kMib, 900 * kMib};
    const std::vector domains{counted(DomainKind::dom0, 800 * kMib),
                              counted(DomainKind::zone, 512 * kMib),
                              counted(DomainKind::other, 256 * kMib),
                              counted(DomainKind::sealed_template, 50 * kMib, 200 * kMib),
                              counted(DomainKind::fork, 3 * kMib, 100 * kMib, 3)};
    const HostAccount host = account_of(books, domains).host;
    EXPECT_EQ(host.dom0_kib, 800 * kMib);
    EXPECT_EQ(host.zones_kib, 512 * kMib);
    EXPECT_EQ(host.others_kib, 256 * kMib);
    EXPECT_EQ(host.templates_kib, 50 * kMib);
    EXPECT_EQ(host.forks_kib, 3 * kMib);
    EXPECT_EQ(host.shared_kib, 200 * kMib) << "each page once";
    EXPECT_EQ(host.paging_kib, 5 * kMib);
    EXPECT_EQ(host.records_kib, 5 * 123);
    EXPECT_EQ(sum_of(host), static_cast<std::int64_t>(host.total_kib));
}

TEST(Account, WhatIsCountedTwiceIsARemainderBelowZero) {
    const xenpack_host_books books{1000 * kMib, 600 * kMib, 0, 0, 0, 0};
    const std::vector domains{counted(DomainKind::dom0, 500 * kMib)};
    EXPECT_EQ(account_of(books, domains).host.remainder_kib,
              -static_cast<std::int64_t>(101 * kMib + 123));
}

TEST(Account, ADomainTakesWhatItHasAndWhatXenHasForIt) {
    const std::vector domains{counted(DomainKind::zone, 100 * kMib)};
    const DomainCost cost = account_of({}, domains).domains[0];
    EXPECT_EQ(cost.takes_kib, 101 * kMib + 123);
    EXPECT_EQ(cost.frees_kib, cost.takes_kib);
}

TEST(Account, Dom0AndATemplateWithForksFreeNothing) {
    const std::vector domains{counted(DomainKind::dom0, 800 * kMib),
                              counted(DomainKind::sealed_template, 50 * kMib, 200 * kMib),
                              counted(DomainKind::fork, 3 * kMib, 100 * kMib, 1)};
    const Account account = account_of({}, domains);
    EXPECT_FALSE(account.domains[0].frees_kib);
    EXPECT_FALSE(account.domains[1].frees_kib);
    EXPECT_EQ(account.domains[1].forks, 1U);
    EXPECT_EQ(account.domains[2].frees_kib, 4 * kMib + 123) << "what it shares its template keeps";
}

TEST(Account, ATemplateWithoutForksFreesWhatItHadShared) {
    const std::vector domains{counted(DomainKind::sealed_template, 50 * kMib, 200 * kMib)};
    EXPECT_EQ(account_of({}, domains).domains[0].frees_kib, 251 * kMib + 123);
}

TEST(Account, ATemplateThatWasAForkFreesOnlyWhatIsItsOwn) {
    const std::vector domains{counted(DomainKind::sealed_template, 50 * kMib, 200 * kMib),
                              counted(DomainKind::sealed_template, 8 * kMib, 90 * kMib, 0)};
    EXPECT_EQ(account_of({}, domains).domains[1].frees_kib, 9 * kMib + 123);
}

TEST(Account, AFamilyIsItsRootAndAllThatComeFromIt) {
    const std::vector domains{counted(DomainKind::sealed_template, 50 * kMib, 200 * kMib),
                              counted(DomainKind::zone, 512 * kMib),
                              counted(DomainKind::sealed_template, 8 * kMib, 90 * kMib, 0),
                              counted(DomainKind::fork, 3 * kMib, 60 * kMib, 2),
                              counted(DomainKind::sealed_template, 70 * kMib)};
    const auto families = account_of({}, domains).families;
    ASSERT_EQ(families.size(), 2U);
    EXPECT_EQ(families[0].root, 0U);
    EXPECT_EQ(families[0].forks, 2U);
    EXPECT_EQ(families[0].shared_kib, 200 * kMib);
    EXPECT_EQ(families[0].takes_kib, (50 + 8 + 3 + 200 + 3) * kMib + 3 * 123);
    EXPECT_EQ(families[0].sized_kib, 3 * 256 * kMib);
    EXPECT_EQ(families[1].root, 4U);
    EXPECT_EQ(families[1].forks, 0U);
}

TEST(Account, ForksWhoseTemplateIsNoneMakeNoFamily) {
    const std::vector domains{counted(DomainKind::other, 50 * kMib),
                              counted(DomainKind::fork, 3 * kMib, 60 * kMib, 0)};
    EXPECT_TRUE(account_of({}, domains).families.empty());
}

TEST(Account, AnyNumbersAddUp) {
    std::mt19937_64 random(5);
    for (int round = 0; round < 1000; ++round) {
        const auto domains = testing::any_domains(random);
        const xenpack_host_books books{random() % (1ULL << 40), random() % (1U << 30), 0,
                                       random() % (1U << 20),   random() % (1U << 30), 0};
        const Account account = account_of(books, domains);
        ASSERT_EQ(sum_of(account.host), static_cast<std::int64_t>(books.total_kib));
        ASSERT_EQ(account.domains.size(), domains.size()) << "rings of templates end as well";
    }
}

}  // namespace
}  // namespace xenpack
