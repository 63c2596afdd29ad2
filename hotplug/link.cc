// SPDX-License-Identifier: LGPL-2.1-or-later
// The ioctls of netdevice(7) and of Linux' bridge, and rtnetlink(7) for what comes by itself.
#include "hotplug/link.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

// Not in the C library's headers: Linux's linux/sockios.h, which clashes with them.
#ifndef SIOCBRADDIF
#define SIOCBRADDIF 0x89a2
#define SIOCBRDELIF 0x89a3
#endif
#ifndef SIOCSIFNAME
#define SIOCSIFNAME 0x8923
#endif

namespace xenpack::hotplug {
namespace {

ifreq request_for(const std::string& name) {
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

tl::unexpected<Error> failed(const std::string& doing, const std::string& name) {
    return fail_with(errno, "cannot {} {}: {}", doing, name, std::strerror(errno));
}

// The bridge that it is a port of, or "".
std::string bridge_of(const std::string& name) {
    std::array<char, 256> target{};
    const std::string link = "/sys/class/net/" + name + "/brport/bridge";
    const ssize_t size = readlink(link.c_str(), target.data(), target.size());
    const std::string_view path(target.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
    return std::string(path.substr(path.rfind('/') + 1));
}

// It is a bridge's port and no host of its own. Where there is no IPv6 there is nothing to switch
// off.
void without_ipv6(const std::string& name) {
    const std::string path = "/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6";
    const guest::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file) {
        (void)!::write(file.get(), "1", 1);
    }
}

// Hears of every interface that comes; what is said of it is not read.
Expected<guest::Fd> listen_to_links() {
    guest::Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (!fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return fail_with(errno, "cannot listen to the kernel's interfaces: {}",
                         std::strerror(errno));
    }
    return fd;
}

void forget_what_was_said(int fd) {
    std::array<char, 8192> text{};
    // Where more was said than there was room for, recv fails once: it is looked anyway.
    while (recv(fd, text.data(), text.size(), 0) >= 0 || errno == ENOBUFS) {
    }
}

}  // namespace

Expected<void> Links::wait_for(const std::string& name, std::chrono::milliseconds longest) {
    using Clock = std::chrono::steady_clock;
    const auto socket = listen_to_links();
    if (!socket) {
        return tl::unexpected(socket.error());
    }
    const auto due = Clock::now() + longest;
    while (if_nametoindex(name.c_str()) == 0) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
        if (left.count() <= 0) {
            return fail_with(ETIMEDOUT, "no interface {} has come in {} ms", name, longest.count());
        }
        pollfd heard{socket->get(), POLLIN, 0};
        if (poll(&heard, 1, static_cast<int>(left.count())) > 0) {
            forget_what_was_said(socket->get());
        }
    }
    return {};
}

Expected<Links> Links::open() {
    guest::Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd) {
        return fail_with(errno, "cannot open a socket: {}", std::strerror(errno));
    }
    return Links(std::move(fd));
}

Expected<void> Links::set_flags(const std::string& name, int set, int clear) {
    ifreq request = request_for(name);
    if (ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0) {
        return failed("find the interface", name);
    }
    request.ifr_flags = static_cast<short>((request.ifr_flags | set) & ~clear);
    if (ioctl(socket_.get(), SIOCSIFFLAGS, &request) != 0) {
        return failed("set the flags of", name);
    }
    return {};
}

Expected<void> Links::rename(const std::string& from, const std::string& to) {
    ifreq request = request_for(from);
    to.copy(request.ifr_newname, IFNAMSIZ - 1);
    if (ioctl(socket_.get(), SIOCSIFNAME, &request) != 0) {
        return failed("rename " + from + " to", to);
    }
    return {};
}

Expected<void> Links::make_port(const std::string& name) {
    constexpr std::array<char, 6> kHighest{'\xfe', '\xff', '\xff', '\xff', '\xff', '\xff'};
    ifreq request = request_for(name);
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    std::memcpy(request.ifr_hwaddr.sa_data, kHighest.data(), kHighest.size());
    if (ioctl(socket_.get(), SIOCSIFHWADDR, &request) != 0) {
        return failed("set the MAC address of", name);
    }
    without_ipv6(name);
    return set_flags(name, IFF_NOARP, IFF_MULTICAST);
}

Expected<void> Links::set_mtu(const std::string& name, int mtu) {
    ifreq request = request_for(name);
    request.ifr_mtu = mtu;
    if (ioctl(socket_.get(), SIOCSIFMTU, &request) != 0) {
        return failed("set the MTU of", name);
    }
    return {};
}

std::optional<int> Links::mtu(const std::string& name) {
    ifreq request = request_for(name);
    if (ioctl(socket_.get(), SIOCGIFMTU, &request) != 0) {
        return std::nullopt;
    }
    return request.ifr_mtu;
}

Expected<void> Links::up(const std::string& name) {
    return set_flags(name, IFF_UP, 0);
}

Expected<void> Links::down(const std::string& name) {
    return set_flags(name, 0, IFF_UP);
}

Expected<void> Links::join(const std::string& name, const std::string& bridge) {
    const unsigned index = if_nametoindex(name.c_str());
    if (index == 0) {
        return failed("find the interface", name);
    }
    ifreq request = request_for(bridge);
    request.ifr_ifindex = static_cast<int>(index);
    if (ioctl(socket_.get(), SIOCBRADDIF, &request) == 0) {
        return {};
    }
    if (errno == EBUSY && bridge_of(name) == bridge) {
        return {};
    }
    if (errno == EBUSY) {
        return fail_with(EBUSY, "{} is a port of {}: it cannot join {}", name, bridge_of(name),
                         bridge);
    }
    if (errno == ENODEV) {
        return fail_with(ENODEV,
                         "there is no bridge {} for {}: make it (ip link add {} type bridge)",
                         bridge, name, bridge);
    }
    return fail_with(errno, "{} cannot join {}: {}: is that a bridge of Linux's?", name, bridge,
                     std::strerror(errno));
}

Expected<void> Links::leave(const std::string& name) {
    const std::string bridge = bridge_of(name);
    if (bridge.empty()) {
        return {};
    }
    ifreq request = request_for(bridge);
    request.ifr_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
    if (ioctl(socket_.get(), SIOCBRDELIF, &request) != 0) {
        return failed("take off " + bridge, name);
    }
    return {};
}

}  // namespace xenpack::hotplug
