// SPDX-License-Identifier: LGPL-2.1-or-later
// Ledger: the zones of a host as plan() needs them: sums, who wishes, and who could give, in order.
// What one zone changes costs the logarithm of how many there are, so that a decision does not
// depend on how many zones it does not touch. Pure: a value; the watcher keeps one.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "watcher/balance/need.h"

namespace xenpack {

class Ledger {
  public:
    // A number that the owner chooses, and uses again when a zone has gone: they should be dense.
    using Slot = std::size_t;
    // (rank, slot), the highest first; of one rank, the lower slot.
    struct Before {
        bool operator()(const std::pair<std::uint64_t, Slot>& a,
                        const std::pair<std::uint64_t, Slot>& b) const {
            return a.first != b.first ? a.first > b.first : a.second < b.second;
        }
    };
    using Ranking = std::set<std::pair<std::uint64_t, Slot>, Before>;

    // Takes a zone in, or its new values.
    void put(Slot slot, const ZoneView& view);
    void drop(Slot slot);
    void clear();

    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool has(Slot slot) const {
        return slot < entries_.size() && entries_[slot].used;
    }
    // Of a slot that it has.
    [[nodiscard]] const ZoneView& view(Slot slot) const { return entries_[slot].view; }
    [[nodiscard]] const Wish& wish(Slot slot) const { return entries_[slot].wish; }
    [[nodiscard]] std::uint64_t slack_kib(Slot slot, Keep keep) const {
        return entries_[slot].slack_kib[static_cast<std::size_t>(keep)];
    }

    [[nodiscard]] std::uint64_t pending_kib() const { return pending_kib_; }
    [[nodiscard]] std::uint64_t leaving_kib() const { return leaving_kib_; }
    // What all together could still grow by, up to their ceilings.
    [[nodiscard]] std::uint64_t growable_kib() const { return growable_kib_; }
    [[nodiscard]] const std::set<Slot>& wishing() const { return wishing_; }
    // Those at ease that would like more all the same.
    [[nodiscard]] const std::set<Slot>& liking() const { return liking_; }
    [[nodiscard]] const std::set<Slot>& over_limits() const { return over_limits_; }
    // Those with slack, the idlest first: by slack over weight, so that idle memory costs more.
    [[nodiscard]] const Ranking& donors(Keep keep) const {
        return donors_[static_cast<std::size_t>(keep)];
    }
    [[nodiscard]] const Ranking& bursts() const { return bursts_; }
    [[nodiscard]] bool moving() const { return moving_ > 0; }
    // There are zones whose need may fade, and so make them donors.
    [[nodiscard]] bool fading() const { return fading_ > 0; }

  private:
    struct Entry {
        bool used = false;
        ZoneView view;
        Wish wish;
        std::array<std::uint64_t, kKeeps> slack_kib{};
    };
    void count(Slot slot, bool in);

    std::vector<Entry> entries_;
    std::size_t size_ = 0;
    std::uint64_t pending_kib_ = 0;
    std::uint64_t leaving_kib_ = 0;
    std::uint64_t growable_kib_ = 0;
    std::size_t moving_ = 0;
    std::size_t fading_ = 0;
    std::set<Slot> wishing_;
    std::set<Slot> liking_;
    std::set<Slot> over_limits_;
    std::array<Ranking, kKeeps> donors_;
    Ranking bursts_;
};

}  // namespace xenpack
