// SPDX-License-Identifier: LGPL-2.1-or-later
// host_memory: takes the host's memory away and gives it back, for lab cases about hosts that have
// none left. As root in dom0. No toolstack knows of its domains: only this program ends them.
//
//   host_memory hog LEAVE_KIB        a domain that holds all free memory but so much: "hog domid=N"
//   host_memory drop DOMID           ends it
//   host_memory claim DOMID KIB      Xen keeps memory for the domain until it holds so much; 0: no
//                                    more
//   host_memory show DOMID           "domain pages=N shared=N claimed=N limit=N", in pages
//   host_memory least                until it is ended: a line with what is free, in KiB, each time
//                                    that it is less than ever since the start
//
// Exit status: 0, or 1 with what failed.
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <xenctrl.h>
}

namespace {

constexpr std::uint64_t kPageKib = 4;
constexpr unsigned kBatch = 1024;  // pages that are asked for at once

[[noreturn]] void die(const char* what) {
    std::fprintf(stderr, "host_memory: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
        errno = EINVAL;
        die("not a number");
    }
    return value;
}

// What can be had: Xen counts claimed pages as free.
std::uint64_t free_pages(xc_interface* xc) {
    xc_physinfo_t host{};
    if (xc_physinfo(xc, &host) != 0) {
        die("asking how much is free");
    }
    return host.free_pages - std::min(host.outstanding_pages, host.free_pages);
}

// A PV domain: its pages need no map, so it takes what it is given and nothing beside.
std::uint32_t create(xc_interface* xc) {
    xen_domctl_createdomain config{};
    config.max_vcpus = 1;
    config.max_evtchn_port = 1023;
    config.max_grant_frames = 1;
    config.grant_opts = XEN_DOMCTL_GRANT_version(1);
    std::uint32_t domid = 0;  // any
    if (xc_domain_create(xc, &domid, &config) != 0 ||
        xc_domain_setmaxmem(xc, domid, ~0ULL >> 2) != 0) {
        die("creating a domain");
    }
    return domid;
}

void hog(xc_interface* xc, std::uint64_t leave_kib) {
    const std::uint32_t domid = create(xc);
    const std::uint64_t leave = leave_kib / kPageKib;
    std::vector<xen_pfn_t> frames(kBatch);
    std::uint64_t held = 0;
    for (;;) {
        const std::uint64_t now = free_pages(xc);
        const std::uint64_t wanted = std::min<std::uint64_t>(now - std::min(now, leave), kBatch);
        if (wanted == 0) {
            break;
        }
        for (std::uint64_t i = 0; i < wanted; ++i) {
            frames[i] = held + i;
        }
        const int got = xc_domain_populate_physmap(xc, domid, wanted, 0, 0, frames.data());
        if (got <= 0) {
            break;
        }
        held += static_cast<std::uint64_t>(got);
    }
    std::printf("hog domid=%u pages=%llu free=%llu\n", domid, static_cast<unsigned long long>(held),
                static_cast<unsigned long long>(free_pages(xc)));
}

void show(xc_interface* xc, std::uint32_t domid) {
    xc_domaininfo_t info{};
    if (xc_domain_getinfolist(xc, domid, 1, &info) != 1 || info.domain != domid) {
        errno = ESRCH;
        die("asking about the domain");
    }
    std::printf("domain pages=%llu shared=%llu claimed=%llu limit=%llu\n",
                static_cast<unsigned long long>(info.tot_pages),
                static_cast<unsigned long long>(info.shr_pages),
                static_cast<unsigned long long>(info.outstanding_pages),
                static_cast<unsigned long long>(info.max_pages));
}

// Nothing tells of each page that is taken, so Xen is asked again and again.
[[noreturn]] void least(xc_interface* xc) {
    constexpr timespec kBetween{0, 20'000'000};
    std::uint64_t known = ~0ULL;
    for (;;) {
        const std::uint64_t now = free_pages(xc);
        if (now < known) {
            known = now;
            std::printf("%llu\n", static_cast<unsigned long long>(now * kPageKib));
            std::fflush(stdout);
        }
        nanosleep(&kBetween, nullptr);
    }
}

}  // namespace

int main(int argc, char** argv) {
    xc_interface* const xc = xc_interface_open(nullptr, nullptr, 0);
    if (xc == nullptr) {
        die("attaching to Xen");
    }
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "hog" && argc == 3) {
        hog(xc, number(argv[2]));
    } else if (what == "drop" && argc == 3) {
        if (xc_domain_destroy(xc, static_cast<std::uint32_t>(number(argv[2]))) != 0) {
            die("ending the domain");
        }
    } else if (what == "claim" && argc == 4) {
        if (xc_domain_claim_pages(xc, static_cast<std::uint32_t>(number(argv[2])),
                                  number(argv[3]) / kPageKib) != 0) {
            die("claiming");
        }
    } else if (what == "show" && argc == 3) {
        show(xc, static_cast<std::uint32_t>(number(argv[2])));
    } else if (what == "least" && argc == 2) {
        least(xc);
    } else {
        std::fputs(
            "usage: host_memory hog LEAVE_KIB | drop DOMID | claim DOMID KIB | show DOMID | "
            "least\n",
            stderr);
        return 64;
    }
    xc_interface_close(xc);
    return 0;
}
