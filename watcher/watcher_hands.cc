// SPDX-License-Identifier: LGPL-2.1-or-later
// What the watcher says when somebody else changes memory that is its own to give: once, a person;
// again and again, another balancer, by name where it is known; and xl, which shrinks dom0.
#include <fmt/format.h>

#include "watcher/loop/loop.h"
#include "watcher/watcher.h"
#include "watcher/zones/other_hands.h"

namespace xenpack {
namespace {

// What it most likely is.
std::string suspects() {
    const std::string names = known_balancers();
    return names.empty() ? "none that is known by name runs here" : names;
}

}  // namespace

void Watcher::target_was_changed(Zone& zone, std::uint64_t from_kib, std::uint64_t to_kib) {
    if (zone.key.domid == 0) {
        dom0_was_changed(from_kib, to_kib);
        return;
    }
    if (!zone.managed || (zone.domain.flags & XENPACK_DOMAIN_NEVER_RAN) != 0) {
        return;
    }
    switch (zone.other_hands.note(Loop::now_ms())) {
        case OtherHands::Verdict::person:
            publish(
                {DecisionKind::config, zone.name, zone.key.domid, to_string(zone.key.uuid),
                 from_kib, to_kib,
                 "its target was set by something else, as xl mem-set does; it is balanced from "
                 "there on (xenpack set --pin keeps a size)"});
            break;
        case OtherHands::Verdict::balancer:
            zone_fault(zone,
                       fmt::format("something else keeps changing its target, {} times within "
                                   "{} s: another balancer ({}); stop one of the two, or say "
                                   "manage = no for this zone",
                                   kBalancerChanges, kBalancerWithinMs / 1000, suspects()));
            break;
        case OtherHands::Verdict::nothing:
            break;
    }
}

void Watcher::dom0_was_changed(std::uint64_t from_kib, std::uint64_t to_kib) {
    if (to_kib + kReachedWithinKib >= from_kib || to_kib == dom0_told_kib_) {
        return;
    }
    const std::int64_t now_ms = Loop::now_ms();
    const bool said = now_ms < dom0_hands_until_ms_;
    dom0_hands_until_ms_ = now_ms + kBalancerShownMs;
    if (!said) {  // all of /proc is looked through
        dom0_hands_who_ =
            xl_is_starting()
                ? ": xl's autoballoon shrinks dom0; set autoballoon=\"off\" in /etc/xen/xl.conf"
                : fmt::format(" by something else, a person or another balancer ({})", suspects());
    }
    dom0_hands_fault_ =
        fmt::format("dom0's target was lowered from {} to {} MiB while {} MiB are free{}",
                    from_kib / 1024, to_kib / 1024, host_.free_kib / 1024, dom0_hands_who_);
    if (!said) {
        publish(about_host(DecisionKind::host, dom0_hands_fault_));
    }
}

}  // namespace xenpack
