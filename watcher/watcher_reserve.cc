// SPDX-License-Identifier: LGPL-2.1-or-later
// The watcher's part in reservations: what a request asks for, what the host could give, what
// domains have taken of what was promised to them. Queue and promises are reserve/'s.
#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "watcher/kib.h"
#include "watcher/loop/loop.h"
#include "watcher/reserve/desk.h"
#include "watcher/watcher.h"
#include "watcher/watcher_asked.h"
#include "watcher/zones/follow.h"

namespace xenpack {
namespace {

using nlohmann::json;

// How long a start may wait, and how long what it was promised is kept for it, where it does not
// say.
constexpr std::int64_t kWaitMs = 60'000;
constexpr std::int64_t kDeadlineMs = 600'000;

// As to_string(Uuid) writes it; empty where it is none.
std::string canonical_uuid(std::string_view given) {
    std::string uuid;
    for (const char c : given) {
        const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool dash =
            uuid.size() == 8 || uuid.size() == 13 || uuid.size() == 18 || uuid.size() == 23;
        const bool digit = (lower >= '0' && lower <= '9') || (lower >= 'a' && lower <= 'f');
        if (uuid.size() == 36 || (dash ? lower != '-' : !digit)) {
            return {};
        }
        uuid += lower;
    }
    return uuid.size() == 36 ? uuid : std::string();
}

Expected<void> check_names(const json& asked) {
    static constexpr std::array<std::string_view, 7> kKnown{
        "size_kib", "config", "owner", "uuid", "pid", "wait_ms", "deadline_ms"};
    if (auto known = check_members(asked, kKnown, "a reservation"); !known) {
        return known;
    }
    if (asked.contains("size_kib") == asked.contains("config")) {
        return fail_with(EINVAL, "a reservation names either size_kib or config");
    }
    return {};
}

// Its size and domain, by the configuration of a domain to come.
Expected<void> take_config(Toolstack& toolstack, const std::string& config, Reservation& r) {
    const auto cost = toolstack.start_cost(config);
    if (!cost) {
        return tl::unexpected(cost.error());
    }
    r.size_kib = cost->memory_kib + cost->overhead_kib;
    r.overhead_kib = cost->overhead_kib;
    Uuid uuid{};
    std::ranges::copy(cost->uuid, uuid.begin());
    if (uuid != Uuid{}) {
        r.uuid = to_string(uuid);
    }
    const json whole = json::parse(config, nullptr, false);
    if (r.owner.empty() && whole.is_object()) {
        const json name = whole.value("/c_info/name"_json_pointer, json());
        r.owner = name.is_string() ? one_line(name.get<std::string>()) : "";
    }
    return {};
}

Expected<void> take_domain(const json& asked, Toolstack& toolstack, Reservation& r) {
    const auto config = asked_text(asked, "config");
    const auto uuid = asked_text(asked, "uuid");
    const auto size_kib = asked_number<std::uint64_t>(asked, "size_kib", 0, kMaxSizeKib);
    if (!config || !uuid || !size_kib) {
        return tl::unexpected(!config ? config.error() : !uuid ? uuid.error() : size_kib.error());
    }
    r.size_kib = *size_kib;
    if (!config->empty()) {
        if (auto taken = take_config(toolstack, *config, r); !taken) {
            return taken;
        }
    }
    if (r.size_kib == 0) {
        return fail_with(EINVAL, "a reservation of nothing: size_kib must be above 0");
    }
    if (!uuid->empty()) {
        r.uuid = canonical_uuid(*uuid);
        if (r.uuid.empty()) {
            return fail_with(EINVAL, "uuid must be as in 01234567-89ab-cdef-0123-456789abcdef");
        }
        if (r.uuid == to_string(Uuid{})) {
            return fail_with(EINVAL,
                             "a uuid of zeros is dom0's: leave it out where it is not known");
        }
    }
    return {};
}

Expected<Reservation> parse(const json& asked, const Control::Caller& caller,
                            Toolstack& toolstack) {
    if (auto names = check_names(asked); !names) {
        return tl::unexpected(names.error());
    }
    const auto owner = asked_text(asked, "owner");
    const auto pid = asked_number<int>(asked, "pid", caller.pid, std::numeric_limits<int>::max());
    const auto wait_ms =
        asked_number<std::int64_t>(asked, "wait_ms", kWaitMs, kReservationWaitMostMs);
    if (!owner || !pid || !wait_ms) {
        return tl::unexpected(!owner ? owner.error() : !pid ? pid.error() : wait_ms.error());
    }
    const auto deadline_ms = asked_number<std::int64_t>(
        asked, "deadline_ms", *wait_ms + kDeadlineMs, 2 * kReservationWaitMostMs);
    if (!deadline_ms) {
        return tl::unexpected(deadline_ms.error());
    }
    if (*deadline_ms == 0) {
        return fail_with(EINVAL,
                         "a reservation that ends at once: deadline_ms must be above 0, and how "
                         "long to wait is wait_ms");
    }
    Reservation r;
    r.owner = one_line(*owner);
    r.pid = *pid;
    r.wait_until_ms = Loop::now_ms() + *wait_ms;
    r.deadline_ms = Loop::now_ms() + *deadline_ms;
    if (auto taken = take_domain(asked, toolstack, r); !taken) {
        return tl::unexpected(taken.error());
    }
    if (r.owner.empty()) {
        r.owner = r.pid == 0 ? "nobody" : fmt::format("process {}", r.pid);
    }
    return r;
}

// All that zones could give in time: who is new, or under way, may be asked before long.
std::uint64_t could_give_kib(const std::vector<ZoneView>& views) {
    std::uint64_t sum_kib = 0;
    for (ZoneView view : views) {
        sum_kib += view.leaving_kib;
        view.may_shrink = view.may_change;
        sum_kib += slack_kib(view, Keep::must);
    }
    return sum_kib;
}

json reservation_json(const Reservation& r, std::int64_t now_ms) {
    return {{"id", r.id},
            {"owner", r.owner},
            {"pid", r.pid == 0 ? json(nullptr) : json(r.pid)},
            {"uuid", r.uuid.empty() ? json(nullptr) : json(r.uuid)},
            {"size_kib", r.size_kib},
            {"overhead_kib", r.overhead_kib},
            {"state", name_of(r.state)},
            {"held_kib", held_kib(r)},
            {"deadline_in_ms", std::max<std::int64_t>(r.deadline_ms - now_ms, 0)}};
}

}  // namespace

Expected<void> Watcher::reserve(const json& asked, const Control::Caller& caller) {
    auto reservation = parse(asked, caller, *toolstack_);
    if (!reservation) {
        return tl::unexpected(reservation.error());
    }
    if (auto learned = learn(); !learned) {
        return learned;
    }
    follow_starts();
    const bool known = std::ranges::any_of(
        desk_->book().entries(), [&](const Reservation& r) { return r.uuid == reservation->uuid; });
    for (const Zone* zone : zones_->all()) {
        if (!known && to_string(zone->key.uuid) == reservation->uuid) {
            return fail_with(EBUSY, "{} has a domain already, with domid {} and that uuid",
                             reservation->owner, zone->key.domid);
        }
    }
    return desk_->ask(std::move(*reservation), supply(), caller.request);
}

Expected<void> Watcher::release(std::uint64_t reservation) {
    return desk_->release(reservation);
}

void Watcher::caller_gone(std::uint64_t request) {
    desk_->caller_gone(request);
    pools_->caller_gone(request);
    forks_->caller_gone(request);
}

void Watcher::reservation_said(const std::string& sentence) {
    publish(about_host(DecisionKind::start, sentence));
}

void Watcher::reservation_answered(std::uint64_t caller, const Reservation& reservation,
                                   const Expected<void>& granted) {
    if (is_for_forks(caller)) {
        forks_memory_answered(caller, reservation, granted);
        return;
    }
    if (control_ == nullptr) {
        return;
    }
    if (granted) {
        control_->answer(caller, reservation_json(reservation, Loop::now_ms()));
    } else {
        control_->answer(caller, tl::unexpected(granted.error()));
    }
}

json Watcher::reservations_json() const {
    json list = json::array();
    for (const Reservation& r : desk_->book().entries()) {
        list.push_back(reservation_json(r, Loop::now_ms()));
    }
    return list;
}

// By the host as it was last read.
StartSupply Watcher::supply_beside(std::uint64_t forks_kib) const {
    const std::int64_t now_ms = Loop::now_ms();
    const HostFacts host = host_facts(now_ms);
    std::vector<ZoneView> views;
    std::uint64_t spoken_for_kib = host.promised_to_others_kib + host.promised_to_starts_kib +
                                   config_.emergency_kib + forks_kib;
    for (const Zone* zone : zones_->all()) {
        if (zone->managed) {
            views.push_back(view_of(*zone, now_ms));
            spoken_for_kib += beyond_promise(*zone, views.back().pending_kib);
        }
    }
    // What is promised beyond what is free has to be given before all else.
    return {minus(host.free_kib, spoken_for_kib),
            minus(could_give_kib(views), minus(spoken_for_kib, host.free_kib))};
}

// Forks that wait come before who is to come. As they may end, or want no more, he is not refused
// because of them, but waits.
StartSupply Watcher::supply() const {
    const StartSupply all = supply_beside(0);
    StartSupply supply = supply_beside(forks_->keeper().wanted().waiting_kib);
    supply.for_forks_kib =
        minus(all.free_kib + all.could_give_kib, supply.free_kib + supply.could_give_kib);
    return supply;
}

void Watcher::follow_starts() {
    if (desk_->book().entries().empty()) {
        return;
    }
    std::vector<StartedDomain> domains;
    for (const Zone* zone : zones_->all()) {
        domains.push_back({to_string(zone->key.uuid), zone->domain.current_kib,
                           zone->domain.claimed_kib, zone->target_kib,
                           (zone->domain.flags & XENPACK_DOMAIN_NEVER_RAN) == 0});
    }
    desk_->follow(domains);
}

std::uint64_t Watcher::beyond_promise(const Zone& zone, std::uint64_t coming_kib) const {
    const Book& book = desk_->book();
    return book.entries().empty() ? coming_kib
                                  : minus(coming_kib, book.held_kib(to_string(zone.key.uuid)));
}

void Watcher::grant_starts(const Plan& decided) {
    if (desk_->book().entries().empty() && desk_->faults().empty()) {
        return;
    }
    // Who is there already goes before who is to come.
    desk_->grant(minus(decided.left_kib, forks_->keeper().wanted().waiting_kib));
    desk_->expire(supply());
}

}  // namespace xenpack
