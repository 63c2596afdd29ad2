// SPDX-License-Identifier: LGPL-2.1-or-later
// The tree of libxl__domain_make (tools/libs/light/libxl_create.c), libxl__build_post (libxl_dom.c)
// and libxl__device_console_add (libxl_console.c), of Xen 4.17, for a PVH domain. No state, no
// clock.
#include "plugin/libxl/fork_nodes.h"

#include <fmt/format.h>

#include "hotplug/base.h"

namespace xenpack {
namespace {

// LIBXL_XENCONSOLE_LIMIT of tools/libs/light/libxl_internal.h.
constexpr char kConsoleLimit[] = "1048576";
// XenbusStateInitialising of xen/io/xenbus.h.
constexpr char kInitialising[] = "1";
constexpr std::int64_t kMsPerSecond = 1000;
constexpr std::int64_t kMsPerHundredth = 10;

class Nodes {
  public:
    explicit Nodes(const ForkTree& tree) : tree_{tree}, home_{domain_node(tree.domid, "")} {}

    TreeParts all() {
        home();
        for_the_guest();
        memory_and_processors();
        console();
        xenpack();
        vm();
        libxl();
        console_device();
        return std::move(parts_);
    }

  private:
    void add(std::string path, std::string value,
             xenpack_store_access access = XENPACK_STORE_AS_PARENT) {
        parts_.rest.push_back({std::move(path), std::move(value), access});
    }
    void own(const std::string& path, std::string value,
             xenpack_store_access access = XENPACK_STORE_AS_PARENT) {
        add(home_ + path, std::move(value), access);
    }
    void first(const std::string& path, std::string value,
               xenpack_store_access access = XENPACK_STORE_AS_PARENT) {
        parts_.first.push_back({home_ + path, std::move(value), access});
    }

    // Whose they are and the name that is taken come first: by them half of a fork is taken away.
    void home() {
        first("", "", XENPACK_STORE_GUEST_READS);
        first("/vm", vm_node(tree_.uuid));
        first("/name", tree_.name);
        for (const auto& [path, value] : tree_.xsdata) {
            first("/" + path, value);
        }
        own("/domid", fmt::format("{}", tree_.domid));
        own("/store/port", fmt::format("{}", tree_.store_port));
        own("/store/ring-ref", fmt::format("{}", tree_.store_gfn));
    }

    // What it writes: at once, or from time to time.
    void for_the_guest() {
        first("/data", "", XENPACK_STORE_GUEST_OWNS);
        for (const char* path :
             {"/control/shutdown", "/device/suspend/event-channel", "/control/feature-poweroff",
              "/control/feature-reboot", "/control/feature-suspend", "/control/sysrq", "/drivers",
              "/feature", "/attr", "/error"}) {
            own(path, "", XENPACK_STORE_GUEST_OWNS);
        }
        own("/control/platform-feature-multiprocessor-suspend", "1");
        own("/control/platform-feature-xs_reset_watches", "1");
    }

    void memory_and_processors() {
        own("/memory/static-max", fmt::format("{}", tree_.static_max_kib));
        own("/memory/target", fmt::format("{}", tree_.target_kib));
        own("/memory/videoram", fmt::format("{}", tree_.videoram_kib));
        for (std::size_t i = 0; i < tree_.vcpus_online.size(); ++i) {
            own(fmt::format("/cpu/{}/availability", i),
                tree_.vcpus_online[i] ? "online" : "offline");
        }
    }

    // xenconsoled watches for them.
    void console() {
        const std::string backend = console_backend_node(tree_.console_domid, tree_.domid);
        const std::string backend_id = fmt::format("{}", tree_.console_domid);
        own("/console/backend", backend);
        own("/console/backend-id", backend_id, XENPACK_STORE_GUEST_OWNS);
        own("/console/limit", kConsoleLimit);
        own("/console/type", "xenconsoled");
        own("/console/output", "pty");
        own("/console/tty", "");
        own("/console/port", fmt::format("{}", tree_.console_port));
        own("/console/ring-ref", fmt::format("{}", tree_.console_gfn));
    }

    void console_device() {
        const std::string backend = console_backend_node(tree_.console_domid, tree_.domid);
        add(backend, "", XENPACK_STORE_GUEST_READS);
        add(backend + "/frontend", home_ + "/console");
        console_backend(backend);
        const std::string record = libxl_node(tree_.domid) + "/device/console/0";
        add(record + "/frontend", home_ + "/console");
        add(record + "/backend", backend);
        console_backend(record);
    }

    // libxl keeps a copy of what a backend is told.
    void console_backend(const std::string& path) {
        add(path + "/frontend-id", fmt::format("{}", tree_.domid));
        add(path + "/online", "1");
        add(path + "/state", kInitialising);
        add(path + "/protocol", "vt100");
    }

    void vm() {
        const std::string path = vm_node(tree_.uuid);
        add(path, "", XENPACK_STORE_GUEST_READS);
        add(path + "/uuid", tree_.uuid);
        add(path + "/name", tree_.name);
        add(path + "/start_time",
            fmt::format("{}.{:02}", tree_.start_time_ms / kMsPerSecond,
                        tree_.start_time_ms % kMsPerSecond / kMsPerHundredth));
    }

    void libxl() {
        add(libxl_node(tree_.domid), "", XENPACK_STORE_HOST_ONLY);
        add(libxl_node(tree_.domid) + "/type", "pvh");
        add(libxl_node(tree_.domid) + "/dm-version", "qemu_xen");
    }

    void xenpack() {
        first("/xenpack/fork/template", tree_.template_uuid);
        first(std::string("/") + kForkStateNode, "building");
        for (const auto& [path, value] : tree_.identity) {
            first("/xenpack/fork/" + path, value);
        }
    }

    const ForkTree& tree_;
    std::string home_;
    TreeParts parts_;
};

}  // namespace

TreeParts fork_nodes(const ForkTree& tree) {
    return Nodes(tree).all();
}

std::string domain_node(std::uint32_t domid, const char* below) {
    return fmt::format("/local/domain/{}{}{}", domid, *below == '\0' ? "" : "/", below);
}

std::string disk_node(std::uint32_t domid, std::uint32_t number) {
    return fmt::format("/local/domain/{}/{}/{}", domid, hotplug::kTemplateDisksNode, number);
}

std::string vm_node(const std::string& uuid) {
    return "/vm/" + uuid;
}

std::string libxl_node(std::uint32_t domid) {
    return fmt::format("/libxl/{}", domid);
}

std::string console_backend_node(std::uint32_t console_domid, std::uint32_t domid) {
    return fmt::format("/local/domain/{}/backend/console/{}/0", console_domid, domid);
}

}  // namespace xenpack
