// SPDX-License-Identifier: LGPL-2.1-or-later
// All or none. Pure.
#include "watcher/fork/brood.h"

#include <algorithm>
#include <utility>

namespace xenpack {

std::optional<std::size_t> Brood::next() const {
    const auto found = std::ranges::find(stages_, Stage::queued);
    if (failure_ || found == stages_.end()) {
        return std::nullopt;
    }
    return static_cast<std::size_t>(found - stages_.begin());
}

std::vector<std::size_t> Brood::unwanted() const {
    std::vector<std::size_t> list;
    for (std::size_t fork = 0; failure_ && fork < stages_.size(); ++fork) {
        if (stages_[fork] == Stage::running || stages_[fork] == Stage::ready) {
            list.push_back(fork);
        }
    }
    return list;
}

bool Brood::settled() const {
    return std::ranges::all_of(stages_, [this](Stage stage) {
        switch (stage) {
            case Stage::queued:
                return failure_.has_value();
            case Stage::building:
            case Stage::leaving:
                return false;
            case Stage::running:
                return !failure_ && until_ == Until::running;
            case Stage::ready:
                return !failure_;
            case Stage::gone:
                return true;
        }
        return false;
    });
}

void Brood::give_up(Error why) {
    if (!failure_) {
        failure_ = std::move(why);
    }
}

}  // namespace xenpack
