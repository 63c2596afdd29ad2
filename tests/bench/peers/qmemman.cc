// SPDX-License-Identifier: LGPL-2.1-or-later
// The rules first, then the daemon that waits for Xen and for slow guests as qmemman does.
#include "tests/bench/peers/qmemman.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace xenpack::bench::qmemman {
namespace {

constexpr std::uint64_t kKib = 1024;
constexpr double kRounding = 0.999;
constexpr std::uint64_t kDonorLeast = 10 * kMib;
// meminfo-writer's two arguments: it looks each 100 ms and reports a change of 30000 KiB, or of
// half that where little is left.
constexpr std::uint64_t kReportKib = 30'000;
constexpr unsigned kGrowTries = 5;    // of 0.1 s
constexpr unsigned kStartTries = 30;  // 3 s, in which 100 MiB/s must have come
constexpr std::uint64_t kStartLeast = 300 * kMib;
constexpr std::uint64_t kSlack = 25 * kMib;
constexpr std::uint64_t kHoldSlack = 200 * kKib;

bool takes_part(const View& view) {
    return view.used.has_value() && !view.no_progress;
}

std::int64_t as_signed(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

struct Shared {
    const View* view = nullptr;
    std::uint64_t target = 0;
};

// Gives what some could not take to those who can take more.
void share_left_over(std::vector<Shared>& shared, std::uint64_t left, std::size_t takers) {
    while (left > 0 && takers > 0) {
        std::uint64_t still_left = 0;
        std::size_t still_taking = takers;
        const auto bonus = static_cast<std::uint64_t>(
            kRounding * (static_cast<double>(left) / static_cast<double>(takers)));
        for (Shared& each : shared) {
            if (each.target >= each.view->most) {
                continue;
            }
            each.target += bonus;
            if (each.target >= each.view->most) {
                still_left += each.target - each.view->most;
                each.target = each.view->most;
                --still_taking;
            }
        }
        left = still_left;
        takers = still_taking;
    }
}

// Where preferences cannot all be met: donors fall to theirs, and what would be free beyond that is
// for the others. The surplus of the donors counts against what is free now, so most often nobody
// grows before the next look.
std::vector<Request> share_shortage(std::int64_t xen_free, const std::vector<View>& views) {
    std::vector<Request> requests;
    std::vector<const View*> takers;
    double takers_preferred = 0;
    std::int64_t squeezed = xen_free;
    for (const View& view : views) {
        if (!takes_part(view)) {
            continue;
        }
        const std::int64_t need = needed(view);
        if (need >= 0 && view.actual < view.most) {
            takers.push_back(&view);
            takers_preferred += static_cast<double>(preferred(view));
        } else if (-need >= as_signed(kDonorLeast)) {
            squeezed += need;
            requests.push_back({view.id, preferred(view)});
        }
    }
    if (squeezed < 0) {
        return requests;
    }
    for (const View* view : takers) {
        const double share = static_cast<double>(preferred(*view)) / takers_preferred;
        const double target =
            static_cast<double>(view->actual) + share * static_cast<double>(squeezed);
        requests.push_back(
            {view->id, std::min(static_cast<std::uint64_t>(kRounding * target), view->most)});
    }
    return requests;
}

}  // namespace

std::optional<std::uint64_t> parse_meminfo(std::string_view text) {
    std::uint64_t kib = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, kib);
    if (text.empty() || parsed.ec != std::errc() || parsed.ptr != end) {
        return std::nullopt;
    }
    return kib * kKib;
}

std::uint64_t preferred(const View& view) {
    const double wanted = kCacheFactor * static_cast<double>(view.used.value_or(0)) +
                          static_cast<double>(view.is_dom0 ? kDom0Boost : 0);
    const auto bounded =
        static_cast<std::uint64_t>(std::min(wanted, static_cast<double>(view.most)));
    return view.is_dom0 ? bounded : std::max(bounded, kLeastPreferred);
}

std::int64_t needed(const View& view) {
    return as_signed(preferred(view)) - as_signed(view.actual);
}

std::vector<Request> balloon(std::uint64_t size, const std::vector<View>& views) {
    std::uint64_t available = 0;
    for (const View& view : views) {
        if (takes_part(view) && needed(view) < 0) {
            available += static_cast<std::uint64_t>(-needed(view));
        }
    }
    if (available == 0 || available < size) {
        return {};
    }
    const double scale = static_cast<double>(size) / static_cast<double>(available);
    std::vector<Request> requests;
    for (const View& view : views) {
        if (takes_part(view) && needed(view) < 0) {
            const double taken = static_cast<double>(-needed(view)) * scale * kRequestSafety;
            requests.push_back(
                {view.id, static_cast<std::uint64_t>(static_cast<double>(view.actual) - taken)});
        }
    }
    return requests;
}

std::vector<Request> share_plenty(const std::vector<View>& views, double spare) {
    double all_preferred = 0;
    for (const View& view : views) {
        all_preferred += takes_part(view) ? static_cast<double>(preferred(view)) : 0;
    }
    std::vector<Shared> shared;
    std::uint64_t left = 0;
    std::size_t takers = 0;
    for (const View& view : views) {
        if (!takes_part(view)) {
            continue;
        }
        const auto prefers = static_cast<double>(preferred(view));
        const double scale = prefers / all_preferred;
        auto target = static_cast<std::uint64_t>(kRounding * (prefers + scale * spare));
        if (target > view.most) {
            left += target - view.most;
            target = view.most;
        } else {
            ++takers;
        }
        shared.push_back({&view, target});
    }
    share_left_over(shared, left, takers);
    std::vector<Request> requests;
    for (const bool shrinking : {true, false}) {
        for (const Shared& each : shared) {
            if ((each.target < each.view->actual) == shrinking) {
                requests.push_back({each.view->id, each.target});
            }
        }
    }
    return requests;
}

std::vector<Request> balance(std::int64_t xen_free, const std::vector<View>& views) {
    std::int64_t spare = xen_free;
    for (const View& view : views) {
        spare -= takes_part(view) ? needed(view) : 0;
    }
    return spare > 0 ? share_plenty(views, static_cast<double>(spare))
                     : share_shortage(xen_free, views);
}

// An AppVM starts with 400 MB, and its maximum is at most ten times what it starts with.
sim::DomainConfig Qmemman::zone_config(std::uint64_t peak_kib) const {
    const std::uint64_t full_kib = simulate::size_for_peak_kib(peak_kib);
    return start_with(std::max<std::uint64_t>(400 * kMibKib, full_kib / 10), full_kib);
}

void Qmemman::zone_started(const sim::Domain& domain, std::int64_t) {
    Zone zone;
    zone.last_target = domain.target_kib * kKib;
    zones_[domain.domid] = zone;
    starting_ = false;
    reported_ = true;
}

void Qmemman::step(sim::Host& host, std::int64_t) {
    take_reports(host);
    if (starting_) {
        return;
    }
    if (round_.empty() && reported_) {
        begin_round(host);
    }
    go_on(host);
}

// What the guests' meminfo-writer would write. It runs once a guest is up.
void Qmemman::take_reports(const sim::Host& host) {
    for (const auto& domain : host.domains()) {
        const sim::GuestStats& stats = domain->guest.stats();
        if (stats.uptime_ms < domain->config.balloon.boot_ms) {
            continue;
        }
        Zone& zone = zones_[domain->domid];
        const std::uint64_t used_kib = used_without_cache_kib(*domain);
        const std::uint64_t last_kib = zone.used_kib.value_or(0);
        const std::uint64_t delta_kib =
            used_kib > last_kib ? used_kib - last_kib : last_kib - used_kib;
        const bool tight =
            used_kib > zone.before_kib && delta_kib > kReportKib / 2 &&
            static_cast<double>(used_kib) * kCacheFactor > static_cast<double>(stats.total_kib);
        if (!zone.used_kib || delta_kib > kReportKib || tight) {
            zone.used_kib = used_kib;
            reported_ = true;
        }
        zone.before_kib = used_kib;
    }
}

std::uint64_t Qmemman::actual(const sim::Domain& domain) const {
    const auto zone = zones_.find(domain.domid);
    const std::uint64_t promised = zone == zones_.end() ? 0 : zone->second.last_target;
    return std::max(domain.current_kib * kKib, promised);
}

std::vector<View> Qmemman::views(const sim::Host& host) const {
    std::vector<View> result;
    for (const auto& domain : host.domains()) {
        const auto zone = zones_.find(domain->domid);
        if (zone == zones_.end()) {
            continue;
        }
        View view;
        view.id = domain->domid;
        if (zone->second.used_kib) {
            view.used = *zone->second.used_kib * kKib;
        }
        view.most = domain->config.max_memory_kib * kKib;
        view.actual = actual(*domain);
        view.no_progress = zone->second.no_progress;
        result.push_back(view);
    }
    return result;
}

// Without what is promised to domains that have not taken it yet.
std::int64_t Qmemman::xen_free(const sim::Host& host) const {
    std::uint64_t promised = 0;
    for (const auto& domain : host.domains()) {
        promised += actual(*domain) - domain->current_kib * kKib;
    }
    return as_signed(host.free_kib() * kKib) - as_signed(promised);
}

void Qmemman::clear_flags(const sim::Host& host) {
    for (const View& view : views(host)) {
        Zone& zone = zones_[view.id];
        if (view.actual <= zone.last_target + kSlack || view.actual < preferred(view)) {
            zone.no_progress = false;
            zone.slow = false;
        }
    }
}

void Qmemman::begin_round(sim::Host& host) {
    reported_ = false;
    clear_flags(host);
    const std::int64_t free = xen_free(host);
    const std::vector<Request> requests = balance(free - as_signed(kXenFreeLeft), views(host));
    if (!is_significant(host, requests, free)) {
        return;
    }
    round_.assign(requests.begin(), requests.end());
    donors_.clear();
    tries_ = 0;
}

bool Qmemman::is_significant(const sim::Host& host, const std::vector<Request>& requests,
                             std::int64_t xen_free) const {
    if (xen_free < as_signed(kXenFreeLeft - kLeastChangeUnderPreferred)) {
        return true;
    }
    auto moved = static_cast<std::uint64_t>(std::abs(xen_free - as_signed(kXenFreeLeft)));
    for (const View& view : views(host)) {
        for (const Request& request : requests) {
            if (request.id != view.id) {
                continue;
            }
            const std::int64_t change = as_signed(request.target) - as_signed(view.actual);
            moved += static_cast<std::uint64_t>(std::abs(change));
            if (view.actual < preferred(view) && change > as_signed(kLeastChangeUnderPreferred)) {
                return true;
            }
        }
    }
    return moved > kLeastTransfer;
}

// Sets targets as far as it need not wait for memory.
void Qmemman::go_on(sim::Host& host) {
    while (!round_.empty()) {
        const Request request = round_.front();
        sim::Domain* domain = host.find(request.id);
        if (domain == nullptr) {
            round_.pop_front();
            continue;
        }
        const std::uint64_t before = actual(*domain);
        if (request.target < before) {
            donors_.push_back(request);
        } else {
            const std::int64_t would_be =
                xen_free(host) - (as_signed(request.target) - as_signed(before));
            if (static_cast<double>(would_be) < 0.9 * static_cast<double>(kXenFreeLeft)) {
                if (++tries_ <= kGrowTries) {
                    return;
                }
                give_up_waiting(host, *domain);
                round_.clear();
                return;
            }
        }
        tries_ = 0;
        set(host, *domain, request.target);
        round_.pop_front();
    }
}

// Flags the donors that did not give, hands out what there is, and ends the round.
void Qmemman::give_up_waiting(sim::Host& host, sim::Domain& wanting) {
    for (const Request& donor : donors_) {
        const sim::Domain* domain = host.find(donor.id);
        if (domain == nullptr) {
            continue;
        }
        Zone& zone = zones_[donor.id];
        const std::uint64_t holds = domain->current_kib * kKib;
        if (holds > donor.target + kXenFreeLeft / 4) {
            (holds >= zone.last_actual ? zone.no_progress : zone.slow) = true;
        }
    }
    const std::int64_t spare = xen_free(host) - as_signed(kXenFreeLeft);
    if (spare > 0) {
        set(host, wanting, actual(wanting) + static_cast<std::uint64_t>(spare));
    }
    // Who is still short is not looked at again before the next report.
}

// qmemman writes memory/target 16 MiB lower, for a guest's video memory. The simulated domains have
// none and settle at the target itself.
void Qmemman::set(sim::Host& host, sim::Domain& domain, std::uint64_t target) {
    Zone& zone = zones_[domain.domid];
    zone.last_target = target;
    zone.last_actual = domain.current_kib * kKib;
    set_target(host, domain, std::min(target / kKib, domain.config.max_memory_kib));
}

// Before memory is used for a start: nobody may take what was freed.
void Qmemman::hold_growth(sim::Host& host) {
    for (const auto& domain : host.domains()) {
        const std::uint64_t holds = domain->current_kib * kKib;
        if (zones_[domain->domid].last_target > holds + kHoldSlack) {
            set(host, *domain, holds);
        }
    }
}

bool Qmemman::make_room(sim::Host& host, std::uint64_t cost_kib) {
    if (!round_.empty()) {
        return false;  // the round in progress has the lock
    }
    const std::uint64_t cost = cost_kib * kKib;
    const std::int64_t free = xen_free(host);
    if (!starting_) {
        clear_flags(host);
        starting_ = true;
        start_tries_ = 0;
        free_at_check_ = free;
        start_requests_.clear();
    }
    if (free >= as_signed(cost + kXenFreeLeast)) {
        hold_growth(host);
        return true;
    }
    for (const Request& request : start_requests_) {
        const sim::Domain* domain = host.find(request.id);
        Zone& zone = zones_[request.id];
        if (domain != nullptr && domain->current_kib * kKib >= zone.last_actual) {
            zone.no_progress = true;
        }
    }
    start_requests_ =
        balloon(static_cast<std::uint64_t>(as_signed(cost + kXenFreeLeft) - free), views(host));
    ++start_tries_;
    const bool too_slow =
        start_tries_ % kStartTries == 0 && free - free_at_check_ < as_signed(kStartLeast);
    if (start_requests_.empty() || too_slow) {
        starting_ = false;  // the start fails; whoever wants it must ask anew
        reported_ = true;
        return false;
    }
    if (start_tries_ % kStartTries == 0) {
        free_at_check_ = free;
    }
    for (const Request& request : start_requests_) {
        if (sim::Domain* domain = host.find(request.id)) {
            set(host, *domain, request.target);
        }
    }
    return false;
}

}  // namespace xenpack::bench::qmemman
