// SPDX-License-Identifier: LGPL-2.1-or-later
// Discovery, watches and reports. In the order of a zone's life: sync() finds it, add() watches it,
// classify() says whether it is ours, the handlers record what it says, sync() forgets it.
#include "watcher/zones/zones.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "watcher/loop/loop.h"
#include "watcher/zones/flood.h"
#include "watcher/zones/follow.h"

namespace xenpack {
namespace {

std::optional<std::uint64_t> kib_or_nothing(const Expected<std::optional<std::string>>& value) {
    if (!value || !*value) {
        return std::nullopt;
    }
    const auto kib = parse_kib(**value, kMaxSizeKib);
    return kib ? std::optional(*kib) : std::nullopt;
}

ZoneKey key_of(const xenpack_domain& domain) {
    ZoneKey key;
    key.domid = domain.domid;
    std::memcpy(key.uuid.data(), domain.uuid, key.uuid.size());
    return key;
}

// In anything that a decision may depend on.
bool differ(const xenpack_domain& a, const xenpack_domain& b) {
    return a.flags != b.flags || a.shutdown_reason != b.shutdown_reason ||
           a.current_kib != b.current_kib || a.limit_kib != b.limit_kib ||
           a.claimed_kib != b.claimed_kib;
}

// A value for a sentence: short, and nothing in it that a terminal would act on.
std::string quoted(std::string_view untrusted_text) {
    std::string text = "\"";
    for (const char c : untrusted_text.substr(0, 40)) {
        text += c >= 0x20 && c < 0x7f ? c : '?';
    }
    return text + (untrusted_text.size() > 40 ? "...\"" : "\"");
}

}  // namespace

// A zone with the watches that keep it true. Its address is stable while it lives.
struct Zones::Watched {
    Watched(Zones& zones, const xenpack_domain& domain) : owner(zones) {
        zone.key = key_of(domain);
        zone.domain = domain;
    }

    [[nodiscard]] std::string path(std::string_view below) const {
        return domain_path(zone.key.domid, below);
    }

    Store::WatchHandle watch(std::string_view below, void (Watched::*handler)()) {
        auto handle = owner.store_.watch(path(below), [this, handler] { (this->*handler)(); });
        if (!handle) {
            owner.mediator_.zone_fault(zone, handle.error().what);
            return nullptr;
        }
        return std::move(*handle);
    }

    void watch_basics() {
        watches.push_back(watch("name", &Watched::on_name));
        watches.push_back(watch("memory/target", &Watched::on_target));
        watches.push_back(watch("memory/static-max", &Watched::on_static_max));
        on_name();
        on_target();
        on_static_max();
        basics_known = true;
    }

    void watch_family() {
        watches.push_back(watch(kFamilyPath, &Watched::on_family_changed));
        on_family();
    }

    // A fork's nodes come many at once, each with an event: they are read at the look, together.
    void on_family_changed() {
        family_is_old = true;
        owner.mediator_.zones_changed();
    }

    void refresh_family() {
        if (family_is_old) {
            on_family();
        }
    }

    void listen() {
        report_watch = watch(kReportPath, &Watched::on_report);
        agent_watch = watch("data/meminfo_free", &Watched::on_xen_guest_agent);
        qubes_watch = watch("memory/meminfo", &Watched::on_qubes);
    }

    void stop_listening() {
        report_watch.reset();
        agent_watch.reset();
        qubes_watch.reset();
    }

    [[nodiscard]] bool listening() const { return report_watch != nullptr; }

    // Something of it is new: look.
    void tell() {
        zone.changed = true;
        owner.mediator_.zones_changed();
    }

    void on_name() {
        const auto name = owner.store_.read(path("name"));
        if (name && *name && **name != zone.name) {
            zone.name = **name;
            if (classified) {
                owner.classify(*this);
            }
            tell();
        }
    }

    void on_family() {
        family_is_old = false;
        const auto family =
            read_family([this](std::string_view below) { return owner.store_.read(path(below)); });
        if (!family || *family == zone.family) {
            return;
        }
        zone.family = *family;
        // A fork that is left paused is one before it has ever run.
        if (const auto why = left_alone_why(zone.family); !why.empty()) {
            zone.unmanaged_why = why;
        }
        if (classified) {
            owner.classify(*this);
        }
        tell();
    }

    void on_target() {
        auto before = zone.target_kib;
        update(zone.target_kib, "memory/target");
        if (!before && basics_known && zone.key.domid == 0) {
            before =
                zone.domain.current_kib;  // libxl writes dom0 a target when it first changes it
        }
        if (before && zone.target_kib && *before != *zone.target_kib) {
            owner.mediator_.target_was_changed(zone, *before, *zone.target_kib);
        }
    }
    void on_static_max() { update(zone.static_max_kib, "memory/static-max"); }

    void update(std::optional<std::uint64_t>& value, std::string_view below) {
        const auto fresh = kib_or_nothing(owner.store_.read(path(below)));
        if (fresh != value) {
            value = fresh;
            tell();
        }
    }

    // A watch is on a key the guest writes: bounded, whatever the guest does.
    bool admit() {
        const std::int64_t now_ms = Loop::now_ms();
        if (flood.admit(now_ms)) {
            return true;
        }
        const std::int64_t penalty_ms =
            flood.penalty_ms(now_ms, kFloodPenaltyMs, kFloodPenaltyMaxMs);
        stop_listening();
        // Shown for as long again, so that a zone which goes on does not flicker in status.
        zone.flooding_until_ms = now_ms + 2 * penalty_ms;
        if (!flood_timer) {
            flood_timer = owner.loop_.make_timer([this] {
                if (zone.managed || !classified) {
                    listen();
                }
            });
        }
        flood_timer->start(penalty_ms);
        owner.mediator_.zone_fault(
            zone, fmt::format("writes its report more than {} times a second; not listened to for "
                              "{} s and left at its size",
                              kReportsPerS, penalty_ms / 1000));
        tell();
        return false;
    }

    [[nodiscard]] std::uint64_t most_kib() const {
        return zone.static_max_kib.value_or(kMaxSizeKib);
    }

    void on_report() {
        if (!admit()) {
            return;
        }
        const auto value = owner.store_.read_untrusted(path(kReportPath));
        if (!value || !*value) {
            return;
        }
        const auto sample = (*value)->parse(
            [&](const std::string& untrusted_text) { return parse_own(untrusted_text); });
        take(Agent::xenpack, sample);
    }

    Expected<Sample> parse_own(const std::string& untrusted_text) const {
        const auto report = parse_report(untrusted_text);
        if (!report) {
            return fail("{}: {} is {}", kReportPath, report.error().what, quoted(untrusted_text));
        }
        if (report->total_kib > most_kib()) {
            return fail("{}: it says it has {} MiB, and may have {} MiB at the most", kReportPath,
                        report->total_kib / 1024, most_kib() / 1024);
        }
        return sample_of(*report);
    }

    void on_xen_guest_agent() {
        if (!admit()) {
            return;
        }
        const auto free = owner.store_.read_untrusted(path("data/meminfo_free"));
        const auto total = owner.store_.read_untrusted(path("data/meminfo_total"));
        if (!free || !*free || !total || !*total) {
            return;
        }
        take(Agent::xen_guest_agent, (*free)->parse([&](const std::string& untrusted_free) {
            return (*total)->parse([&](const std::string& untrusted_total) {
                return parse_xen_guest_agent(untrusted_free, untrusted_total, most_kib());
            });
        }));
    }

    void on_qubes() {
        if (!admit()) {
            return;
        }
        const auto used = owner.store_.read_untrusted(path("memory/meminfo"));
        if (used && *used) {
            take(Agent::qubes, (*used)->parse([&](const std::string& untrusted_used) {
                return parse_qubes(untrusted_used, most_kib());
            }));
        }
    }

    // The better agent's word counts; a worse one is heard only while the better is silent.
    [[nodiscard]] bool outranked(Agent agent) const {
        return zone.pressure.agent != Agent::none && zone.pressure.agent < agent &&
               Loop::now_ms() < stale_at_ms(zone.pressure);
    }

    // A watch fires when it is set, and for what is written below its node: the same report again
    // is not a sign of life.
    [[nodiscard]] bool is_news(const Sample& sample) const {
        const auto& last = zone.pressure.last_report;
        return !last || !sample.report || zone.pressure.agent != sample.agent ||
               !zone.garbled_why.empty() || last->sequence != sample.report->sequence ||
               last->uptime_ms != sample.report->uptime_ms;
    }

    void take(Agent agent, const Expected<Sample>& sample) {
        if (outranked(agent)) {
            return;
        }
        if (!sample) {
            if (zone.garbled_why.empty()) {
                owner.mediator_.zone_fault(
                    zone, fmt::format("its report cannot be read: {}", sample.error().what));
            }
            zone.garbled_why = sample.error().what;
        } else if (!is_news(*sample)) {
            return;
        } else {
            take_sample(zone, *sample, Loop::now_ms());
        }
        tell();
    }

    Zones& owner;
    Zone zone;
    bool basics_known = false;
    bool family_is_old = false;
    bool classified = false;
    Flood flood{kReportBurst, kReportsPerS};
    std::unique_ptr<Loop::Timer> flood_timer;
    std::vector<Store::WatchHandle> watches;
    Store::WatchHandle report_watch;
    Store::WatchHandle agent_watch;
    Store::WatchHandle qubes_watch;
};

Zones::Zones(Loop& loop, Store& store, Toolstack& toolstack, Mediator& mediator)
    : loop_(loop), store_(store), toolstack_(toolstack), mediator_(mediator) {}

Zones::~Zones() = default;

Expected<void> Zones::listen() {
    // Neither says which domain it is about: each means, list them all again.
    for (const char* special : {"@introduceDomain", "@releaseDomain"}) {
        auto watch = store_.watch(special, [this] { mediator_.zones_changed(); });
        if (!watch) {
            return tl::unexpected(watch.error());
        }
        watches_.push_back(std::move(*watch));
    }
    return {};
}

void Zones::sync(const std::vector<xenpack_domain>& domains) {
    // Both are in ascending order.
    auto listed = domains.begin();
    for (auto it = zones_.begin(); it != zones_.end();) {
        while (listed != domains.end() && listed->domid < it->first.domid) {
            ++listed;
        }
        const bool there = listed != domains.end() &&
                           (listed->flags & XENPACK_DOMAIN_IS_DYING) == 0 &&
                           key_of(*listed) == it->first;
        if (there) {
            ++it;
            continue;
        }
        const std::unique_ptr<Watched> gone = std::move(it->second);
        it = zones_.erase(it);
        mediator_.zone_gone(gone->zone);
    }
    const std::int64_t now_ms = Loop::now_ms();
    for (const xenpack_domain& domain : domains) {
        if (domain.domid == 0) {
            if (!dom0_watched_) {
                dom0_watched_ = std::make_unique<Watched>(*this, domain);
                dom0_watched_->watch_basics();
            }
            dom0_watched_->zone.domain = domain;
            follow(dom0_watched_->zone, now_ms);
        } else if ((domain.flags & XENPACK_DOMAIN_IS_DYING) == 0) {
            add(domain, now_ms);
        }
    }
}

void Zones::add(const xenpack_domain& domain, std::int64_t now_ms) {
    auto& watched = zones_[key_of(domain)];
    if (!watched) {
        watched = std::make_unique<Watched>(*this, domain);
        watched->watch_basics();
        watched->watch_family();
        // Before it is known to be ours: nothing but its first report tells that it runs.
        if (left_alone_why(watched->zone.family).empty()) {
            watched->listen();
        }
    }
    watched->refresh_family();
    watched->zone.changed = watched->zone.changed || differ(watched->zone.domain, domain);
    watched->zone.domain = domain;
    // Its record is complete once it runs; before that it is being built.
    if (!watched->classified && (domain.flags & XENPACK_DOMAIN_NEVER_RAN) == 0) {
        watched->classified = true;
        classify(*watched);
        if (watched->classified) {
            mediator_.zone_found(watched->zone);
        }
    }
    follow(watched->zone, now_ms);
}

void Zones::classify(Watched& watched) {
    Zone& zone = watched.zone;
    zone.changed = true;
    if (const auto why = left_alone_why(zone.family); !why.empty()) {
        zone.managed = false;
        zone.unmanaged_why = why;
        watched.stop_listening();
        return;
    }
    if (!zone.created_with) {
        const auto created = toolstack_.domain_config(zone.key.domid, zone.key.uuid);
        if (created) {
            zone.created_with = *created;
        } else if (created.error().code != ENODATA) {
            watched.classified = false;  // not an answer: asked again at the next look
            zone.unmanaged_why = created.error().what;
            return;
        }
    }
    zone.config = mediator_.config_for(zone.name);
    const bool ranges =
        zone.created_with && zone.created_with->max_memory_kib > zone.created_with->memory_kib;
    zone.managed = zone.config.manage.value_or(ranges);
    if (zone.managed) {
        zone.unmanaged_why.clear();
    } else if (zone.config.manage) {
        zone.unmanaged_why = "the configuration says manage = no";
    } else if (!zone.created_with) {
        zone.unmanaged_why = "libxl has no record of how it was created";
    } else {
        zone.unmanaged_why =
            "its maxmem is not above its memory, and the configuration does not "
            "say manage = yes";
    }
    if (zone.managed && !watched.listening()) {
        watched.listen();
    } else if (!zone.managed) {
        watched.stop_listening();
    }
}

void Zones::read_again(const ZoneKey& key) {
    if (const auto at = zones_.find(key); at != zones_.end()) {
        at->second->on_name();
        at->second->on_family();
    }
}

void Zones::reconfigure() {
    for (const auto& [key, watched] : zones_) {
        if (watched->classified) {
            classify(*watched);
        }
    }
    mediator_.zones_changed();
}

std::vector<Zone*> Zones::all() {
    std::vector<Zone*> list;
    list.reserve(zones_.size());
    for (const auto& [key, watched] : zones_) {
        list.push_back(&watched->zone);
    }
    return list;
}

Zone* Zones::find(const ZoneKey& key) {
    const auto it = zones_.find(key);
    return it == zones_.end() ? nullptr : &it->second->zone;
}

Expected<Zone*> Zones::find(const std::string& name_or_domid) {
    std::vector<Zone*> found;
    std::ranges::copy_if(all(), std::back_inserter(found),
                         [&](const Zone* z) { return z->name == name_or_domid; });
    if (found.empty()) {
        std::ranges::copy_if(all(), std::back_inserter(found), [&](const Zone* z) {
            return std::to_string(z->key.domid) == name_or_domid;
        });
    }
    if (found.empty()) {
        return fail_with(ENOENT, "no zone is named {}; `xenpack status` lists them",
                         quoted(name_or_domid));
    }
    if (found.size() > 1) {
        return fail_with(EEXIST, "{} domains are named {}; use the domid", found.size(),
                         quoted(name_or_domid));
    }
    return found.front();
}

Zone& Zones::dom0() {
    return dom0_watched_ ? dom0_watched_->zone : no_dom0_;
}

}  // namespace xenpack
