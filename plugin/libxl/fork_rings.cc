// SPDX-License-Identifier: LGPL-2.1-or-later
// Which fork has which ring, and the watcher's calls. Called by the table, by Forking, by what
// looks at the domains, and by the loop when an event channel rings.
#include "plugin/libxl/fork_rings.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "watcher/fault_point.h"

namespace xenpack {

ForkRings::ForkRings(const xenpack_watcher_ops& watcher, Hypervisor& xen, xentoollog_logger* logger,
                     std::function<bool()> may_report, const std::string& record)
    : watcher_{watcher},
      xen_{xen},
      may_report_{std::move(may_report)},
      opened_{open(logger)},
      warden_{record.empty() ? nullptr : std::make_unique<ForkWarden>(watcher, record)},
      paused_{record} {
    if (opened_) {
        listen_for_low_memory();
        return;
    }
    const std::string text =
        fmt::format("{}: there can be no forks, and nothing tells when Xen's memory runs low",
                    opened_.error().what);
    watcher_.log(watcher_.user, XENPACK_LOG_WARNING, text.c_str());
}

Expected<void> ForkRings::open(xentoollog_logger* logger) {
    memory_.reset(xenforeignmemory_open(logger, 0));
    if (!memory_) {
        return hypercall_failure("cannot map the memory of domains", errno);
    }
    auto channels = EventChannels::open(watcher_, logger);
    if (!channels) {
        return tl::unexpected(channels.error());
    }
    channels_ = std::move(*channels);
    return {};
}

void ForkRings::listen_for_low_memory() {
    const auto bound =
        channels_->bind_interrupt(VIRQ_ENOMEM, [this] { report(XENPACK_HOST_LOW, {}); });
    if (bound) {
        return;
    }
    const std::string text = fmt::format(
        "Xen will not tell when its memory runs low: {}{}", bound.error().what,
        bound.error().code == EEXIST ? "; another program listens to it: end xen-lowmemd" : "");
    watcher_.log(watcher_.user, XENPACK_LOG_WARNING, text.c_str());
}

// The last thing its callers do: the watcher may do anything in it.
void ForkRings::report(xenpack_event_type type, const Key& key) {
    if (!may_report_()) {
        return;
    }
    xenpack_event event{};
    event.type = type;
    event.domid = key.first;
    std::copy(key.second.begin(), key.second.end(), event.uuid);
    event.shutdown_reason = -1;
    watcher_.on_event(watcher_.user, &event);
}

void ForkRings::heard(const Key& key) {
    const auto ring = rings_.find(key);
    if (ring != rings_.end() && ring->second->take()) {
        report(XENPACK_FORK_STARVED, key);
    }
}

Expected<DomainFacts> ForkRings::living(const Key& key) {
    auto facts = xen_.domain(key.first, key.second.data());
    if (facts && (facts->domain.flags & XENPACK_DOMAIN_IS_DYING) != 0) {
        return fail_with(ESRCH, "domain {} with uuid {} is going", key.first,
                         uuid_text(key.second.data()));
    }
    return facts;
}

Expected<std::unique_ptr<ForkRing>> ForkRings::make_ring(const Key& key) {
    if (!opened_) {
        return tl::unexpected(opened_.error());
    }
    return std::make_unique<ForkRing>(ForkRing::Host{xen_.handle(), memory_.get(), *channels_},
                                      key.first, [this, key] { heard(key); });
}

Expected<void> ForkRings::serve(std::uint32_t domid, const std::uint8_t uuid[16]) {
    const Key key{domid, copy_uuid(uuid)};
    auto ring = make_ring(key);
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    watch(key);
    return (*ring)->begin().map([&] { rings_[key] = std::move(*ring); });
}

Expected<bool> ForkRings::adopt(std::uint32_t domid, const std::uint8_t uuid[16]) {
    const Key key{domid, copy_uuid(uuid)};
    const auto facts = living(key);
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    watch(key);
    const bool ran = (facts->domain.flags & XENPACK_DOMAIN_IS_PAUSED) == 0;
    Expected<void> served;
    if (!rings_.contains(key)) {
        served = replace_ring(key, *facts, ran);
    } else if (stopped_.contains(key)) {
        served = resume(key);
    }
    return served.map([&] { return !ran && paused_.contains(key.first, key.second); });
}

// The fork is paused while it has no ring: what finds no memory then would crash it. One that is
// paused already stays so by that pause.
Expected<void> ForkRings::replace_ring(const Key& key, const DomainFacts& facts, bool ran) {
    auto ring = make_ring(key);
    if (!ring) {
        return tl::unexpected(ring.error());
    }
    if (ran) {
        if (auto ok = stop(key); !ok) {
            return ok;
        }
    }
    if (auto ok = (*ring)->prepare(); !ok) {
        if (ran && !ringless_.contains(key)) {
            warn(resume(key));
        }
        return ok;
    }
    ringless_.insert(key);
    if (auto ok = (*ring)->replace(facts.vcpus); !ok) {
        return tl::unexpected(ok.error().during(
            fmt::format("domain {} stays paused until its sharing ring can be served", key.first)));
    }
    ringless_.erase(key);
    rings_[key] = std::move(*ring);
    return stopped_.contains(key) ? resume(key) : Expected<void>();
}

// The record comes first: should this process end before it resumes the fork, the next one does.
Expected<void> ForkRings::stop(const Key& key) {
    warn(paused_.insert(key.first, key.second));
    if (auto ok = xen_.pause(key.first); !ok) {
        warn(paused_.erase(key.first, key.second));
        return ok;
    }
    stopped_.insert(key);
    fault_point("ring.stopped");
    return {};
}

void ForkRings::watch(const Key& key) noexcept {
    if (warden_) {
        warden_->watch(key);
    }
}

void ForkRings::warn(const Expected<void>& result) const noexcept {
    if (!result) {
        watcher_.log(watcher_.user, XENPACK_LOG_WARNING, result.error().what.c_str());
    }
}

Expected<void> ForkRings::resume(const Key& key) {
    return xen_.unpause(key.first).map([&] {
        stopped_.erase(key);
        warn(paused_.erase(key.first, key.second));
    });
}

Expected<void> ForkRings::feed(std::uint32_t domid, const std::uint8_t uuid[16]) {
    const Key key{domid, copy_uuid(uuid)};
    if (const auto facts = living(key); !facts) {
        return tl::unexpected(facts.error());
    }
    const auto ring = rings_.find(key);
    if (ring == rings_.end()) {
        return fail_with(EINVAL, "nobody serves the sharing ring of domain {}: adopt it first",
                         domid);
    }
    return ring->second->feed();
}

Expected<void> ForkRings::hold(std::uint32_t domid, const std::uint8_t uuid[16]) {
    return living({domid, copy_uuid(uuid)}).and_then([&](const DomainFacts&) {
        return xen_.pause(domid);
    });
}

Expected<void> ForkRings::let_go(std::uint32_t domid, const std::uint8_t uuid[16]) {
    const Key key{domid, copy_uuid(uuid)};
    if (const auto facts = living(key); !facts) {
        return tl::unexpected(facts.error());
    }
    if (ringless_.contains(key)) {
        return fail_with(EAGAIN, "domain {} has no sharing ring: it stays paused until it has one",
                         domid);
    }
    return xen_.unpause(domid).map([&] { warn(paused_.erase(key.first, key.second)); });
}

void ForkRings::leave_to_warden() noexcept {
    if (warden_) {
        warden_->take_over();
    }
}

void ForkRings::keep(const std::vector<xenpack_domain>& live) noexcept {
    const auto lives = [&](const Key& key) {
        const auto at = std::ranges::lower_bound(live, key.first, {}, &xenpack_domain::domid);
        return at != live.end() && at->domid == key.first && copy_uuid(at->uuid) == key.second &&
               (at->flags & XENPACK_DOMAIN_IS_DYING) == 0;
    };
    std::vector<Key> gone;
    for (const auto& [key, ring] : rings_) {
        if (!lives(key)) {
            gone.push_back(key);
        }
    }
    for (const Key& key : gone) {
        drop(key.first, key.second.data());
    }
    std::erase_if(stopped_, [&](const Key& key) { return !lives(key); });
    std::erase_if(ringless_, [&](const Key& key) { return !lives(key); });
    warn(paused_.keep(live));
}

void ForkRings::drop(std::uint32_t domid, const std::uint8_t uuid[16]) noexcept {
    const Key key{domid, copy_uuid(uuid)};
    rings_.erase(key);
    stopped_.erase(key);
    ringless_.erase(key);
    if (warden_) {
        warden_->forget(key);
    }
}

}  // namespace xenpack
