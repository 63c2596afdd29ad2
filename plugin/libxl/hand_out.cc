// SPDX-License-Identifier: LGPL-2.1-or-later
// A few short calls each: nothing here waits for another process. libxl keeps the name in the store
// alone, and asks there for it.
#include "plugin/libxl/hand_out.h"

#include <cerrno>

#include "plugin/libxl/fork_nodes.h"
#include "plugin/libxl/store_read.h"

namespace xenpack {
namespace {

// It is there, and nothing is under way with it.
Expected<DomainFacts> look_at(Tools& tools, const DomainId& id) {
    auto facts = tools.xen.domain(id.domid, id.uuid);
    if (!facts) {
        return facts;
    }
    if ((facts->domain.flags & XENPACK_DOMAIN_IS_DYING) != 0) {
        return fail_with(ESRCH, "domain {} is gone: Xen is taking its memory back", id.domid);
    }
    if (tools.jobs.is_on(copy_uuid(id.uuid))) {
        return fail_with(EBUSY, "domain {} is being sealed, made or destroyed", id.domid);
    }
    return facts;
}

}  // namespace

Expected<void> rename_domain(Tools& tools, const DomainId& id, const std::string& name) {
    if (const auto facts = look_at(tools, id); !facts) {
        return tl::unexpected(facts.error());
    }
    if (name.empty()) {
        return fail_with(EINVAL, "domain {} needs a name", id.domid);
    }
    const auto old_name = read_node(tools.watcher, domain_node(id.domid, "name"));
    if (!old_name) {
        return tl::unexpected(old_name.error());
    }
    if (*old_name == name) {
        return {};
    }
    if (auto free = check_name(tools, name, id.domid); !free) {
        return free;
    }
    const int rc = libxl_domain_rename(tools.xl.get(), id.domid, old_name->c_str(), name.c_str());
    if (rc != 0) {
        return fail_with(EIO,
                         "libxl cannot rename domain {} to {} (its code is {}; the line before "
                         "says why)",
                         id.domid, name, rc);
    }
    return {};
}

Expected<void> unpause_domain(Tools& tools, const DomainId& id) {
    const auto facts = look_at(tools, id);
    if (!facts) {
        return tl::unexpected(facts.error());
    }
    if ((facts->domain.flags & XENPACK_DOMAIN_IS_PAUSED) == 0) {
        return fail_with(EINVAL, "domain {} is not paused", id.domid);
    }
    return tools.xen.unpause(id.domid);
}

}  // namespace xenpack
