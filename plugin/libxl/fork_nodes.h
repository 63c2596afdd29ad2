// SPDX-License-Identifier: LGPL-2.1-or-later
// Which nodes a fork has in the store: those that libxl makes for a PVH domain that it restores,
// and Xenpack's own. Pure: facts in, nodes out. Called by Forking.
//
// As few requests as that allows: a node that is made has its parent's permissions, and parents
// come into being with what is below them, so a permission is only set where it must differ.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plugin/toolstack.h"

namespace xenpack {

struct ForkTree {
    using Pairs = std::vector<std::pair<std::string, std::string>>;  // relative paths, values

    std::uint32_t domid = 0;
    std::string uuid;  // as text
    std::string name;
    std::vector<bool> vcpus_online;  // one for each vcpu there may be
    std::uint64_t static_max_kib = 0;
    std::uint64_t target_kib = 0;
    std::uint64_t videoram_kib = 0;
    std::uint64_t store_gfn = 0;
    std::uint32_t store_port = 0;
    std::uint64_t console_gfn = 0;
    std::uint32_t console_port = 0;
    std::uint32_t console_domid = 0;  // where xenconsoled runs
    std::int64_t start_time_ms = 0;   // since 1970
    Pairs xsdata;                     // what the configuration adds, relative to the domain's node
    std::string template_uuid;
    Pairs identity;  // relative to xenpack/fork
};

struct StoreNode {
    std::string path;
    std::string value;
    xenpack_store_access access = XENPACK_STORE_AS_PARENT;
};

// In two parts, so that it need not wait for the second to run: xenstored takes each node by
// itself. The domain of every access is the fork.
struct TreeParts {
    // Whose they are, and what the guest reads once when it goes on after a suspend: its devices,
    // and who it is.
    std::vector<StoreNode> first;
    // What it watches, and hears of when it comes (Linux: control/shutdown, memory/target, cpu),
    // what xenconsoled watches, what backends and toolstacks want, and what a guest may write some
    // time.
    std::vector<StoreNode> rest;
};
TreeParts fork_nodes(const ForkTree& tree);

// Paths that more than one subject needs.
std::string domain_node(std::uint32_t domid, const char* below);  // "" for the domain's own
std::string vm_node(const std::string& uuid);
std::string libxl_node(std::uint32_t domid);
std::string console_backend_node(std::uint32_t console_domid, std::uint32_t domid);

inline constexpr char kTemplateNode[] = "xenpack/template";           // "sealing", "sealed"
inline constexpr char kTemplateNameNode[] = "xenpack/template/name";  // the name it is to have
// Of a template's disk, by its number: what it was when it was sealed.
std::string disk_node(std::uint32_t domid, std::uint32_t number);
inline constexpr char kSealedCpuNode[] = "xenpack/sealed-cpu-ns";
inline constexpr char kForkStateNode[] = "xenpack/fork/state";  // "building", "complete"

}  // namespace xenpack
