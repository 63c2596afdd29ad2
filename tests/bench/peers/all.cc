// SPDX-License-Identifier: LGPL-2.1-or-later
// The list.
#include "tests/bench/peers/all.h"

#include "tests/bench/peers/edera.h"
#include "tests/bench/peers/esx.h"
#include "tests/bench/peers/hyperv.h"
#include "tests/bench/peers/mom.h"
#include "tests/bench/peers/oracle.h"
#include "tests/bench/peers/proxmox.h"
#include "tests/bench/peers/qmemman.h"
#include "tests/bench/peers/selfballoon.h"
#include "tests/bench/peers/squeezed.h"
#include "watcher/simulate/static_policy.h"
#include "watcher/simulate/xenpack_policy.h"

namespace xenpack::bench {
namespace {

template <class P>
std::unique_ptr<simulate::Policy> make() {
    return std::make_unique<P>();
}

}  // namespace

const std::vector<Contender>& contenders() {
    static const std::vector<Contender> all = {
        {"xenpack", Role::ours, simulate::make_xenpack_policy},
        {"xenpack+brake", Role::variant, simulate::make_xenpack_brake_policy},
        {"static", Role::peer, simulate::make_static_policy},
        {"squeezed", Role::peer, make<squeezed::Squeezed>},
        {"qmemman", Role::peer, make<qmemman::Qmemman>},
        {"mom", Role::peer, make<mom::Mom>},
        {"proxmox", Role::peer, make<proxmox::Proxmox>},
        {"esx", Role::peer, make<esx::Esx>},
        {"hyper-v", Role::peer, make<hyperv::Hyperv>},
        {"selfballoon", Role::peer, make<selfballoon::Selfballoon>},
        {"edera", Role::peer, make<edera::Edera>},
        {"oracle", Role::oracle, make<oracle::Oracle>},
    };
    return all;
}

}  // namespace xenpack::bench
