// SPDX-License-Identifier: LGPL-2.1-or-later
// In the order of a zone's life: built, run, saved, shut down, buried; then what can be asked of it
// and done to it. Called by the toolstack's table.
#include "plugin/sim/world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugin/sim/lies.h"
#include "watcher/pressure/report.h"

namespace xenpack::sim {

namespace {

constexpr std::int64_t kRetryMs = 1'000;
// SHUTDOWN_poweroff of xen/sched.h.
constexpr int kPoweroff = 0;
constexpr std::size_t kFloodWrites = 5;  // in a step: 50 a second
constexpr std::uint64_t kMib = 1024;
// Xen's low-memory mark, which it halves until it is under what is free at its boot, and each time
// that it has said so (page_alloc.c, setup_low_mem_virq and check_low_mem_virq).
constexpr std::uint64_t kLowKib = 64 * kMib;
constexpr std::uint64_t kLowLeastKib = 4;

std::uint64_t first_low_kib(std::uint64_t free_kib) {
    std::uint64_t low_kib = kLowKib;
    while (low_kib >= free_kib && low_kib > kLowLeastKib) {
        low_kib /= 2;
    }
    return low_kib;
}

std::string domain_path(std::uint32_t domid, std::string_view below) {
    return fmt::format("/local/domain/{}/{}", domid, below);
}

xenpack_domain domain_of(std::uint32_t domid, const World::Uuid& uuid) {
    xenpack_domain domain{};
    domain.domid = domid;
    std::ranges::copy(uuid, domain.uuid);
    domain.shutdown_reason = -1;
    return domain;
}

}  // namespace

// FNV-1a (Fowler, Noll, Vo), twice from different beginnings; marked as a random UUID (RFC 9562).
World::Uuid uuid_of(std::string_view name) {
    constexpr std::uint64_t kPrime = 0x100000001b3;
    constexpr std::uint64_t kOffset = 0xcbf29ce484222325;
    std::array<std::uint64_t, 2> halves{kOffset, ~kOffset};
    for (std::uint64_t& half : halves) {
        for (const char c : name) {
            half = (half ^ static_cast<unsigned char>(c)) * kPrime;
        }
    }
    World::Uuid uuid{};
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        uuid[i] = static_cast<std::uint8_t>(halves[i / 8] >> (8 * (i % 8)));
    }
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0fU) | 0x40U);
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3fU) | 0x80U);
    return uuid;
}

std::string uuid_text(const World::Uuid& uuid) {
    std::string text;
    for (std::size_t i = 0; i < uuid.size(); ++i) {
        text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
    return text;
}

World::World(Scenario scenario, Store& store, Say say)
    : store_(store),
      say_(std::move(say)),
      host_(scenario.host),
      cpus_(scenario.cpus),
      sharing_(scenario.sharing),
      seen_free_kib_(host_.free_kib()),
      low_kib_(first_low_kib(host_.free_kib())) {
    write_dom0();
    happened(XENPACK_DOMAIN_CREATED, 0, {});
    zones_.reserve(scenario.zones.size());
    for (ZonePlan& plan : scenario.zones) {
        const Uuid uuid = uuid_of(plan.name);
        zones_.push_back(std::make_unique<Zone>(std::move(plan), uuid));
    }
    for (const auto& zone : zones_) {
        live(*zone);
    }
}

// ---- lives --------------------------------------------------------------------------------------

void World::step(std::int64_t dt_ms) {
    host_.step(dt_ms);
    for (const auto& zone : zones_) {
        if (zone->to_destroy.empty()) {
            live(*zone);
        } else {
            destroy_now(*zone);
        }
    }
    std::erase_if(zones_, [](const auto& zone) { return zone->order && zone->life == Life::gone; });
    say_low_memory();
}

// Xen looks when it allocates.
void World::say_low_memory() {
    if (std::exchange(seen_free_kib_, host_.free_kib()) == host_.free_kib()) {
        return;
    }
    if (host_.free_kib() <= low_kib_) {
        happened(XENPACK_HOST_LOW, 0, {});
        low_again_kib_ = 2 * low_kib_;
        low_kib_ = std::max(kLowLeastKib, low_kib_ / 2);
    } else if (low_again_kib_ && host_.free_kib() >= *low_again_kib_) {
        low_kib_ *= 2;
        low_again_kib_.reset();
        if (low_kib_ < kLowKib) {
            low_again_kib_ = 4 * low_kib_;
        }
    }
}

std::optional<std::int64_t> World::next_step_ms() const {
    if (lives()) {
        return kStepMs;
    }
    std::optional<std::int64_t> next;
    for (const auto& zone : zones_) {
        if (zone->life == Life::to_come) {
            const std::int64_t in_ms =
                std::max(zone->plan.start_ms, zone->next_try_ms) - host_.now_ms();
            next = std::min(next.value_or(in_ms), in_ms);
        }
    }
    return next ? std::optional(std::max(kStepMs, *next)) : std::nullopt;
}

void World::live(Zone& zone) {
    const std::int64_t now_ms = host_.now_ms();
    switch (zone.life) {
        case Life::to_come:
            if (now_ms >= zone.plan.start_ms && now_ms >= zone.next_try_ms) {
                start(zone);
            }
            break;
        case Life::built:
            zone.domain->paused = false;
            zone.life = Life::runs;
            happened(XENPACK_DOMAIN_UNPAUSED, zone.domain->domid, zone.uuid);
            break;
        case Life::runs:
            run(zone);
            break;
        case Life::saved:
            if (now_ms >= zone.plan.save_ms + zone.plan.save_for_ms) {
                zone.plan.save_for_ms = 0;
                zone.domain->paused = false;
                zone.life = Life::runs;
                happened(XENPACK_DOMAIN_UNPAUSED, zone.domain->domid, zone.uuid);
            }
            break;
        case Life::shut_down:
            if (!zone.order) {  // no xl waits for the end of a fork
                bury(zone);
            }
            break;
        case Life::suspending:
        case Life::sealing:
            live_as_template(zone);
            break;
        case Life::ordered:
        case Life::forking:
            live_as_fork(zone);
            break;
        case Life::sealed:
        case Life::held:
        case Life::gone:
            break;
    }
}

void World::start(Zone& zone) {
    zone.domain = host_.create(zone.plan.config, zone.plan.trace);
    if (zone.domain == nullptr) {
        zone.next_try_ms = host_.now_ms() + kRetryMs;
        if (!std::exchange(zone.said_why_not, true)) {
            say_(XENPACK_LOG_WARNING,
                 fmt::format("the zone {} cannot start: it needs {} MiB and {} MiB are free; it is "
                             "tried again each second",
                             zone.plan.name, Host::start_cost_kib(zone.plan.config) / kMib,
                             host_.free_kib() / kMib));
        }
        return;
    }
    if (const auto written = write_nodes(zone); !written) {
        say_(XENPACK_LOG_ERROR, written.error().what);
        host_.destroy(zone.domain->domid);
        zone.domain = nullptr;
        zone.life = Life::gone;
        return;
    }
    zone.domain->paused = true;
    zone.life = Life::built;
    living_.emplace(zone.domain->domid, &zone);
    happened(XENPACK_DOMAIN_CREATED, zone.domain->domid, zone.uuid);
    store_.announce("@introduceDomain");
}

void World::run(Zone& zone) {
    const std::int64_t now_ms = host_.now_ms();
    const std::optional<ForkState>& fork = zone.domain->fork;
    if (zone.holds > 0 || (fork && fork->starved)) {
        if (fork && fork->starved && !std::exchange(zone.starved_said, true)) {
            happened(XENPACK_FORK_STARVED, zone.domain->domid, zone.uuid);
        }
        return;
    }
    const std::int64_t lived_ms = fork ? fork->age_ms : now_ms;
    if (zone.plan.end_ms && lived_ms >= *zone.plan.end_ms) {
        shut_down(zone, kPoweroff);
    } else if (zone.plan.save_for_ms > 0 && now_ms >= zone.plan.save_ms) {
        zone.domain->paused = true;
        zone.life = Life::saved;
        happened(XENPACK_DOMAIN_PAUSED, zone.domain->domid, zone.uuid);
    } else {
        report(zone);
    }
}

// It holds its memory until it is buried, as a domain does until xl has noticed.
void World::shut_down(Zone& zone, int reason) {
    zone.shutdown_reason = reason;
    zone.domain->paused = true;
    zone.life = Life::shut_down;
    happened(XENPACK_DOMAIN_SHUT_DOWN, zone.domain->domid, zone.uuid, reason);
    store_.announce("@releaseDomain");
}

void World::bury(Zone& zone) {
    const std::uint32_t domid = zone.domain->domid;
    living_.erase(domid);
    host_.destroy(domid);
    zone.domain = nullptr;
    zone.life = Life::gone;
    store_.remove(fmt::format("/local/domain/{}", domid));
    store_.remove("/vm/" + uuid_text(zone.uuid));
    happened(XENPACK_DOMAIN_DIED, domid, zone.uuid);
    store_.announce("@releaseDomain");
}

// What it writes now; nothing: what it has written stands.
std::optional<std::string> World::words_of(Zone& zone) {
    const auto news = zone.reporter.look(zone.domain->guest.stats());
    if (!news) {
        return std::nullopt;
    }
    switch (zone.plan.reporter) {
        case ReporterHabit::garbled:
            return fmt::format("{} MiB, thank you", news->available_kib / kMib);
        case ReporterHabit::lying:
            return lie(*news, zone.lies++);
        case ReporterHabit::dying:
            return zone.last_report.empty() ? std::optional(format_report(*news)) : std::nullopt;
        case ReporterHabit::truthful:
        case ReporterHabit::silent:
        case ReporterHabit::flooding:
            break;
    }
    return format_report(*news);
}

// The reporter starts with the guest's balloon driver.
void World::report(Zone& zone) {
    if (zone.plan.reporter == ReporterHabit::silent ||
        zone.domain->guest.stats().uptime_ms < zone.plan.config.balloon.boot_ms) {
        return;
    }
    obey(zone);
    const auto words = words_of(zone);
    zone.last_report = words.value_or(zone.last_report);
    const std::size_t times =
        zone.plan.reporter == ReporterHabit::flooding ? kFloodWrites : std::size_t{words ? 1U : 0U};
    for (std::size_t i = 0; i < times && !zone.last_report.empty(); ++i) {
        // A guest whose report is not taken goes on without.
        (void)store_.write({{domain_path(zone.domain->domid, kReportPath), zone.last_report}});
    }
}

// ---- the store ----------------------------------------------------------------------------------

// What libxl writes when it makes a domain (libxl_create.c), as far as anyone here reads it.
Expected<void> World::write_nodes(const Zone& zone) {
    const Domain& domain = *zone.domain;
    const std::string vm = "/vm/" + uuid_text(zone.uuid);
    const auto path = [&](std::string_view below) { return domain_path(domain.domid, below); };
    const int r = store_.write({
        {vm + "/uuid", uuid_text(zone.uuid)},
        {vm + "/name", zone.plan.name},
        {vm + "/memory", fmt::format("{}", domain.target_kib / kMib)},
        {path("vm"), vm},
        {path("name"), zone.plan.name},
        {path("domid"), fmt::format("{}", domain.domid)},
        {path("memory/static-max"), fmt::format("{}", domain.config.max_memory_kib)},
        {path("memory/target"), fmt::format("{}", domain.target_kib)},
        {path("memory/videoram"), "0"},
        {path("control/platform-feature-xs_reset_watches"), "1"},
        {path("data"), ""},
    });
    if (r < 0) {
        return fail_with(-r, "the zone {} cannot be made: writing below {}: {}", zone.plan.name,
                         path(""), std::strerror(-r));
    }
    return {};
}

void World::write_dom0() {
    const std::string dom0_kib = fmt::format("{}", host_.config().dom0_kib);
    (void)store_.write({{domain_path(0, "name"), "Domain-0"},
                        {domain_path(0, "domid"), "0"},
                        {domain_path(0, "memory/static-max"), dom0_kib},
                        {domain_path(0, "memory/target"), dom0_kib}});
}

// ---- what is seen -------------------------------------------------------------------------------

void World::happened(xenpack_event_type type, std::uint32_t domid, const Uuid& uuid, int reason) {
    xenpack_event event{type, domid, {}, reason};
    std::ranges::copy(uuid, event.uuid);
    events_.push_back(event);
}

std::vector<xenpack_event> World::take_events() {
    return std::exchange(events_, {});
}

xenpack_host World::host() const {
    xenpack_host host{};
    host.total_kib = host_.config().total_kib;
    host.free_kib = host_.free_kib();
    host.nodes = 1;
    host.cpus = cpus_;
    return host;
}

xenpack_domain World::dom0() const {
    xenpack_domain domain = domain_of(0, {});
    domain.current_kib = host_.config().dom0_kib;
    domain.limit_kib = host_.config().dom0_kib;
    domain.cpu_time_ns = static_cast<std::uint64_t>(host_.now_ms()) * 1'000'000;
    domain.vcpus_online = cpus_;
    return domain;
}

xenpack_domain World::view_of(const Zone& zone) const {
    const Domain& held = *zone.domain;
    xenpack_domain domain = domain_of(held.domid, zone.uuid);
    domain.flags = XENPACK_DOMAIN_IS_HVM;
    const bool never_ran =
        zone.life == Life::built || zone.life == Life::forking || zone.life == Life::held;
    const bool paused =
        never_ran || zone.holds > 0 || zone.life == Life::saved || zone.life == Life::sealed;
    domain.flags |= paused ? std::uint32_t{XENPACK_DOMAIN_IS_PAUSED} : 0U;
    domain.flags |= never_ran ? std::uint32_t{XENPACK_DOMAIN_NEVER_RAN} : 0U;
    if (zone.life == Life::shut_down || zone.life == Life::sealing) {
        domain.flags |= XENPACK_DOMAIN_IS_SHUTDOWN;
        domain.shutdown_reason = zone.shutdown_reason;
    }
    domain.current_kib = held.current_kib;
    domain.limit_kib = held.limit_kib;
    domain.shared_kib = held.fork ? held.fork->shared_kib : 0;
    domain.cpu_time_ns = static_cast<std::uint64_t>(held.guest.stats().worked_ms) * 1'000'000;
    domain.vcpus_online = held.config.vcpus;
    return domain;
}

std::vector<xenpack_domain> World::domains() const {
    std::vector<xenpack_domain> list{dom0()};
    list.reserve(living_.size() + 1);
    for (const auto& [domid, zone] : living_) {
        list.push_back(view_of(*zone));
    }
    return list;
}

Expected<World::Zone*> World::find(std::uint32_t domid, const Uuid& uuid) const {
    const auto found = living_.find(domid);
    if (found == living_.end() || found->second->uuid != uuid) {
        return fail_with(ESRCH, "there is no domain {} with the uuid {}", domid, uuid_text(uuid));
    }
    return found->second;
}

Expected<xenpack_domain> World::domain(std::uint32_t domid, const Uuid& uuid) const {
    if (domid == 0 && uuid == Uuid{}) {
        return dom0();
    }
    return find(domid, uuid).map([this](const Zone* zone) { return view_of(*zone); });
}

Expected<xenpack_domain_config> World::domain_config(std::uint32_t domid, const Uuid& uuid) const {
    if (domid == 0 && uuid == Uuid{}) {
        return fail_with(ENODATA, "no toolstack made the control domain");
    }
    return find(domid, uuid).map([](const Zone* zone) {
        const DomainConfig& config = zone->domain->config;
        return xenpack_domain_config{config.memory_kib, config.max_memory_kib};
    });
}

// Templates keep their pages here, so that none is nobody's.
xenpack_host_books World::host_books() const {
    xenpack_host_books books{};
    books.total_kib = host_.config().total_kib;
    books.free_kib = host_.free_kib();
    books.map_kib = host_.config().xen_kib;
    for (const auto& domain : host_.domains()) {
        books.saved_kib += domain->fork ? domain->fork->shared_kib : 0;
    }
    return books;
}

Expected<xenpack_domain_books> World::domain_books(std::uint32_t domid, const Uuid& uuid) const {
    if (domid == 0 && uuid == Uuid{}) {
        return xenpack_domain_books{.paging_kib = 0, .records_kib = 0, .nodes = 1};
    }
    return find(domid, uuid).map([](const Zone* zone) {
        const std::uint64_t records = std::min(Host::kRecordsKib, zone->domain->overhead_kib);
        return xenpack_domain_books{
            .paging_kib = zone->domain->overhead_kib - records, .records_kib = records, .nodes = 1};
    });
}

Expected<xenpack_fork_cost> World::fork_cost(std::uint32_t domid, const Uuid& uuid) const {
    const auto found = find(domid, uuid);
    if (!found || (*found)->life != Life::sealed) {
        return found ? fail_with(EINVAL, "domain {} is no template", domid)
                     : tl::unexpected(found.error());
    }
    const Domain& domain = *(*found)->domain;
    const std::uint64_t whole = Host::fork_cost_kib(domain.config);
    return xenpack_fork_cost{.memory_kib = whole - domain.overhead_kib,
                             .overhead_kib = domain.overhead_kib};
}

// ---- what is done -------------------------------------------------------------------------------

Expected<World::Zone*> World::find_settable(std::uint32_t domid, const Uuid& uuid) const {
    if (domid == 0 && uuid == Uuid{}) {
        return fail_with(ENOTSUP, "the simulated dom0 keeps the {} MiB that its scenario gives it",
                         host_.config().dom0_kib / kMib);
    }
    auto zone = find(domid, uuid);
    if (!zone) {
        return zone;
    }
    if ((*zone)->life == Life::saved) {
        return fail_with(EBUSY, "domain {} is left alone: it is being saved", domid);
    }
    if ((*zone)->life == Life::shut_down) {
        return fail_with(EBUSY, "domain {} is left alone: it has shut down", domid);
    }
    if ((*zone)->life != Life::runs && (*zone)->life != Life::built &&
        (*zone)->life != Life::held) {
        return fail_with(EBUSY, "domain {} is left alone: it is a template, or not whole", domid);
    }
    return zone;
}

Expected<void> World::set_target(std::uint32_t domid, const Uuid& uuid, const Target& target) {
    if (target.kib > target.static_max_kib || target.kib == 0) {
        return fail_with(ERANGE,
                         "the target of domain {}, {} KiB, is over its memory/static-max, {} KiB, "
                         "or nothing",
                         domid, target.kib, target.static_max_kib);
    }
    const auto zone = find_settable(domid, uuid);
    if (!zone) {
        return tl::unexpected(zone.error());
    }
    const std::string vm = "/vm/" + uuid_text(uuid);
    const int r =
        store_.write_guarded(domain_path(domid, "vm"), vm,
                             {{domain_path(domid, "memory/target"), fmt::format("{}", target.kib)},
                              {vm + "/memory", fmt::format("{}", target.kib / kMib)}});
    if (r < 0) {
        return fail_with(-r, "cannot write {}: {}", domain_path(domid, "memory/target"),
                         std::strerror(-r));
    }
    host_.set_target(*(*zone)->domain, target.kib, target.keep_limit);
    return {};
}

Expected<void> World::set_limit(std::uint32_t domid, const Uuid& uuid, std::uint64_t limit_kib) {
    return find_settable(domid, uuid).map([&](const Zone* zone) {
        host_.set_limit(*zone->domain, limit_kib);
    });
}

}  // namespace xenpack::sim
