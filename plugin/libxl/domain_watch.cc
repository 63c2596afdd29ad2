// SPDX-License-Identifier: LGPL-2.1-or-later
// Looks, compares, arms libxl's notices, then reports. Called by refresh() and, a round after libxl
// said so, by the loop.
#include "plugin/libxl/domain_watch.h"

#include <string>
#include <utility>

#include "plugin/libxl/changes.h"

namespace xenpack {

DomainWatch::~DomainWatch() {
    for (const auto& [domid, watched] : watched_) {
        xl_.ignore_end(watched);
    }
}

Expected<void> DomainWatch::look() {
    auto now = xen_.list();
    if (!now) {
        return tl::unexpected(now.error());
    }
    // What may fail for want of memory comes first: a look that fails has reported nothing.
    const std::vector<xenpack_event> found = changes(domains_, *now);
    watch_ends(*now);
    queue_.insert(queue_.end(), found.begin(), found.end());
    domains_ = std::move(*now);
    return {};
}

// libxl reports a shutdown once per notice asked for, so a domain that runs again needs a new one.
// The control domain does not end while this runs.
void DomainWatch::watch_ends(const std::vector<xenpack_domain>& now) {
    constexpr std::uint32_t kDying = XENPACK_DOMAIN_IS_DYING;
    constexpr std::uint32_t kDown = XENPACK_DOMAIN_IS_SHUTDOWN;
    for (const xenpack_domain& old : domains_) {
        const xenpack_domain* same = find_domain(now, old);
        const bool ended = same == nullptr || (same->flags & kDying) != 0;
        const bool resumed = !ended && (old.flags & kDown) != 0 && (same->flags & kDown) == 0;
        const auto watched = watched_.find(old.domid);
        if ((ended || resumed) && watched != watched_.end()) {
            xl_.ignore_end(watched->second);
            watched_.erase(watched);
        }
    }
    for (const xenpack_domain& domain : now) {
        if (domain.domid != 0 && (domain.flags & kDying) == 0 && !watched_.contains(domain.domid)) {
            watch_end(domain);
        }
    }
}

void DomainWatch::watch_end(const xenpack_domain& domain) {
    if (libxl_evgen_domain_death* watched = xl_.watch_end(domain.domid)) {
        watched_.emplace(domain.domid, watched);
        return;
    }
    const std::string text = fmt::format(
        "libxl cannot watch for the end of domain {}: it will be noticed at the next refresh",
        domain.domid);
    watcher_.log(watcher_.user, XENPACK_LOG_WARNING, text.c_str());
}

void DomainWatch::report() {
    if (reporting_) {
        return;
    }
    reporting_ = true;
    while (!queue_.empty()) {
        const xenpack_event event = queue_.front();
        queue_.pop_front();
        watcher_.on_event(watcher_.user, &event);
    }
    reporting_ = false;
}

}  // namespace xenpack
