// SPDX-License-Identifier: LGPL-2.1-or-later
// The rule and its round of ten seconds.
#include "tests/bench/peers/proxmox.h"

#include <set>

namespace xenpack::bench::proxmox {
namespace {

constexpr double kHostUse = 0.80;
constexpr std::int64_t kDeadBandKib = 10 * 1024;
constexpr std::int64_t kMostChangeKib = 100 * 1024;
constexpr std::int64_t kRoomyDivisor = 4;  // more than 25 % of its minimum is free
// The manual says that the minimum is what a guest always has, and names no ratio. With half of its
// maximum it fits no fewer zones than with less.
constexpr std::uint64_t kMostPerLeast = 2;

// One pass over a list of guests: hands `goal` out, or takes it, by shares.
class Pass {
  public:
    Pass(std::map<std::uint32_t, std::int64_t>& sizes, std::int64_t goal_kib,
         std::int64_t most_change_kib)
        : sizes_(sizes), goal_kib_(goal_kib), most_change_kib_(most_change_kib) {}

    // What is left of the goal.
    std::int64_t over(const std::vector<const View*>& views) {
        std::int64_t rest_kib = goal_kib_;
        std::set<std::uint32_t> done;
        for (bool again = true; again && rest_kib != 0;) {
            again = false;
            std::int64_t shares = 0;
            std::int64_t to_share_kib = rest_kib;
            for (const View* view : views) {
                if (!done.contains(view->id)) {
                    shares += view->shares;
                    to_share_kib += size_of(*view) - view->least_kib;
                }
            }
            std::int64_t changed_kib = 0;
            for (const View* view : views) {
                if (done.contains(view->id)) {
                    continue;
                }
                const std::int64_t change_kib = move(*view, to_share_kib, shares, done);
                changed_kib += change_kib;
                again = again || change_kib != 0;
            }
            rest_kib -= changed_kib;
        }
        return rest_kib;
    }

  private:
    [[nodiscard]] std::int64_t size_of(const View& view) const {
        const auto size = sizes_.find(view.id);
        return size == sizes_.end() ? view.size_kib : size->second;
    }

    std::int64_t move(const View& view, std::int64_t to_share_kib, std::int64_t shares,
                      std::set<std::uint32_t>& done) {
        const auto share = static_cast<std::int64_t>(static_cast<double>(to_share_kib) /
                                                     static_cast<double>(shares) *
                                                     static_cast<double>(view.shares));
        const std::int64_t wanted_kib =
            std::max(view.least_kib, std::min(view.least_kib + share, view.most_kib));
        std::int64_t size_kib = view.size_kib;
        if (goal_kib_ > 0 && wanted_kib > view.size_kib) {
            size_kib = std::min(wanted_kib, view.size_kib + most_change_kib_);
        } else if (wanted_kib < view.size_kib) {
            size_kib = std::max(wanted_kib, view.size_kib - most_change_kib_);
        } else {
            done.insert(view.id);
            return 0;
        }
        const std::int64_t before_kib = size_of(view);
        sizes_[view.id] = size_kib;
        return size_kib - before_kib;
    }

    std::map<std::uint32_t, std::int64_t>& sizes_;
    std::int64_t goal_kib_;
    std::int64_t most_change_kib_;
};

}  // namespace

std::map<std::uint32_t, std::int64_t> balloon(const std::vector<View>& views, std::int64_t goal_kib,
                                              std::int64_t most_change_kib) {
    std::map<std::uint32_t, std::int64_t> sizes;
    if (goal_kib >= -kDeadBandKib && goal_kib <= kDeadBandKib) {
        return sizes;
    }
    // Those short of memory grow first, the others shrink first; where that changed nothing, all.
    std::vector<const View*> all;
    std::vector<const View*> first;
    for (const View& view : views) {
        const bool roomy =
            view.free_kib > view.least_kib / kRoomyDivisor && view.size_kib >= view.least_kib;
        all.push_back(&view);
        if (roomy == (goal_kib < 0)) {
            first.push_back(&view);
        }
    }
    Pass pass(sizes, goal_kib, most_change_kib);
    const std::int64_t rest_kib = pass.over(first);
    if (goal_kib > 0 ? rest_kib >= goal_kib : rest_kib <= goal_kib) {
        Pass(sizes, rest_kib, most_change_kib).over(all);
    }
    return sizes;
}

sim::DomainConfig Proxmox::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    return start_with_what_there_is(full_kib / kMostPerLeast, full_kib, free_kib_);
}

void Proxmox::step(sim::Host& host, std::int64_t now_ms) {
    free_kib_ = host.free_kib();
    if (!round_.due(now_ms)) {
        return;
    }
    std::vector<View> views;
    for (const auto& domain : host.domains()) {
        if (domain->guest.stats().uptime_ms < domain->config.balloon.boot_ms) {
            continue;  // its driver is not running
        }
        View view;
        view.id = domain->domid;
        view.most_kib = static_cast<std::int64_t>(domain->config.max_memory_kib);
        view.least_kib = view.most_kib / static_cast<std::int64_t>(kMostPerLeast);
        view.size_kib = static_cast<std::int64_t>(domain->current_kib);
        view.free_kib = static_cast<std::int64_t>(domain->guest.stats().free_kib);
        views.push_back(view);
    }
    const double total_kib = static_cast<double>(host.config().total_kib);
    const double used_kib = total_kib - static_cast<double>(host.free_kib());
    const auto goal_kib = static_cast<std::int64_t>(kHostUse * total_kib - used_kib);
    for (const auto& [id, size_kib] : balloon(views, goal_kib, kMostChangeKib)) {
        if (sim::Domain* domain = host.find(id)) {
            set_target(host, *domain, static_cast<std::uint64_t>(size_kib));
        }
    }
}

}  // namespace xenpack::bench::proxmox
