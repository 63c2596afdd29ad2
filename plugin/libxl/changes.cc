// SPDX-License-Identifier: LGPL-2.1-or-later
// Compares two lists of domains. No Xen, no clock, no state: the same lists give the same events.
#include "plugin/libxl/changes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace xenpack {
namespace {

bool is(const xenpack_domain& domain, xenpack_domain_flags flag) noexcept {
    return (domain.flags & std::uint32_t{flag}) != 0;
}

class Changes {
  public:
    void report(xenpack_event_type type, const xenpack_domain& domain) {
        xenpack_event event{};
        event.type = type;
        event.domid = domain.domid;
        std::copy_n(domain.uuid, sizeof event.uuid, event.uuid);
        event.shutdown_reason = type == XENPACK_DOMAIN_SHUT_DOWN ? domain.shutdown_reason : -1;
        events_.push_back(event);
    }

    void of_new(const xenpack_domain& now) {
        report(XENPACK_DOMAIN_CREATED, now);
        if (is(now, XENPACK_DOMAIN_IS_DYING)) {
            report(XENPACK_DOMAIN_DIED, now);
        } else if (is(now, XENPACK_DOMAIN_IS_SHUTDOWN)) {
            report(XENPACK_DOMAIN_SHUT_DOWN, now);
        }
    }

    void of_known(const xenpack_domain& before, const xenpack_domain& now) {
        if (is(before, XENPACK_DOMAIN_IS_DYING)) {
            return;
        }
        if (is(now, XENPACK_DOMAIN_IS_DYING)) {
            report(XENPACK_DOMAIN_DIED, now);
            return;
        }
        const bool was_paused = is(before, XENPACK_DOMAIN_IS_PAUSED);
        const bool is_paused = is(now, XENPACK_DOMAIN_IS_PAUSED);
        const bool was_down = is(before, XENPACK_DOMAIN_IS_SHUTDOWN);
        const bool is_down = is(now, XENPACK_DOMAIN_IS_SHUTDOWN);
        if (!was_paused && is_paused) {
            report(XENPACK_DOMAIN_PAUSED, now);
        }
        if ((was_paused && !is_paused) || (was_down && !is_down && !is_paused)) {
            report(XENPACK_DOMAIN_UNPAUSED, now);
        }
        if (is_down && (!was_down || before.shutdown_reason != now.shutdown_reason)) {
            report(XENPACK_DOMAIN_SHUT_DOWN, now);
        }
    }

    std::vector<xenpack_event> take() { return std::move(events_); }

  private:
    std::vector<xenpack_event> events_;
};

}  // namespace

const xenpack_domain* find_domain(const std::vector<xenpack_domain>& domains,
                                  const xenpack_domain& like) noexcept {
    const auto at = std::lower_bound(
        domains.begin(), domains.end(), like.domid,
        [](const xenpack_domain& d, std::uint32_t domid) { return d.domid < domid; });
    const bool same = at != domains.end() && at->domid == like.domid &&
                      std::memcmp(at->uuid, like.uuid, sizeof like.uuid) == 0;
    return same ? &*at : nullptr;
}

std::vector<xenpack_event> changes(const std::vector<xenpack_domain>& before,
                                   const std::vector<xenpack_domain>& now) {
    Changes found;
    for (const xenpack_domain& old : before) {
        if (find_domain(now, old) == nullptr && !is(old, XENPACK_DOMAIN_IS_DYING)) {
            found.report(XENPACK_DOMAIN_DIED, old);
        }
    }
    for (const xenpack_domain& domain : now) {
        if (const xenpack_domain* old = find_domain(before, domain)) {
            found.of_known(*old, domain);
        } else {
            found.of_new(domain);
        }
    }
    return found.take();
}

}  // namespace xenpack
