// SPDX-License-Identifier: LGPL-2.1-or-later
// libxc's numbers turned into the interface's. Xen tells nobody what its own tables take: that is
// worked out from the sizes of their entries. It must not touch libxl or the store.
#include "plugin/libxl/books.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <vector>

namespace xenpack {
namespace {

// For each page of the host Xen has a struct page_info (its frame table, 32 bytes on x86 without
// CONFIG_BIGMEM) and the number that its guest gives it (the M2P, 8 bytes): xen/arch/x86/include/
// asm/mm.h of 4.17. Arm has no M2P, and 56 bytes.
#if defined(__i386__) || defined(__x86_64__)
constexpr std::uint64_t kMapBytesPerPage = 32 + 8;
#else
constexpr std::uint64_t kMapBytesPerPage = 56;
#endif

// What Xen 4.17 keeps of a PVH domain on x86 besides its pages, measured in the lab by what went
// missing (as for kBaseKib of start_cost.cc, of whose 150 KiB 64 are pages of the domain).
constexpr std::uint64_t kRecordsKib = 86;
constexpr std::uint64_t kRecordsOfAVcpuKib = 37;

// What a fork of a Linux of 256 MiB had written to when it was ready, measured in the lab: waking
// up and taking its identity, and for each disk and network that it connects anew.
constexpr std::uint64_t kForkWritesKib = 2816;
constexpr std::uint64_t kDeviceWritesKib = 1792;

constexpr int kNodesMost = 64;  // that a mask has room for; Xen's own default (NODES_SHIFT)

struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
};

struct FreePool {
    xc_interface* xc;
    void operator()(xc_cpupoolinfo_t* pool) const noexcept { xc_cpupool_infofree(xc, pool); }
};
using Pool = std::unique_ptr<xc_cpupoolinfo_t, FreePool>;

// Counts of -1 are of a hypervisor without memory sharing.
std::uint64_t pages_or_none(long counted) {
    return counted > 0 ? static_cast<std::uint64_t>(counted) * kPageKib : 0;
}

// A domain that Xen gives no paging pool, as a PV one, has none.
Expected<std::uint64_t> paging_kib(Hypervisor& xen, const xenpack_domain& domain) {
    std::uint64_t bytes = 0;
    if ((domain.flags & XENPACK_DOMAIN_IS_HVM) != 0 &&
        xc_get_paging_mempool_size(xen.handle(), domain.domid, &bytes) != 0) {
        return hypercall_failure(
            fmt::format("cannot ask Xen for the paging pool of domain {}", domain.domid), errno);
    }
    return bytes / 1024;
}

Expected<std::uint64_t> node_mask(Hypervisor& xen, std::uint32_t domid) {
    const std::unique_ptr<std::uint8_t, Free> map(xc_nodemap_alloc(xen.handle()));
    const int bytes = xc_get_nodemap_size(xen.handle());
    if (map == nullptr || bytes <= 0 ||
        xc_domain_node_getaffinity(xen.handle(), domid, map.get()) != 0) {
        return hypercall_failure(
            fmt::format("cannot ask Xen for the NUMA nodes of domain {}", domid), errno);
    }
    std::uint64_t mask = 0;
    for (int node = 0; node < std::min(kNodesMost, bytes * 8); ++node) {
        if ((map.get()[node / 8] >> (node % 8) & 1) != 0) {
            mask |= std::uint64_t{1} << node;
        }
    }
    return mask;
}

xenpack_node node_of(const xc_meminfo_t& memory) {
    // XEN_INVALID_MEM_SZ is of 32 bits in a member of 64, and Xen writes it either way.
    const bool is_there =
        memory.memsize != XEN_INVALID_MEM_SZ && memory.memsize != ~std::uint64_t{0};
    return is_there ? xenpack_node{memory.memsize / 1024, memory.memfree / 1024} : xenpack_node{};
}

Expected<void> put_nodes(Hypervisor& xen, xenpack_topology& topology) {
    auto n = static_cast<unsigned>(topology.nodes_n);
    std::vector<xc_meminfo_t> memory(n);
    std::vector<std::uint32_t> distances(std::size_t{n} * n);
    if (xc_numainfo(xen.handle(), &n, memory.data(), distances.data()) != 0) {
        return hypercall_failure("cannot ask Xen for the host's NUMA nodes", errno);
    }
    std::ranges::transform(memory, topology.nodes, node_of);
    std::ranges::transform(distances, topology.distances, [](std::uint32_t distance) {
        return distance == XEN_INVALID_NODE_DIST ? 0 : distance;
    });
    return {};
}

// Which pool each processor is in. From the highest pool on Xen finds none, and says ENOENT.
Expected<void> put_pools(Hypervisor& xen, xenpack_topology& topology) {
    std::uint32_t next = 0;
    const auto ask = [&] { return Pool(xc_cpupool_getinfo(xen.handle(), next), {xen.handle()}); };
    for (Pool pool = ask(); pool != nullptr; pool = ask()) {
        for (std::size_t cpu = 0; cpu < topology.cpus_n; ++cpu) {
            if ((pool->cpumap[cpu / 8] >> (cpu % 8) & 1) != 0) {
                topology.cpus[cpu].pool = pool->cpupool_id;
            }
        }
        next = pool->cpupool_id + 1;
    }
    if (errno != ENOENT) {
        return hypercall_failure("cannot ask Xen for the CPU pools", errno);
    }
    return {};
}

Expected<void> put_cpus(Hypervisor& xen, xenpack_topology& topology) {
    auto n = static_cast<unsigned>(topology.cpus_n);
    std::vector<xc_cputopo_t> cpus(n);
    if (xc_cputopoinfo(xen.handle(), &n, cpus.data()) != 0) {
        return hypercall_failure("cannot ask Xen for the host's processors", errno);
    }
    std::ranges::transform(cpus, topology.cpus, [](const xc_cputopo_t& cpu) {
        return xenpack_cpu{cpu.node, cpu.socket, cpu.core, XENPACK_NONE};
    });
    return put_pools(xen, topology);
}

}  // namespace

Expected<xenpack_host_books> host_books(Hypervisor& xen) {
    xc_physinfo_t info{};
    if (xc_physinfo(xen.handle(), &info) != 0) {
        return hypercall_failure("cannot ask Xen how much memory the host has", errno);
    }
    xenpack_host_books books{};
    books.total_kib = info.total_pages * kPageKib;
    books.free_kib = (info.free_pages + info.scrub_pages) * kPageKib;
    books.claimed_kib = info.outstanding_pages * kPageKib;
    books.map_kib = info.total_pages * kMapBytesPerPage / 1024;
    books.shared_kib = pages_or_none(xc_sharing_used_frames(xen.handle()));
    books.saved_kib = pages_or_none(xc_sharing_freed_pages(xen.handle()));
    return books;
}

Expected<xenpack_domain_books> domain_books(Hypervisor& xen, std::uint32_t domid,
                                            const std::uint8_t uuid[16]) {
    const auto facts = xen.domain(domid, uuid);
    const auto paging = facts ? paging_kib(xen, facts->domain) : tl::unexpected(facts.error());
    const auto nodes = paging ? node_mask(xen, domid) : tl::unexpected(paging.error());
    if (!nodes) {
        return tl::unexpected(nodes.error());
    }
    return xenpack_domain_books{*paging, kRecordsKib + kRecordsOfAVcpuKib * facts->vcpus, *nodes};
}

// Xen gives a fork as much for its page tables as its template has.
Expected<xenpack_fork_cost> fork_cost(Hypervisor& xen, Templates& templates, std::uint32_t domid,
                                      const std::uint8_t uuid[16]) {
    const auto found = templates.find(domid, uuid);
    const auto books = found ? domain_books(xen, domid, uuid) : tl::unexpected(found.error());
    if (!books) {
        return tl::unexpected(books.error());
    }
    const libxl_domain_config& config = (*found)->config.get();
    const auto devices = static_cast<std::uint64_t>(config.num_disks + config.num_nics);
    return xenpack_fork_cost{kForkWritesKib + devices * kDeviceWritesKib,
                             books->paging_kib + books->records_kib};
}

Expected<bool> topology(Hypervisor& xen, xenpack_topology& topology) {
    unsigned nodes = 0;
    unsigned cpus = 0;
    if (xc_numainfo(xen.handle(), &nodes, nullptr, nullptr) != 0 ||
        xc_cputopoinfo(xen.handle(), &cpus, nullptr) != 0) {
        return hypercall_failure("cannot ask Xen how the host is built", errno);
    }
    topology.nodes_n = nodes;
    topology.cpus_n = cpus;
    if (nodes > topology.nodes_capacity || cpus > topology.cpus_capacity) {
        return false;
    }
    auto put = put_nodes(xen, topology);
    if (put) {
        put = put_cpus(xen, topology);
    }
    return put.map([] { return true; });
}

}  // namespace xenpack
