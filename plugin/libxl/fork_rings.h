// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkRings: the sharing rings of all forks that are served, Xen's mark of low memory, and what the
// watcher does with a fork that lacks memory: adopt, feed, hold, let go. Owned by the toolstack. It
// decides nothing: whom to feed and whom to hold is the watcher's.
//
// The mark (xen/common/page_alloc.c of 4.17, setup_low_mem_virq and check_low_mem_virq):
//   VIRQ_ENOMEM is raised by an allocation after which free memory without what is claimed is at
//   or under the mark. The mark is 64 MiB at first (low_mem_virq_limit= on Xen's command line; 0:
//   never; 1 GiB at most; rounded down to a power of two of pages, and halved at Xen's start where
//   no more than that is free). Each time it is raised the mark is halved, so that it is raised
//   once at 64, at 32, at 16 MiB and so on. An allocation that finds twice as much free as the
//   mark was when it was raised last brings it up again one step, and the next one the next step:
//   until then free memory may fall under a mark that it has fallen under before, and nothing is
//   raised. So it tells that memory has run low, not that it is low, and not each time.
//   It goes to one listener on the host: xen-lowmemd may have it.
//
// What else there is to have memory for forks (tests/lab/cases/fork-guard-plugin.sh; seen on Xen
// 4.17 and Linux 6.1 unless it says "by reading"):
//   A balloon taken down over memory that the fork has not written gives nothing back: 152 KiB of
//   20 MiB. Template and siblings stay whole. By reading: what the fork has written it gives back
//   (guest_remove_page in xen/common/memory.c), and up again it takes all from the host at once, in
//   pages of the fork's own (populate_physmap there).
//   A guest that does not write to a page before it gives it away (xen_scrub_pages=0) gives one
//   that is not in its map yet: Xen refuses, and Linux's balloon ends in a BUG
//   (decrease_reservation in drivers/xen/balloon.c); MemTotal stays low for good. So a fork's
//   balloon is for taking back what it has written and no longer uses, in guests that scrub, and
//   not to be moved up and down. By reading: its limit in Xen must not be below what it may touch:
//   under a limit, as without memory, a first touch finds wrong memory (mem_sharing_fork_page in
//   mem_sharing.c). A claim (xc_domain_claim_pages, counting all pages the fork is to hold) is
//   kept: the fork goes on writing where its sibling starves, and each page it takes is taken off
//   the claim. But what is claimed is away from all others at once, and free memory is reckoned
//   without it, here and by the mark: it ends the overcommit of that fork. It is of use for one
//   that must never wait, until its claim is used up, and for no other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "plugin/libxl/event_channels.h"
#include "plugin/libxl/fork_ring.h"
#include "plugin/libxl/fork_warden.h"
#include "plugin/libxl/hypervisor.h"
#include "plugin/libxl/paused_forks.h"
#include "plugin/libxl/xen.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class ForkRings {
  public:
    // All must outlive this. `may_report` says whether the watcher may still be told anything. On a
    // host without event channels this says so in the log, and serve() and adopt() fail with it.
    // `record`: where it stands who is paused over the watcher's end; empty: nowhere, and it pauses
    // nobody.
    ForkRings(const xenpack_watcher_ops& watcher, Hypervisor& xen, xentoollog_logger* logger,
              std::function<bool()> may_report, const std::string& record);

    // For a fork that has never run. EOPNOTSUPP: dom0 is not PV.
    Expected<void> serve(std::uint32_t domid, const std::uint8_t uuid[16]);
    // As the table's calls of these names. True: an earlier watcher, or its end, has paused it.
    Expected<bool> adopt(std::uint32_t domid, const std::uint8_t uuid[16]);
    Expected<void> feed(std::uint32_t domid, const std::uint8_t uuid[16]);
    Expected<void> hold(std::uint32_t domid, const std::uint8_t uuid[16]);
    Expected<void> let_go(std::uint32_t domid, const std::uint8_t uuid[16]);

    // The loop has ended: from now on nobody hears of one that starves.
    void leave_to_warden() noexcept;

    // Closes the rings of those that are gone or going: dom0's mapping would keep a page of them.
    void keep(const std::vector<xenpack_domain>& live) noexcept;
    void drop(std::uint32_t domid, const std::uint8_t uuid[16]) noexcept;

  private:
    using Key = std::pair<std::uint32_t, DomainUuid>;
    struct CloseMemory {
        void operator()(xenforeignmemory_handle* memory) const noexcept {
            xenforeignmemory_close(memory);
        }
    };

    Expected<void> open(xentoollog_logger* logger);
    void listen_for_low_memory();
    // ESRCH where it is gone or going.
    Expected<DomainFacts> living(const Key& key);
    Expected<std::unique_ptr<ForkRing>> make_ring(const Key& key);
    Expected<void> replace_ring(const Key& key, const DomainFacts& facts, bool ran);
    Expected<void> stop(const Key& key);
    Expected<void> resume(const Key& key);
    void watch(const Key& key) noexcept;
    void warn(const Expected<void>& result) const noexcept;
    void heard(const Key& key);
    void report(xenpack_event_type type, const Key& key);

    const xenpack_watcher_ops& watcher_;
    Hypervisor& xen_;
    std::function<bool()> may_report_;
    std::unique_ptr<xenforeignmemory_handle, CloseMemory> memory_;
    std::unique_ptr<EventChannels> channels_;
    Expected<void> opened_;  // both
    std::map<Key, std::unique_ptr<ForkRing>> rings_;
    std::set<Key> stopped_;   // ran, and are paused by an adoption that has not come to its end
    std::set<Key> ringless_;  // have none in Xen, as it could not be replaced
    std::unique_ptr<ForkWarden> warden_;
    PausedForks paused_;  // read when no earlier warden writes it any more
};

}  // namespace xenpack
