// SPDX-License-Identifier: LGPL-2.1-or-later
// account/density: that what zones were made for, less what ballooning and sharing give, is what
// they take; and how many more of each kind fit.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/any_domains.h"
#include "watcher/account/density.h"

namespace xenpack {
namespace {

constexpr std::uint64_t kMib = 1024;

CountedDomain counted(DomainKind kind, std::uint64_t sized_mib, std::uint64_t own_mib,
                      std::optional<std::size_t> template_at = {}) {
    return {kind, own_mib * kMib, 0, sized_mib * kMib, {kMib, 0, 1}, template_at};
}

Density density(const std::vector<CountedDomain>& domains, std::uint64_t shared_mib,
                const Spare& spare) {
    xenpack_host_books books{};
    books.shared_kib = shared_mib * kMib;
    return density_of(account_of(books, domains), domains, spare);
}

std::int64_t without_takes(const Density& d) {
    return static_cast<std::int64_t>(d.sized_kib + d.overhead_kib) - d.ballooned_kib - d.shared_kib;
}

TEST(Density, ADayOfZonesAndForks) {
    const std::vector domains{
        counted(DomainKind::dom0, 800, 800),  counted(DomainKind::zone, 512, 200),
        counted(DomainKind::zone, 512, 300),  counted(DomainKind::sealed_template, 256, 50),
        counted(DomainKind::fork, 256, 3, 3), counted(DomainKind::fork, 256, 5, 3),
        counted(DomainKind::fork, 256, 4, 3)};
    const Density d = density(domains, 200, {100 * kMib, 251 * kMib});
    EXPECT_EQ(d.zones, 5U);
    EXPECT_EQ(d.sized_kib, (2 * 512 + 3 * 256) * kMib);
    EXPECT_EQ(d.takes_kib, (201 + 301 + 51 + 200 + 4 + 6 + 5) * kMib);
    EXPECT_EQ(d.overhead_kib, 5 * kMib);
    EXPECT_EQ(d.ballooned_kib, static_cast<std::int64_t>((312 + 212) * kMib));
    EXPECT_EQ(d.shared_kib, static_cast<std::int64_t>((253 + 251 + 252 - 251) * kMib));
    EXPECT_EQ(without_takes(d), static_cast<std::int64_t>(d.takes_kib));
    ASSERT_EQ(d.kinds.size(), 2U);
    EXPECT_EQ(d.kinds[0].template_at, 3U) << "the kind with most comes first";
    EXPECT_EQ(d.kinds[0].count, 3U);
    EXPECT_EQ(d.kinds[0].each_kib, 5 * kMib);
    EXPECT_EQ(d.kinds[0].fit_now, 20U);
    EXPECT_EQ(d.kinds[0].fit_more, 70U);
    EXPECT_EQ(d.kinds[1].sized_kib, 512 * kMib);
    EXPECT_EQ(d.kinds[1].each_kib, 251 * kMib);
    EXPECT_EQ(d.kinds[1].fit_now, 0U);
    EXPECT_EQ(d.kinds[1].fit_more, 1U);
}

TEST(Density, ATemplateWithoutForksCostsAndGivesNothing) {
    const std::vector domains{counted(DomainKind::sealed_template, 256, 50)};
    const Density d = density(domains, 200, {});
    EXPECT_EQ(d.zones, 0U);
    EXPECT_EQ(d.takes_kib, 251 * kMib);
    EXPECT_EQ(d.shared_kib, -static_cast<std::int64_t>(251 * kMib));
    EXPECT_TRUE(d.kinds.empty());
}

TEST(Density, AnyNumbersAddUp) {
    std::mt19937_64 random(7);
    for (int round = 0; round < 1000; ++round) {
        const auto domains = testing::any_domains(random);
        const Density d = density(domains, random() % 4096, {random() % kMib, random() % kMib});
        ASSERT_EQ(without_takes(d), static_cast<std::int64_t>(d.takes_kib));
        std::size_t counted_in_kinds = 0;
        for (const KindDensity& kind : d.kinds) {
            counted_in_kinds += kind.count;
            ASSERT_LE(kind.fit_now, kind.fit_more);
        }
        ASSERT_EQ(counted_in_kinds, d.zones);
    }
}

}  // namespace
}  // namespace xenpack
