// SPDX-License-Identifier: LGPL-2.1-or-later
// bare-domain: makes an empty domain with a chosen domid, as only another toolstack could: a domain
// number that has just become free is used again at once, by a domain of another uuid. For the
// lab's cases, as root in dom0; "xl destroy" takes it away again. It never runs.
//
//   bare-domain DOMID NAME TARGET_KIB
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>

extern "C" {
#include <xenctrl.h>
#include <xenstore.h>
}

namespace {

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "bare-domain: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

std::uint32_t number(std::string_view text) {
    std::uint32_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
        errno = EINVAL;
        die("not a number");
    }
    return value;
}

std::string create(xc_interface* xc, std::uint32_t domid) {
    xen_domctl_createdomain config{};
    config.flags = XEN_DOMCTL_CDF_hvm | XEN_DOMCTL_CDF_hap;
    config.max_vcpus = 1;
    config.max_evtchn_port = 1023;
    config.max_grant_frames = 64;
    config.max_maptrack_frames = 1024;
    config.grant_opts = XEN_DOMCTL_GRANT_version(2);
    config.arch.emulation_flags = XEN_X86_EMU_LAPIC;
    std::random_device random;
    std::string uuid;
    for (std::size_t i = 0; i < sizeof config.handle; ++i) {
        config.handle[i] = static_cast<std::uint8_t>(random());
        char hex[4];
        std::snprintf(hex, sizeof hex, "%02x", config.handle[i]);
        uuid += i == 4 || i == 6 || i == 8 || i == 10 ? std::string("-") + hex : hex;
    }
    std::uint32_t got = domid;
    if (xc_domain_create(xc, &got, &config) != 0 || got != domid) {
        die("creating the domain");
    }
    return uuid;
}

void put(xs_handle* store, const std::string& path, const std::string& value) {
    if (!xs_write(store, XBT_NULL, path.c_str(), value.data(),
                  static_cast<unsigned>(value.size()))) {
        die(path.c_str());
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fputs("usage: bare-domain DOMID NAME TARGET_KIB\n", stderr);
        return 64;
    }
    xc_interface* xc = xc_interface_open(nullptr, nullptr, 0);
    xs_handle* store = xs_open(0);
    if (xc == nullptr || store == nullptr) {
        die("attaching to Xen");
    }
    const std::uint32_t domid = number(argv[1]);
    const std::string uuid = create(xc, domid);
    const std::string home = "/local/domain/" + std::to_string(domid) + "/";
    put(store, home + "name", argv[2]);
    put(store, home + "domid", std::to_string(domid));
    put(store, home + "vm", "/vm/" + uuid);
    put(store, home + "memory/target", argv[3]);
    put(store, home + "memory/static-max", std::to_string(2 * number(argv[3])));
    std::printf("uuid=%s\n", uuid.c_str());
    return 0;
}
