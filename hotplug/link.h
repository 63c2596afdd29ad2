// SPDX-License-Identifier: LGPL-2.1-or-later
// Network interfaces and Linux's bridge, by ioctl: no program is started for it. Called by vif.cc;
// it must not know which domain an interface belongs to.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "watcher/error.h"
#include "watcher/guest/fd.h"

namespace xenpack::hotplug {

class Links {
  public:
    static Expected<Links> open();

    // It must be down, and no other of the new name be there.
    Expected<void> rename(const std::string& from, const std::string& to);
    // A port of the host's that has no address of its own: the highest unicast MAC, which no bridge
    // takes for its own, neither ARP nor multicast, and no IPv6.
    Expected<void> make_port(const std::string& name);
    Expected<void> set_mtu(const std::string& name, int mtu);
    std::optional<int> mtu(const std::string& name);
    Expected<void> up(const std::string& name);
    Expected<void> down(const std::string& name);
    // Where it is a port of that bridge already, nothing is to be done.
    Expected<void> join(const std::string& name, const std::string& bridge);
    // Where it is no port of any, nothing is to be done.
    Expected<void> leave(const std::string& name);

    // Returns when there is an interface of that name. ETIMEDOUT.
    static Expected<void> wait_for(const std::string& name, std::chrono::milliseconds longest);

  private:
    explicit Links(guest::Fd socket) : socket_(std::move(socket)) {}
    Expected<void> set_flags(const std::string& name, int set, int clear);
    guest::Fd socket_;
};

}  // namespace xenpack::hotplug
