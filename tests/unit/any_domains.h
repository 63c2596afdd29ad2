// SPDX-License-Identifier: LGPL-2.1-or-later
// Domains that no host has: any kinds, any amounts, any of them another's template, rings of
// templates too. For tests of account/ of what holds whatever was counted.
#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <vector>

#include "watcher/account/account.h"

namespace xenpack::testing {

inline std::vector<CountedDomain> any_domains(std::mt19937_64& random) {
    const auto amount_kib = [&random] { return random() % (1U << 30); };
    std::vector<CountedDomain> domains(random() % 20);
    for (CountedDomain& domain : domains) {
        domain.kind = static_cast<DomainKind>(random() % 5);
        domain.own_kib = amount_kib();
        domain.shared_kib = amount_kib();
        domain.sized_kib = amount_kib();
        domain.books = {amount_kib(), amount_kib(), 1};
        if (random() % 2 == 0) {
            domain.template_at = random() % domains.size();
        }
    }
    return domains;
}

}  // namespace xenpack::testing
