// SPDX-License-Identifier: LGPL-2.1-or-later
// Reads what the kernel says about the hypervisor. Called by open() only. It uses no Xen library.
#include "plugin/libxl/version.h"

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

#ifndef XENPACK_XEN_VERSION
#error "define XENPACK_XEN_VERSION as the Xen release built against, for example \"4.17\""
#endif

namespace xenpack {
namespace {

std::optional<std::string> contents(const std::string& path) {
    std::ifstream file(path);
    if (!file) {
        return std::nullopt;
    }
    std::ostringstream text;
    text << file.rdbuf();
    std::string all = text.str();
    while (!all.empty() && (all.back() == '\n' || all.back() == ' ')) {
        all.pop_back();
    }
    return all;
}

Expected<void> check_control_domain(const HostFiles& files) {
    const auto type = contents(files.sysfs + "/hypervisor/type");
    if (!type || *type != "xen") {
        return fail_with(ENODEV,
                         "this machine does not run under Xen ({}/hypervisor/type does not say "
                         "\"xen\"): boot it with the Xen hypervisor",
                         files.sysfs);
    }
    // Where xenfs is not mounted the file is absent, and libxl's own attempt decides.
    const auto capabilities = contents(files.proc + "/xen/capabilities");
    if (capabilities && capabilities->find("control_d") == std::string::npos) {
        return fail_with(ENODEV,
                         "this is a guest, not the control domain ({}/xen/capabilities has no "
                         "control_d): run xenpackd in dom0",
                         files.proc);
    }
    return {};
}

}  // namespace

const char* built_for_version() noexcept {
    return XENPACK_XEN_VERSION;
}

Expected<void> check_hypervisor(const HostFiles& files, const std::string& built_for) {
    if (auto ok = check_control_domain(files); !ok) {
        return ok;
    }
    const std::string directory = files.sysfs + "/hypervisor/version/";
    const auto major = contents(directory + "major");
    const auto minor = contents(directory + "minor");
    if (!major || !minor) {
        return fail_with(ENODEV, "cannot read the hypervisor's version from {}", directory);
    }
    const std::string running = *major + "." + *minor;
    if (running != built_for) {
        return fail_with(ENOEXEC,
                         "this plugin was built for Xen {} but Xen {} is running: install the "
                         "plugin built for Xen {}, or boot into Xen {}",
                         built_for, running, running, built_for);
    }
    return {};
}

}  // namespace xenpack
