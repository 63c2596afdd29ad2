// SPDX-License-Identifier: LGPL-2.1-or-later
// block-xenpack and vif-xenpack: one program, which does what it is called. libxl runs it when a
// domain's disk or network comes or goes, as it runs Xen's own scripts in /etc/xen/scripts, but no
// shell is started. It answers in xenstore, as xen-hotplug-common.sh does: hotplug-status is
// "connected", or "error" with the reason in hotplug-error, which libxl shows. On the way out it
// tells what fails and goes on.
//
//   block-xenpack add|remove                      XENBUS_PATH is the backend
//   vif-xenpack online|offline [type_if=vif]      and vif is the interface
//   vif-xenpack join INTERFACE BRIDGE             by the daemon, when a fork has its identity
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hotplug/block.h"
#include "hotplug/request.h"
#include "hotplug/store.h"
#include "hotplug/vif.h"

namespace {

using namespace xenpack;
using namespace xenpack::hotplug;

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

int tell(const std::string& program, const Error& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what.c_str());
    return 1;
}

Expected<void> run(Store& store, const std::string& action, const std::string& path) {
    const auto backend = parse_backend(path);
    if (!backend) {
        return tl::unexpected(backend.error());
    }
    const bool disk = backend->type == "vbd";
    if (disk && action == "add") {
        return block_add(store, *backend, path);
    }
    if (disk && action == "remove") {
        return block_remove(store, path);
    }
    if (backend->type == "vif" && action == "online") {
        return vif_online(store, *backend, path, environment("vif"));
    }
    if (backend->type == "vif" && action == "offline") {
        return vif_offline(store, path, environment("vif"));
    }
    // Emulated networks come as "add" and "remove".
    return fail("it cannot \"{}\" a {}: it serves PV disks and networks only", action,
                backend->type);
}

// libxl reads hotplug-error when the program has ended.
void answer_error(Store& store, const std::string& path, const Error& error) {
    (void)store.write(path + "/hotplug-error", error.what);
    (void)store.write(path + "/hotplug-status", "error");
}

int serve(const std::string& program, const std::string& action) {
    const std::string path = environment("XENBUS_PATH");
    auto store = Store::open();
    if (!store) {
        return tell(program, store.error());
    }
    const auto done = run(*store, action, path);
    if (done) {
        return 0;
    }
    if (action == "add" || action == "online") {
        answer_error(*store, path, done.error());
    }
    return tell(program, done.error());
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv, argv + argc);
    const std::string program = words.empty() ? "" : words[0].substr(words[0].rfind('/') + 1);
    if (program == "vif-xenpack" && words.size() == 4 && words[1] == "join") {
        const auto done = vif_join(words[2], words[3]);
        return done ? 0 : tell(program, done.error());
    }
    if (words.size() < 2 || (program != "vif-xenpack" && program != "block-xenpack")) {
        std::fputs(
            "usage: block-xenpack add|remove, vif-xenpack online|offline (run by libxl), or "
            "vif-xenpack join INTERFACE BRIDGE\n",
            stderr);
        return 64;
    }
    return serve(program, words[1]);
}
