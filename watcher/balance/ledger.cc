// SPDX-License-Identifier: LGPL-2.1-or-later
// Bookkeeping of sums and orders. What a zone wishes and could give is need.h's to say.
#include "watcher/balance/ledger.h"

#include <algorithm>

namespace xenpack {
namespace {

template <class Set, class Key>
void keep(Set& set, const Key& key, bool in) {
    if (in) {
        set.insert(key);
    } else {
        set.erase(key);
    }
}

void keep(std::uint64_t& sum, std::uint64_t part, bool in) {
    sum = in ? sum + part : sum - part;
}

void keep(std::size_t& count, bool part, bool in) {
    count = in ? count + (part ? 1 : 0) : count - (part ? 1 : 0);
}

bool fades(const ZoneView& z) {
    return z.may_change && z.target_kib > z.floor_kib &&
           z.target_kib >= z.must_kib + kShrinkStepMinKib;
}

}  // namespace

void Ledger::put(Slot slot, const ZoneView& view) {
    if (slot >= entries_.size()) {
        entries_.resize(slot + 1);
    }
    drop(slot);
    Entry& entry = entries_[slot];
    entry.used = true;
    entry.view = view;
    entry.wish = wish_of(view);
    for (const Keep k : {Keep::slow, Keep::quick, Keep::must}) {
        entry.slack_kib[static_cast<std::size_t>(k)] = xenpack::slack_kib(view, k);
    }
    ++size_;
    count(slot, true);
}

void Ledger::drop(Slot slot) {
    if (slot < entries_.size() && entries_[slot].used) {
        count(slot, false);
        entries_[slot].used = false;
        --size_;
    }
}

void Ledger::clear() {
    *this = Ledger();
}

void Ledger::count(Slot slot, bool in) {
    const Entry& entry = entries_[slot];
    const ZoneView& z = entry.view;
    keep(pending_kib_, z.pending_kib, in);
    keep(leaving_kib_, z.leaving_kib, in);
    keep(growable_kib_, z.ceiling_kib - std::min(z.ceiling_kib, z.target_kib), in);
    keep(moving_, z.pending_kib > 0 || z.leaving_kib > 0, in);
    keep(fading_, fades(z), in);
    if (entry.wish.need_kib > 0) {
        keep(wishing_, slot, in);
    }
    if (entry.wish.need_kib == 0 && entry.wish.ease_kib > 0) {
        keep(liking_, slot, in);
    }
    if (over_its_limits(z)) {
        keep(over_limits_, slot, in);
    }
    for (std::size_t k = 0; k < kKeeps; ++k) {
        if (entry.slack_kib[k] > 0) {
            const std::uint64_t rank = entry.slack_kib[k] * 100 / std::max(1u, z.weight);
            keep(donors_[k], std::pair(rank, slot), in);
        }
    }
    if (const std::uint64_t burst = burst_to_come_kib(z); burst > 0) {
        keep(bursts_, std::pair(burst, slot), in);
    }
}

}  // namespace xenpack
