// SPDX-License-Identifier: LGPL-2.1-or-later
// OtherHands: somebody else sets a target that is ours to set. Once is a person with `xl mem-set`;
// again and again is another balancer, and two of them undo each other's work. Each zone has one,
// and dom0. Also: which programs on this host are known to do such things.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace xenpack {

// So many changes within so long are no person's. The balancers that are known change a target at
// least each 10 s: qmemman, squeezed, MOM and Proxmox' pvestatd.
inline constexpr std::size_t kBalancerChanges = 3;
inline constexpr std::int64_t kBalancerWithinMs = 60'000;
// How long after its last change another balancer is still shown.
inline constexpr std::int64_t kBalancerShownMs = 300'000;

class OtherHands {
  public:
    enum class Verdict {
        person,    // the first change in a while: worth a line
        nothing,   // said already, or not enough to tell
        balancer,  // now it is clear
    };

    // A change that was not ours.
    Verdict note(std::int64_t now_ms);
    // Another balancer was at work not long ago.
    [[nodiscard]] bool balancer(std::int64_t now_ms) const {
        return balancer_ms_ != 0 && now_ms - balancer_ms_ < kBalancerShownMs;
    }

  private:
    std::deque<std::int64_t> changes_;
    std::int64_t balancer_ms_ = 0;  // its last change; 0: never
};

// "qmemman (process 812), libvirtd (process 900)": programs that change domains' memory by
// themselves, this process left out; empty: none that is known. `proc` is proc(5)'s directory.
[[nodiscard]] std::string known_balancers(const std::string& proc = "/proc");
// An xl that starts or takes in a domain, for which it shrinks dom0 where autoballoon is on.
[[nodiscard]] bool xl_is_starting(const std::string& proc = "/proc");

}  // namespace xenpack
