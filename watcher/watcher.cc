// SPDX-License-Identifier: LGPL-2.1-or-later
// Look, decide, apply, tell; in the order it happens. What is shown of it is in watcher_status.cc.
#include "watcher/watcher.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/zones/follow.h"

namespace xenpack {
namespace {

constexpr std::int64_t kDom0EveryMs = 60'000;
constexpr std::int64_t kCalmAfterShortageMs = 5'000;
constexpr char kIntents[] = "/var/lib/xenpack/forks";
// Installed beside the plugins.
constexpr char kJoiner[] = XENPACK_PLUGIN_DIR "/xenpack-hotplug";

Decision about(const Zone& zone, DecisionKind kind, std::string reason) {
    return {kind,         zone.name,    zone.key.domid,   to_string(zone.key.uuid),
            std::nullopt, std::nullopt, std::move(reason)};
}

// For the host, if it is one: of simulated hosts there may be many.
std::string intents_of(const Config& config, const PluginObject& plugin) {
    return plugin.ops().open_store == nullptr
               ? kIntents
               : (std::filesystem::path(config.socket_path).parent_path() / "forks").string();
}

}  // namespace

Watcher::Watcher(Rooms rooms, Config config, OverridesFile overrides,
                 std::function<Expected<Config>()> reload, std::function<void()> failed)
    : rooms_(rooms),
      config_(std::move(config)),
      overrides_(std::move(overrides)),
      read_config_(std::move(reload)),
      failed_(std::move(failed)),
      desk_(std::make_unique<Desk>(
          rooms.loop,
          std::filesystem::path(config_.socket_path).parent_path() / "reservations.json", *this)),
      next_look_(rooms.loop.make_timer([this] { look(); })) {}

Watcher::~Watcher() = default;

Expected<void> Watcher::start() {
    auto toolstack =
        Toolstack::open(rooms_.plugin, rooms_.loop, rooms_.store,
                        {[this](const xenpack_event& event) { on_host_event(event); },
                         [this](xenpack_log_level level, const char* text) {
                             static constexpr LogLevel kLevels[]{LogLevel::error, LogLevel::warning,
                                                                 LogLevel::info, LogLevel::debug};
                             rooms_.journal.log(kLevels[level], text);
                         }});
    if (!toolstack) {
        return tl::unexpected(toolstack.error());
    }
    toolstack_ = std::move(*toolstack);
    zones_ = std::make_unique<Zones>(rooms_.loop, rooms_.store, *toolstack_, *this);
    forks_ = std::make_unique<Forks>(Forks::Rooms{rooms_.loop, rooms_.store, *toolstack_, *zones_,
                                                  intents_of(config_, rooms_.plugin), kJoiner},
                                     *this);
    pools_ = std::make_unique<Pools>(rooms_.loop, *zones_, *forks_, *this);
    pools_->configure(config_.pools);
    self_forks_ = std::make_unique<SelfForks>(rooms_.loop, rooms_.store, *zones_, *forks_, *this);
    if (auto listening = zones_->listen(); !listening) {
        return listening;
    }
    if (auto learned = learn(); !learned) {
        return learned;
    }
    desk_->take_up();
    say_what_forks_lack();
    look_soon();
    return {};
}

void Watcher::on_host_event(const xenpack_event& event) {
    if (event.type == XENPACK_FORK_STARVED) {
        ZoneKey key{event.domid, {}};
        std::ranges::copy(event.uuid, key.uuid.begin());
        forks_->keeper().starved(key, Loop::now_ms());
    }
    if (event.type == XENPACK_HOST_LOST) {
        rooms_.loop.defer(failed_);
    } else if (!looking_) {  // what a look learns it sees anyway
        look_soon();
    }
}

void Watcher::look_soon() {
    if (!look_is_due_) {
        look_is_due_ = true;
        rooms_.loop.defer([this] { look(); });
    }
}

void Watcher::look() {
    look_is_due_ = false;
    const std::int64_t now_ms = Loop::now_ms();
    looking_ = true;
    const auto learned = learn();
    looking_ = false;
    if (!learned) {
        if (host_fault_ != learned.error().what) {
            host_fault_ = learned.error().what;
            publish(about_host(DecisionKind::host, "cannot look at it: " + host_fault_));
        }
        next_look_->start(kBusyMs);
        return;
    }
    host_fault_.clear();
    follow_starts();
    forks_->follow();
    pools_->follow();
    self_forks_->follow();
    const HostFacts facts = host_facts(now_ms);
    refresh_views(facts, now_ms);
    HostView host = host_view(facts, config_, ledger_);
    host.promised_kib += keep_dom0(host, now_ms);
    const Keeper::Wanted& forks = forks_->keeper().wanted();
    host.wanted_by_forks_kib = forks.all_kib;
    host.wanted_by_waiting_forks_kib = forks.waiting_kib;
    host.wanted_by_first_fork_kib = forks.first_kib;
    const Plan decided = plan(host, ledger_, now_ms);
    reserve_kib_ = decided.reserve_kib;
    spendable_kib_ = decided.spendable_kib;
    guard_forks(host, decided, now_ms);
    carry_out(decided, by_slot_, now_ms, *this);
    note_waiting(decided);
    grant_starts(decided);
    note_host(decided, now_ms);
    schedule(decided, now_ms);
}

// Takes those views anew that may have changed: of zones that something was heard of, that are on
// the move, or whose time has come.
void Watcher::refresh_views(const HostFacts& facts, std::int64_t now_ms) {
    for (Zone* zone : zones_->all()) {
        if (!zone->managed) {
            forget_view(*zone);
        } else if (zone->changed || now_ms >= zone->view_until_ms) {
            refresh_view(*zone, facts, now_ms);
        }
    }
}

void Watcher::refresh_view(Zone& zone, const HostFacts& facts, std::int64_t now_ms) {
    if (!zone.slot) {
        const auto unused = std::ranges::find(by_slot_, nullptr);
        zone.slot = static_cast<Ledger::Slot>(unused - by_slot_.begin());
        by_slot_.resize(std::max(by_slot_.size(), *zone.slot + 1));
        by_slot_[*zone.slot] = &zone;
    }
    note_silence(zone, now_ms);
    ZoneView view = prepare(zone, facts, config_, host_state_, now_ms, *this);
    view.pending_kib = beyond_promise(zone, view.pending_kib);
    ledger_.put(*zone.slot, view);
}

void Watcher::forget_view(Zone& zone) {
    if (zone.slot) {
        ledger_.drop(*zone.slot);
        by_slot_[*zone.slot] = nullptr;
        std::erase(waiting_, *zone.slot);
        zone.slot.reset();
        zone.waiting = false;
    }
}

Expected<void> Watcher::learn() {
    const auto domains = toolstack_->refresh();
    if (!domains) {
        return tl::unexpected(domains.error());
    }
    zones_->sync(**domains);
    const auto host = toolstack_->host();
    if (!host) {
        return tl::unexpected(host.error());
    }
    host_ = *host;
    const std::int64_t now_ms = Loop::now_ms();
    for (Zone* zone : zones_->all()) {
        if (!zone->managed) {
            excuse(*zone, host_.free_kib, config_.emergency_kib, now_ms);
        }
    }
    excuse(zones_->dom0(), host_.free_kib, config_.emergency_kib, now_ms);
    return {};
}

HostFacts Watcher::host_facts(std::int64_t now_ms) const {
    HostFacts facts;
    facts.total_kib = host_.total_kib;
    facts.free_kib = host_.free_kib;
    facts.promised_to_starts_kib = desk_->book().held_kib();
    facts.starts_wait_for_kib = desk_->book().waiting_kib();
    for (const Zone* zone : zones_->all()) {
        // Also what is being built, and what another balloons: their targets will be met from free.
        if (!zone->managed) {
            facts.promised_to_others_kib += beyond_promise(*zone, still_to_take_kib(*zone, now_ms));
        }
    }
    facts.promised_to_others_kib += still_to_take_kib(zones_->dom0(), now_ms);
    return facts;
}

void Watcher::note_waiting(const Plan& decided) {
    for (const Ledger::Slot slot : waiting_) {
        by_slot_[slot]->waiting = false;
    }
    for (const Ledger::Slot slot : decided.waiting) {
        by_slot_[slot]->waiting = true;
    }
    waiting_ = decided.waiting;
}

bool Watcher::set_target(Zone& zone, std::uint64_t target_kib, bool keep_limit) {
    const auto set =
        toolstack_->set_target(zone.key.domid, zone.key.uuid, target_kib,
                               zone.static_max_kib.value_or(0), keep_limit, XENPACK_TARGET_SHORT);
    if (set) {
        return true;
    }
    if (set.error().code == ESRCH) {
        look_soon();  // it is gone, or on its way
    } else if (set.error().code != EBUSY) {
        zone_fault(zone, fmt::format("its target cannot be set to {} MiB: {}", target_kib / 1024,
                                     set.error().what));
    }
    return false;
}

// Once for each silence; a guest can fall silent as often as it likes.
void Watcher::note_silence(Zone& zone, std::int64_t now_ms) {
    const auto silent = silence(zone, now_ms);
    if (silent && !zone.silence_said) {
        zone_fault(zone, *silent);
    }
    zone.silence_said = silent.has_value();
}

bool Watcher::set_limit(Zone& zone, std::uint64_t limit_kib) {
    const auto set = toolstack_->set_limit(zone.key.domid, zone.key.uuid, limit_kib);
    if (!set && set.error().code != ESRCH && set.error().code != EBUSY) {
        zone_fault(zone, "its limit cannot be set: " + set.error().what);
    }
    return set.has_value();
}

void Watcher::change_done(Zone& zone, const Change& change) {
    zone.reason = change.reason;
    zone.reason_ms = Loop::now_ms();
    Decision decision =
        about(zone, change.to_kib > change.from_kib ? DecisionKind::grow : DecisionKind::shrink,
              change.reason);
    decision.from_kib = change.from_kib;
    decision.to_kib = change.to_kib;
    publish(decision);
}

void Watcher::was_stuck(Zone& zone, std::uint64_t told_kib) {
    zone.reason = fmt::format("holds {} MiB and does not move towards the {} MiB it was told",
                              zone.domain.current_kib / 1024, told_kib / 1024);
    zone.reason_ms = Loop::now_ms();
    zone_fault(zone, zone.reason);
}

std::uint64_t Watcher::keep_dom0(const HostView& host, std::int64_t now_ms) {
    const auto& dom0 = zones_->dom0();
    const std::uint64_t held = dom0.domain.current_kib;
    // Its target tells where it will be, before it is there.
    const std::uint64_t aims_at = dom0.target_kib.value_or(held);
    const bool low = aims_at + kReachedWithinKib < config_.dom0_floor_kib;
    if (!low || (dom0_tried_ms_ != 0 && now_ms - dom0_tried_ms_ < kDom0EveryMs)) {
        return 0;
    }
    dom0_tried_ms_ = now_ms;
    const std::uint64_t missing = config_.dom0_floor_kib - std::min(held, config_.dom0_floor_kib);
    Decision decision = about_host(DecisionKind::host, "");
    decision.from_kib = aims_at;
    decision.to_kib = config_.dom0_floor_kib;
    Uuid uuid{};
    std::ranges::copy(dom0.domain.uuid, uuid.begin());
    std::uint64_t promised_kib = 0;
    bool raised = false;
    if (missing + host.promised_kib > host.free_kib) {
        decision.reason =
            fmt::format("dom0 is under its floor, and only {} MiB are free", host.free_kib / 1024);
    } else if (const auto set = toolstack_->set_target(0, uuid, config_.dom0_floor_kib,
                                                       std::numeric_limits<std::uint64_t>::max(),
                                                       false, XENPACK_TARGET_LIBXL);
               set) {
        dom0_told_kib_ = config_.dom0_floor_kib;
        decision.reason = "dom0 was told to go under its floor";
        promised_kib = missing;
        raised = true;
    } else {
        decision.reason = "dom0 is under its floor and cannot grow: " + set.error().what;
    }
    // A failure that repeats itself is said once.
    if (raised || decision.reason != dom0_reason_) {
        publish(decision);
    }
    dom0_reason_ = decision.reason;
    return promised_kib;
}

// Said when a shortage begins, and when none has been for a while: guests can make it come and go.
void Watcher::note_host(const Plan& decided, std::int64_t now_ms) {
    if (host_state_ == HostState::plenty && decided.state != HostState::plenty) {
        // What was of no interest while there was plenty may have changed with time.
        for (Zone* zone : zones_->all()) {
            zone->changed = true;
        }
    }
    host_state_ = decided.state;
    if (decided.state == HostState::shortage) {
        if (!shortage_said_) {
            publish(
                about_host(DecisionKind::host,
                           fmt::format("{} for {} MiB more than the {} MiB that are free to give",
                                       !decided.waiting.empty()          ? "zones wait"
                                       : desk_->book().waiting_kib() > 0 ? "starts wait"
                                                                         : "forks wait",
                                       decided.waiting_kib / 1024, decided.spendable_kib / 1024)));
        }
        shortage_said_ = true;
        shortage_ms_ = now_ms;
    } else if (shortage_said_ && now_ms - shortage_ms_ >= kCalmAfterShortageMs) {
        shortage_said_ = false;
        publish(about_host(DecisionKind::host, "nobody waits for memory any more"));
    }
}

// The one timer: the plan's own wish, or the moment a zone's state changes by time alone.
void Watcher::schedule(const Plan& decided, std::int64_t now_ms) {
    std::optional<std::int64_t> next = decided.look_again_ms;
    const auto consider = [&](std::int64_t at_ms) {
        if (at_ms > now_ms && (!next || at_ms < *next)) {
            next = at_ms;
        }
    };
    for (const Zone* zone : zones_->all()) {
        consider(zone->wake_ms);
    }
    if (const auto at_ms = forks_->keeper().next_look_ms()) {
        consider(std::max(*at_ms, now_ms + 1));  // at once is no later
    }
    if (shortage_said_) {
        consider(shortage_ms_ + kCalmAfterShortageMs);
    }
    if (next) {
        next_look_->start(*next - now_ms);
    } else {
        next_look_->stop();
    }
}

void Watcher::zone_found(const Zone& zone) {
    if (Zone* found = zones_->find(zone.key)) {
        found->overrides = overrides_.get(zone.key.uuid);
    }
    if (forks_->has_told_of(zone)) {
        return;
    }
    if (zone.managed) {
        publish(
            about(zone, DecisionKind::found,
                  fmt::format("managed between {} and {} MiB, holds {} MiB", floor_kib(zone) / 1024,
                              ceiling_kib(zone) / 1024, zone.domain.current_kib / 1024)));
    } else {
        publish(about(zone, DecisionKind::found, "left alone: " + zone.unmanaged_why));
    }
}

void Watcher::zone_gone(Zone& zone) {
    forget_view(zone);
    forks_->forget(zone);
    pools_->forget(zone);
    self_forks_->forget(zone);
    publish(about(zone, DecisionKind::gone, "its domain has gone"));
}

void Watcher::zone_fault(Zone& zone, const std::string& sentence) {
    if (zone.fault_lines.admit(Loop::now_ms())) {
        publish(about(zone, DecisionKind::fault, sentence));
    }
}

ZoneConfig Watcher::config_for(const std::string& name) {
    return config_.zone(name);
}

void Watcher::publish(const Decision& decision) {
    rooms_.journal.decision(decision);
    if (control_ != nullptr) {
        control_->publish(to_json(decision));
    }
}

}  // namespace xenpack
