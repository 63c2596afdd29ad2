// SPDX-License-Identifier: LGPL-2.1-or-later
// The steps of setting a ring up, in the order that Xen's own users of such rings take, and the
// ring's protocol (xen/include/public/io/ring.h). What stands on the page is Xen's alone once the
// page is out of the fork's map.
#include "plugin/libxl/fork_ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace xenpack {
namespace {

// Xen's macros reckon addresses in several kinds of integers.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
void lay_out(void* page, vm_event_back_ring_t& ring) noexcept {
    std::memset(page, 0, XC_PAGE_SIZE);
    auto* shared = static_cast<vm_event_sring_t*>(page);
    SHARED_RING_INIT(shared);
    BACK_RING_INIT(&ring, shared, XC_PAGE_SIZE);
}
#pragma GCC diagnostic pop

}  // namespace

ForkRing::~ForkRing() {
    if (port_ != 0) {
        host_.channels.unbind(port_);
    }
    if (page_ != nullptr) {
        xenforeignmemory_unmap(host_.memory, page_, 1);
    }
}

Expected<void> ForkRing::begin() {
    auto ok = make_page().and_then([&] { return connect(); }).and_then([&] { return hide_page(); });
    if (!ok) {
        undo();
    }
    return ok;
}

Expected<void> ForkRing::prepare() {
    if (auto ok = make_page(); !ok) {
        return ok;
    }
    // EINVAL: there was none (vm_event_domctl in xen/common/vm_event.c).
    if (xc_memshr_ring_disable(host_.xc, domid_) != 0 && errno != EINVAL) {
        const int code = errno;
        undo();
        return hypercall_failure(
            fmt::format("cannot take the old sharing ring from domain {}", domid_), code);
    }
    return {};
}

// Answers that nobody asked for leave Xen's count of the ring's places wrong: the ring that takes
// them is used for nothing else.
Expected<void> ForkRing::replace(std::uint32_t vcpus) {
    auto ok = connect().and_then([&] { return let_all_go(vcpus); });
    if (ok) {
        disconnect();
        ok = connect().and_then([&] { return hide_page(); });
    }
    if (!ok) {
        undo();
    }
    return ok;
}

void ForkRing::undo() noexcept {
    disconnect();
    give_back_page();
}

// A page that the fork has never seen: what it may have at that place, or finds there anew of its
// template's, goes first. (That there is nothing is no failure.)
Expected<void> ForkRing::make_page() {
    std::uint64_t gfn = 0;
    if (xc_hvm_param_get(host_.xc, domid_, HVM_PARAM_SHARING_RING_PFN, &gfn) != 0 || gfn == 0) {
        return hypercall_failure(fmt::format("domain {} has no place for a sharing ring", domid_),
                                 gfn == 0 ? EOPNOTSUPP : errno);
    }
    gfn_ = gfn;
    xen_pfn_t at = gfn_;
    static_cast<void>(xc_domain_decrease_reservation(host_.xc, domid_, 1, 0, &at));
    at = gfn_;
    if (xc_domain_populate_physmap_exact(host_.xc, domid_, 1, 0, 0, &at) != 0) {
        // libxc says only that it was not done; nothing but memory is missing for one page.
        return fail_with(ENOMEM, "Xen has no page for the sharing ring of domain {}", domid_);
    }
    page_ = xenforeignmemory_map(host_.memory, domid_, PROT_READ | PROT_WRITE, 1, &gfn_, nullptr);
    if (page_ == nullptr) {
        const int code = errno;
        give_back_page();
        return hypercall_failure(fmt::format("cannot map the sharing ring of domain {}", domid_),
                                 code);
    }
    is_hidden_ = false;
    return {};
}

void ForkRing::give_back_page() noexcept {
    if (page_ != nullptr) {
        xenforeignmemory_unmap(host_.memory, page_, 1);
        page_ = nullptr;
    }
    if (gfn_ != 0 && !is_hidden_) {
        xen_pfn_t at = gfn_;
        static_cast<void>(xc_domain_decrease_reservation(host_.xc, domid_, 1, 0, &at));
    }
    gfn_ = 0;
}

// From here on the page is there for Xen and dom0 only. A guest that could write to it could have
// Xen read answers without end.
Expected<void> ForkRing::hide_page() {
    xen_pfn_t at = gfn_;
    if (xc_domain_decrease_reservation_exact(host_.xc, domid_, 1, 0, &at) != 0) {
        return hypercall_failure(
            fmt::format("cannot take the sharing ring's page out of domain {}", domid_), errno);
    }
    is_hidden_ = true;
    return {};
}

Expected<void> ForkRing::connect() {
    lay_out(page_, ring_);
    std::uint32_t port = 0;
    if (xc_memshr_ring_enable(host_.xc, domid_, &port) != 0) {
        return hypercall_failure(fmt::format("cannot enable the sharing ring of domain {}", domid_),
                                 errno);
    }
    const auto bound = host_.channels.bind(domid_, port, heard_);
    if (!bound) {
        xc_memshr_ring_disable(host_.xc, domid_);
        return tl::unexpected(bound.error());
    }
    port_ = *bound;
    return {};
}

void ForkRing::disconnect() noexcept {
    if (port_ != 0) {
        host_.channels.unbind(port_);
        port_ = 0;
        xc_memshr_ring_disable(host_.xc, domid_);
    }
}

Expected<void> ForkRing::let_all_go(std::uint32_t vcpus) {
    for (std::uint32_t vcpu = 0; vcpu < vcpus; ++vcpu) {
        vm_event_request_t request{};
        request.flags = VM_EVENT_FLAG_VCPU_PAUSED;
        request.reason = VM_EVENT_REASON_MEM_SHARING;
        request.vcpu_id = vcpu;
        // One processor can have kept all places of a ring, each with a pause of its own.
        for (unsigned i = 0; i < RING_SIZE(&ring_); ++i) {
            answer(request);
        }
        // Xen reads them within the call, so that there is room for the next.
        if (auto ok = say_answered(); !ok) {
            return ok;
        }
    }
    return {};
}

bool ForkRing::take() {
    bool has_answered = false;
    const RING_IDX produced = *static_cast<const volatile RING_IDX*>(&ring_.sring->req_prod);
    xen_rmb();
    // Xen never puts more there than the ring has places.
    const RING_IDX count = std::min(produced - ring_.req_cons, RING_SIZE(&ring_));
    for (RING_IDX i = 0; i < count; ++i) {
        vm_event_request_t request;
        std::memcpy(&request, RING_GET_REQUEST(&ring_, ring_.req_cons), sizeof request);
        ring_.req_cons++;
        if ((request.flags & VM_EVENT_FLAG_VCPU_PAUSED) != 0) {
            waiting_.push_back(request);
        } else {
            answer(request);
            has_answered = true;
        }
    }
    if (has_answered) {
        static_cast<void>(say_answered());
    }
    if (waiting_.empty() || is_told_) {
        return false;
    }
    is_told_ = true;
    return true;
}

Expected<void> ForkRing::feed() {
    static_cast<void>(take());
    is_told_ = false;
    if (waiting_.empty() && !is_unsaid_) {
        return {};
    }
    for (const vm_event_request_t& request : waiting_) {
        answer(request);
    }
    waiting_.clear();
    return say_answered();
}

void ForkRing::answer(const vm_event_request_t& request) noexcept {
    vm_event_response_t response{};
    response.version = VM_EVENT_INTERFACE_VERSION;
    response.flags = request.flags & VM_EVENT_FLAG_VCPU_PAUSED;
    response.reason = request.reason;
    response.vcpu_id = request.vcpu_id;
    response.u.mem_sharing = request.u.mem_sharing;
    std::memcpy(RING_GET_RESPONSE(&ring_, ring_.rsp_prod_pvt), &response, sizeof response);
    ring_.rsp_prod_pvt++;
    RING_PUSH_RESPONSES(&ring_);
}

Expected<void> ForkRing::say_answered() {
    auto said = host_.channels.notify(port_).map_error([&](const Error& error) {
        return error.during(fmt::format("answering domain {}, which waits for memory", domid_));
    });
    is_unsaid_ = !said;
    return said;
}

}  // namespace xenpack
