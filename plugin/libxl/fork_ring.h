// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkRing: one fork's sharing ring, on which Xen says that a processor of the fork waits for
// memory and on which dom0 answers that it may try again. Owned by ForkRings. Whether there is
// memory by now is not its business.
//
// What Xen does (4.17):
//   A write to a page that the fork shares takes memory for a copy. Where there is none and the
//   ring is enabled, the processor is paused, a request put on the ring and the event channel
//   rung (p2m_get_gfn_type_access in xen/arch/x86/mm/p2m.c, mem_sharing_notify_enomem in
//   mem_sharing.c): more than once where Xen itself writes for the processor, as in a hypercall,
//   which then fails, one more reason why memory must not run out. Where the ring is not enabled
//   the fork is crashed ("ENOMEM and no helper", hvm_hap_nested_page_fault in hvm.c). An answer
//   that repeats VM_EVENT_FLAG_VCPU_PAUSED ends one pause, and after the last the write is tried
//   anew. A request without that flag comes of dom0 touching the fork's memory: nobody waits for
//   its answer.
//   The ring's 8 places are kept by unanswered requests. A ninth processor that finds no place is
//   not paused: it faults again and again until there is memory. Nothing is lost by that.
//   Answers for a processor that does not wait change nothing (vm_event_resume,
//   vm_event_vcpu_unpause in xen/common/vm_event.c).
//   Xen keeps its reference to the ring's page and goes on putting requests there when dom0's end
//   of the event channel is closed: nobody hears of them, and the processors wait. The page is not
//   in the fork's map, so nobody can map it a second time: a new page takes its place.
//   Disabling the ring forgets the requests on it and unpauses none of those who wait.
//   It needs a PV dom0 (EOPNOTSUPP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/libxl/event_channels.h"
#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/xen.h"
#include "watcher/error.h"

namespace xenpack {

class ForkRing {
  public:
    // What it works with; all of it outlives it.
    struct Host {
        xc_interface* xc;
        xenforeignmemory_handle* memory;
        EventChannels& channels;
    };

    // `heard` is called in the loop: take() then says what it was.
    ForkRing(const Host& host, std::uint32_t domid, EventChannels::Fired heard)
        : host_{host}, domid_{domid}, heard_{std::move(heard)} {}
    // Closes dom0's half. Xen's half stays enabled: what starves from here on waits for whoever
    // replaces the ring, and what waits already goes on waiting.
    ~ForkRing();
    ForkRing(const ForkRing&) = delete;
    ForkRing& operator=(const ForkRing&) = delete;

    // For a fork that has never run. What fails is undone. ENOMEM; EOPNOTSUPP: dom0 is not PV.
    Expected<void> begin();

    // For a fork that has a ring already, whose other half is lost, and that is paused: prepare()
    // takes what can be missing and takes the old ring away; where it fails all is as it was.
    // replace() puts a new one in its place, and lets go all `vcpus` processors that waited on the
    // old one. Where it fails the fork has no ring: it must not run before another begin().
    Expected<void> prepare();
    Expected<void> replace(std::uint32_t vcpus);

    // Takes what Xen has said off the ring. True where the fork starves and that was not told yet.
    bool take();
    // All that wait try again.
    Expected<void> feed();

  private:
    Expected<void> make_page();
    void give_back_page() noexcept;
    Expected<void> hide_page();
    Expected<void> connect();
    void disconnect() noexcept;
    Expected<void> let_all_go(std::uint32_t vcpus);
    void undo() noexcept;
    void answer(const vm_event_request_t& request) noexcept;
    Expected<void> say_answered();

    Host host_;
    std::uint32_t domid_;
    EventChannels::Fired heard_;
    xen_pfn_t gfn_ = 0;
    void* page_ = nullptr;  // mapped here
    bool is_hidden_ = false;
    std::uint32_t port_ = 0;  // dom0's; 0: there is none
    vm_event_back_ring_t ring_{};
    std::vector<vm_event_request_t> waiting_;
    bool is_told_ = false;
    bool is_unsaid_ = false;  // Xen could not be told that there are answers
};

}  // namespace xenpack
