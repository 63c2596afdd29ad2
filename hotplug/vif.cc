// SPDX-License-Identifier: LGPL-2.1-or-later
// What vif.h promises, in the order of a network's life: it comes, it joins, it goes.
#include "hotplug/vif.h"

#include <net/if.h>

#include <charconv>

#include "hotplug/link.h"

namespace xenpack::hotplug {
namespace {

// The name that xl.cfg's vifname= asks for, or the one the kernel gave.
Expected<std::string> final_name(Store& store, const std::string& path,
                                 const std::string& interface) {
    std::string name = store.read(path + "/vifname").value_or("");
    if (name.empty()) {
        name = interface;
    }
    if (!is_interface_name(name)) {
        return fail("\"{}\" is no name for a network interface: at most 15 characters", name);
    }
    return name;
}

ForkNodes fork_nodes(Store& store, std::uint32_t domid) {
    const std::string home = fmt::format("/local/domain/{}/", domid);
    ForkNodes nodes{store.read(home + "xenpack/fork/state"), std::nullopt, std::nullopt};
    if (nodes.state) {
        nodes.generation = store.read(home + "xenpack/fork/generation");
        nodes.said = store.read(home + "data/xenpack/fork");
    }
    return nodes;
}

// What xl.cfg's mtu= asks for, or the bridge's own.
std::optional<int> wanted_mtu(Store& store, const std::string& path, Links& links,
                              const std::string& bridge) {
    const std::string text = store.read(path + "/mtu").value_or("");
    int mtu = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), mtu).ec == std::errc() && mtu > 0) {
        return mtu;
    }
    return links.mtu(bridge);
}

}  // namespace

Expected<void> vif_online(Store& store, const Backend& backend, const std::string& path,
                          const std::string& interface) {
    auto links = Links::open();
    const auto name = final_name(store, path, interface);
    const std::string bridge = store.read(path + "/bridge").value_or("");
    if (!links || !name) {
        return tl::unexpected(!links ? links.error() : name.error());
    }
    if (!is_interface_name(bridge) || if_nametoindex(bridge.c_str()) == 0) {
        return fail(
            "there is no bridge \"{}\" for {}: make it (ip link add ... type bridge), or name "
            "another with bridge= in the domain's vif",
            bridge, *name);
    }
    Expected<void> done;
    if (*name != interface) {
        done = links->rename(interface, *name);
    }
    if (done) {
        done = links->make_port(*name);
    }
    const auto mtu = wanted_mtu(store, path, *links, bridge);
    if (done && mtu) {
        done = links->set_mtu(*name, *mtu);
    }
    if (done && may_join(fork_nodes(store, backend.domid))) {
        done = links->join(*name, bridge);
    }
    if (done) {
        done = links->up(*name);
    }
    return done ? store.write(path + "/hotplug-status", "connected") : done;
}

Expected<void> vif_offline(Store& store, const std::string& path, const std::string& interface) {
    auto links = Links::open();
    const auto name = final_name(store, path, interface);
    if (!links || !name) {
        return tl::unexpected(!links ? links.error() : name.error());
    }
    if (if_nametoindex(name->c_str()) == 0) {
        return {};
    }
    const auto left = links->leave(*name);
    const auto downed = links->down(*name);
    return left ? downed : left;
}

Expected<void> vif_join(const std::string& interface, const std::string& bridge) {
    if (!is_interface_name(interface) || !is_interface_name(bridge)) {
        return fail("\"{}\" and \"{}\" must be the names of an interface and a bridge", interface,
                    bridge);
    }
    auto links = Links::open();
    return links ? links->join(interface, bridge) : tl::unexpected(links.error());
}

}  // namespace xenpack::hotplug
