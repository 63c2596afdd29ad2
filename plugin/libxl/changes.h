// SPDX-License-Identifier: LGPL-2.1-or-later
// What has happened to the domains between two looks at them. Pure: two lists in, events out.
// Called by DomainWatch.
#pragma once

#include <vector>

#include "plugin/toolstack.h"

namespace xenpack {

// Both lists are in ascending domid. A domain is the same where domid and uuid are; a domid with
// another uuid is one domain that died and one that was created.
//
// Deaths of domains no longer listed come first, then the rest in ascending domid. For a new domain
// CREATED comes first; DIED or SHUT_DOWN follow where that is how it was found. Being created
// paused is no event: whether it is paused then is in the list. A domain that runs again after a
// shutdown, as after a suspend that was cancelled, is UNPAUSED.
std::vector<xenpack_event> changes(const std::vector<xenpack_domain>& before,
                                   const std::vector<xenpack_domain>& now);

// The domain of `domains` with this domid and uuid, or null.
const xenpack_domain* find_domain(const std::vector<xenpack_domain>& domains,
                                  const xenpack_domain& like) noexcept;

}  // namespace xenpack
