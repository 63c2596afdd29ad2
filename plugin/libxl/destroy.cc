// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl destroys what it knows: it needs /libxl/N and the domain's own nodes. Of a fork that has
// not come so far there is the domain in Xen, and what it and the kernel's backends read in the
// store; with that the kernel's backends go.
#include "plugin/libxl/destroy.h"

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "plugin/libxl/fork_nodes.h"

namespace xenpack {

Expected<void> remove_nodes(Tools& tools, std::uint32_t domid, const DomainUuid& uuid) {
    std::vector<std::string> paths{libxl_node(domid), vm_node(uuid_text(uuid.data()))};
    for (const char* kind : {"console", "vbd", "vif"}) {
        paths.push_back(fmt::format("/local/domain/0/backend/{}/{}", kind, domid));
    }
    paths.push_back(domain_node(domid, ""));  // by which the rest is found
    for (const std::string& path : paths) {
        const int r = tools.watcher.store_ops->remove(tools.watcher.store, path.c_str());
        if (r < 0) {
            return fail_with(-r, "cannot remove {}: {}", path, std::strerror(-r));
        }
    }
    return {};
}

void Destruction::begin(std::uint32_t domid, const DomainUuid& uuid, Ended ended) {
    auto known = tools_.xen.domain(domid, uuid.data()).and_then([&](const DomainFacts&) {
        return is_libxls(domid, uuid);
    });
    if (!known || !*known) {
        auto result =
            known ? destroy_bare(domid, uuid) : Expected<void>(tl::unexpected(known.error()));
        tools_.later.add([ended = std::move(ended), result = std::move(result)] { ended(result); });
        return;
    }
    operation_.begin(
        [domid](libxl_ctx* ctx, const libxl_asyncop_how* how) {
            return libxl_domain_destroy(ctx, domid, how);
        },
        [this, domid, uuid, ended = std::move(ended)](int rc) { ended(outcome(rc, domid, uuid)); });
}

Expected<bool> Destruction::is_libxls(std::uint32_t domid, const DomainUuid& uuid) {
    const auto type = read_node(tools_.watcher, libxl_node(domid) + "/type");
    if (!type) {
        return tl::unexpected(type.error());
    }
    return read_node(tools_.watcher, domain_node(domid, "vm")).map([&](const std::string& vm) {
        return !type->empty() && vm == vm_node(uuid_text(uuid.data()));
    });
}

// What may be in the store under its number and its uuid goes first: a domain that is there still
// can be destroyed again, nodes without one are found by nobody. Where its first node is not there
// somebody is destroying it, and what there is was written after that.
Expected<void> Destruction::destroy_bare(std::uint32_t domid, const DomainUuid& uuid) {
    const auto vm = read_node(tools_.watcher, domain_node(domid, "vm"));
    if (!vm) {
        return tl::unexpected(vm.error());
    }
    if (vm->empty() || *vm == vm_node(uuid_text(uuid.data()))) {
        if (auto removed = remove_nodes(tools_, domid, uuid); !removed) {
            return removed;
        }
    }
    return tools_.xen.destroy(domid).map([&] { tools_.rings.drop(domid, uuid.data()); });
}

Expected<void> Destruction::outcome(int rc, std::uint32_t domid, const DomainUuid& uuid) {
    if (rc == 0) {
        tools_.rings.drop(domid, uuid.data());
        return {};
    }
    const auto still = tools_.xen.domain(domid, uuid.data());
    const bool gone = !still || (still->domain.flags & XENPACK_DOMAIN_IS_DYING) != 0;
    return fail_with(EIO,
                     "libxl has {}destroyed domain {}{} (its code is {}; the line before says why)",
                     gone ? "" : "not ", domid,
                     gone ? ", but something that belonged to it may be left" : "", rc);
}

void Destroying::begin() {
    destruction_.begin(domid_, uuid_, [this](const Expected<void>& result) {
        const std::unique_ptr<Job> self = tools_.jobs.take(*this);
        done_(arg_, result ? 0 : code_of(result.error()),
              result ? "" : result.error().what.c_str());
    });
}

void Destroying::abandon() noexcept {
    done_(arg_, -ECANCELED, "the toolstack was closed while it was being destroyed");
}

}  // namespace xenpack
