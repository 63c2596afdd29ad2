// SPDX-License-Identifier: LGPL-2.1-or-later
// Xen's list of domains and the node "name" of each. A domain without one, which is being built or
// is no toolstack's, has no name.
#include "plugin/libxl/taken_names.h"

#include <algorithm>

#include "plugin/libxl/fork_nodes.h"
#include "plugin/libxl/store_read.h"

namespace xenpack {
Expected<void> TakenNames::look() {
    const auto domains = xen_.list();
    if (!domains) {
        return tl::unexpected(domains.error());
    }
    const auto now = Clock::now();
    std::map<std::uint32_t, Name> found;
    for (const xenpack_domain& domain : *domains) {
        const auto known = names_.find(domain.domid);
        if (known != names_.end() && now - known->second.read_at <= kFresh &&
            std::equal(known->second.uuid.begin(), known->second.uuid.end(), domain.uuid)) {
            found.insert(names_.extract(known));
            continue;
        }
        auto name = read_node(watcher_, domain_node(domain.domid, "name"));
        if (!name) {
            return tl::unexpected(name.error());
        }
        if (!name->empty()) {
            Name& kept = found[domain.domid];
            std::copy_n(domain.uuid, kept.uuid.size(), kept.uuid.begin());
            kept.name = std::move(*name);
            kept.read_at = now;
        }
    }
    names_ = std::move(found);
    return {};
}

Expected<bool> TakenNames::is_taken(const std::string& name, std::uint32_t except) {
    if (auto ok = look(); !ok) {
        return tl::unexpected(ok.error());
    }
    for (const auto& [domid, known] : names_) {
        if (domid == except || known.name != name) {
            continue;
        }
        // It may have been renamed since.
        const auto still = read_node(watcher_, domain_node(domid, "name"));
        if (!still || *still == name) {
            return still.map([](const std::string&) { return true; });
        }
    }
    return false;
}

}  // namespace xenpack
