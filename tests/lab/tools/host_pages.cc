// SPDX-License-Identifier: LGPL-2.1-or-later
// host-pages: what Xen says of the host's memory, to the page, for lab cases that look for leaks.
// As root in dom0. It sets nothing.
//
//   host_pages
//
// prints "pages free=N scrub=N claimed=N shared=N saved=N domains=N", all but the last in pages:
// `shared` pages exist once and are mapped by several domains; `saved` are the copies that this
// spares. A domain that is dying counts until its last page is back.
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

extern "C" {
#include <xenctrl.h>
}

namespace {

// All domains there are, the dying ones as well.
unsigned count_domains(xc_interface* xc) {
    std::array<xc_domaininfo_t, 64> some{};
    unsigned count = 0;
    std::uint32_t first = 0;
    for (int got; (got = xc_domain_getinfolist(xc, first, some.size(), some.data())) > 0;) {
        count += static_cast<unsigned>(got);
        first = some[static_cast<std::size_t>(got) - 1].domain + 1U;
    }
    return count;
}

}  // namespace

int main() {
    xc_interface* const xc = xc_interface_open(nullptr, nullptr, 0);
    xc_physinfo_t host{};
    if (xc == nullptr || xc_physinfo(xc, &host) != 0) {
        std::fprintf(stderr, "host_pages: asking Xen: %s\n", std::strerror(errno));
        return 1;
    }
    // Both are -1 where this Xen shares no memory.
    const long shared = xc_sharing_used_frames(xc);
    const long saved = xc_sharing_freed_pages(xc);
    std::printf("pages free=%llu scrub=%llu claimed=%llu shared=%ld saved=%ld domains=%u\n",
                static_cast<unsigned long long>(host.free_pages),
                static_cast<unsigned long long>(host.scrub_pages),
                static_cast<unsigned long long>(host.outstanding_pages), shared, saved,
                count_domains(xc));
    xc_interface_close(xc);
    return 0;
}
