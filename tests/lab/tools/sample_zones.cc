// SPDX-License-Identifier: LGPL-2.1-or-later
// sample_zones: writes down, a few times a second until it is killed, what Xen and xenstore say of
// some domains. For the lab's cases, as root in dom0. One process that stays, because starting one
// for each sample would slow down what is watched; it sets nothing.
//
//   sample_zones EVERY_MS NAME=DOMID...
//
// Lines, times in ms of the wall clock as now_ms in lab.sh has it, sizes in KiB:
//   data host T total=N free=N
//   data zone T NAME current=N target=N WORKLOAD      (what its workload wrote to data/workload)
#include <poll.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <xenctrl.h>
#include <xenstore.h>
}

namespace {

constexpr unsigned long long kPageKib = 4;

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "sample_zones: %s: %s\n", what, std::strerror(errno));
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

struct Watched {
    std::string name;
    std::uint32_t domid;
};

long long now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string stored(xs_handle* xs, const Watched& zone, const char* below) {
    const std::string path = "/local/domain/" + std::to_string(zone.domid) + "/" + below;
    char* const value = static_cast<char*>(xs_read(xs, XBT_NULL, path.c_str(), nullptr));
    std::string text = value == nullptr ? "" : value;
    std::free(value);
    return text;
}

void sample(xc_interface* xc, xs_handle* xs, const std::vector<Watched>& zones) {
    xc_physinfo_t host{};
    if (xc_physinfo(xc, &host) != 0) {
        die("asking for the host's memory");
    }
    std::printf(
        "data host %lld total=%llu free=%llu\n", now_ms(),
        static_cast<unsigned long long>(host.total_pages) * kPageKib,
        static_cast<unsigned long long>(host.free_pages - host.outstanding_pages) * kPageKib);
    for (const Watched& zone : zones) {
        xc_domaininfo_t info{};
        const long long at_ms = now_ms();
        if (xc_domain_getinfolist(xc, zone.domid, 1, &info) == 1 && info.domain == zone.domid) {
            std::printf("data zone %lld %s current=%llu target=%s %s\n", at_ms, zone.name.c_str(),
                        static_cast<unsigned long long>(info.tot_pages) * kPageKib,
                        stored(xs, zone, "memory/target").c_str(),
                        stored(xs, zone, "data/workload").c_str());
        }
    }
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: sample_zones EVERY_MS NAME=DOMID...\n");
        return 1;
    }
    const auto every_ms = static_cast<int>(number(argv[1]));
    std::vector<Watched> zones;
    for (int i = 2; i < argc; ++i) {
        const std::string_view word = argv[i];
        const std::size_t equals = std::min(word.find('='), word.size() - 1);
        zones.push_back({std::string(word.substr(0, equals)), number(word.substr(equals + 1))});
    }
    xc_interface* const xc = xc_interface_open(nullptr, nullptr, 0);
    xs_handle* const xs = xs_open(0);
    if (xc == nullptr || xs == nullptr) {
        die("opening Xen or xenstore");
    }
    for (;;) {
        sample(xc, xs, zones);
        poll(nullptr, 0, every_ms);
    }
}
