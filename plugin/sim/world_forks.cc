// SPDX-License-Identifier: LGPL-2.1-or-later
// World: templates and forks, in the order of their lives, and what a reporter does about both.
// Each takes a step or two, so that whoever waits sees what is between.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugin/sim/world.h"

namespace xenpack::sim {

namespace {

constexpr int kSuspend = 2;  // SHUTDOWN_suspend of xen/sched.h

std::string node(std::uint32_t domid, std::string_view below) {
    return fmt::format("/local/domain/{}/{}", domid, below);
}

std::optional<std::string> value_of(const std::string* value) {
    return value == nullptr ? std::nullopt : std::optional(*value);
}

}  // namespace

std::vector<std::string> World::fork_missing() const {
    if (sharing_) {
        return {};
    }
    return {"the simulated hypervisor shares no memory: remove sharing = no from the scenario"};
}

bool World::name_taken(std::string_view name) const {
    return name == "Domain-0" || std::ranges::any_of(zones_, [name](const auto& zone) {
               const bool there = zone->life != Life::to_come && zone->life != Life::gone;
               return there && (zone->plan.name == name || zone->new_name == name);
           });
}

void World::finish(Zone& zone, int result, const std::string& why,
                   const xenpack_fork_result* fork) {
    const auto copy = fork == nullptr ? std::nullopt : std::optional(*fork);
    finished_.emplace_back([done = std::exchange(zone.done, nullptr), result, why, copy] {
        done(result, why, copy ? &*copy : nullptr);
    });
}

std::vector<std::function<void()>> World::take_finished() {
    return std::exchange(finished_, {});
}

void World::cancel() {
    const std::string why = "the simulated host ends";
    for (const auto& zone : zones_) {
        if (zone->done) {
            finish(*zone, -ECANCELED, why);
        }
        for (Done& done : std::exchange(zone->to_destroy, {})) {
            zone->done = std::move(done);
            finish(*zone, -ECANCELED, why);
        }
    }
}

// ---- templates ----------------------------------------------------------------------------------

Expected<void> World::seal(std::uint32_t domid, const Uuid& uuid, const std::string& name,
                           std::int64_t timeout_ms, Done done) {
    const auto found = find(domid, uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    Zone& zone = **found;
    if (zone.life != Life::runs) {
        return fail_with(EBUSY, "{} does not run", zone.plan.name);
    }
    if (zone.domain->config.max_memory_kib != zone.domain->config.memory_kib) {
        return fail_with(ENOTSUP,
                         "the maxmem of {} is above its memory: what it does not hold cannot be "
                         "shared; start it with memory = maxmem",
                         zone.plan.name);
    }
    if (name != zone.plan.name && name_taken(name)) {
        return fail_with(EEXIST, "a domain is named {} already", name);
    }
    zone.new_name = name;
    zone.done = std::move(done);
    zone.began_ms = host_.now_ms();
    zone.deadline_ms = host_.now_ms() + timeout_ms;
    zone.life = Life::suspending;
    return {};
}

void World::live_as_template(Zone& zone) {
    if (zone.life == Life::sealing) {
        sealed(zone);
    } else if (zone.plan.suspends) {
        suspended(zone);
    } else if (host_.now_ms() >= zone.deadline_ms) {
        zone.new_name.clear();
        zone.life = Life::runs;
        finish(zone, -ETIMEDOUT,
               fmt::format("it did not suspend within {} ms", zone.deadline_ms - zone.began_ms));
    }
}

void World::suspended(Zone& zone) {
    zone.life = Life::sealing;
    zone.shutdown_reason = kSuspend;
    zone.domain->paused = true;
    (void)store_.write({{node(zone.domain->domid, "xenpack/template"), "sealing"}});
    happened(XENPACK_DOMAIN_SHUT_DOWN, zone.domain->domid, zone.uuid, kSuspend);
    store_.announce("@releaseDomain");
}

void World::sealed(Zone& zone) {
    const std::uint32_t domid = zone.domain->domid;
    zone.life = Life::sealed;
    zone.plan.name = std::exchange(zone.new_name, {});
    (void)store_.write(
        {{node(domid, "name"), zone.plan.name},
         {"/vm/" + uuid_text(zone.uuid) + "/name", zone.plan.name},
         {node(domid, "xenpack/sealed-cpu-ns"), fmt::format("{}", view_of(zone).cpu_time_ns)},
         {node(domid, "xenpack/template"), "sealed"}});
    happened(XENPACK_DOMAIN_PAUSED, domid, zone.uuid);
    finish(zone, 0, "");
}

// ---- forks --------------------------------------------------------------------------------------

Expected<void> World::fork(const ForkOrder& order, Done done) {
    const auto found = find(order.template_domid, order.template_uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    const Zone& source = **found;
    if (source.life != Life::sealed) {
        return fail_with(EINVAL, "{} is no template", source.plan.name);
    }
    if (name_taken(order.name)) {
        return fail_with(EEXIST, "a domain is named {} already", order.name);
    }
    ZonePlan plan = source.plan;
    plan.name = order.name;
    plan.start_ms = host_.now_ms();
    plan.save_for_ms = 0;
    plan.end_ms = plan.forks_end_ms;
    auto zone = std::make_unique<Zone>(std::move(plan), order.uuid);
    zone->reporter = source.reporter;
    zone->kept = source.kept;
    zone->life = Life::ordered;
    zone->order = order;
    zone->began_ms = host_.now_ms();
    zone->done = std::move(done);
    zones_.push_back(std::move(zone));
    return {};
}

void World::live_as_fork(Zone& zone) {
    if (zone.life == Life::ordered) {
        begin_fork(zone);
    } else {
        complete_fork(zone);
    }
}

void World::begin_fork(Zone& zone) {
    const auto source = find(zone.order->template_domid, zone.order->template_uuid);
    if (!source) {
        zone.life = Life::gone;
        finish(zone, -ESRCH, source.error().what);
        return;
    }
    zone.domain = host_.fork(*(*source)->domain);
    if (zone.domain == nullptr) {
        zone.life = Life::gone;
        finish(zone, -ENOMEM,
               fmt::format("Xen has {} MiB for it and it takes {}", host_.free_kib() / 1024,
                           Host::fork_cost_kib((*source)->domain->config) / 1024));
        return;
    }
    zone.domain->paused = true;
    const std::string home = node(zone.domain->domid, "xenpack/fork/");
    Store::Writes writes{{home + "template", uuid_text(zone.order->template_uuid)},
                         {home + "state", "building"}};
    for (const auto& [path, value] : zone.order->identity) {
        writes.emplace_back(home + path, value);
    }
    (void)write_nodes(zone);
    (void)store_.write(writes);
    zone.life = Life::forking;
    living_.emplace(zone.domain->domid, &zone);
    happened(XENPACK_DOMAIN_CREATED, zone.domain->domid, zone.uuid);
    store_.announce("@introduceDomain");
}

void World::complete_fork(Zone& zone) {
    const std::uint32_t domid = zone.domain->domid;
    (void)store_.write({{node(domid, "xenpack/fork/state"), "complete"}});
    zone.life = Life::held;
    if (!zone.order->paused) {
        zone.life = Life::runs;
        settle_pause(zone);
        happened(XENPACK_DOMAIN_UNPAUSED, domid, zone.uuid);
    }
    const auto took_us = static_cast<std::uint32_t>((host_.now_ms() - zone.began_ms) * 1000);
    const xenpack_fork_result result{domid, took_us / 2, 0, took_us / 2, 0, took_us};
    finish(zone, 0, "", &result);
}

// ---- when memory runs out -----------------------------------------------------------------------

void World::settle_pause(Zone& zone) {
    zone.domain->paused = zone.life != Life::runs || zone.holds > 0;
}

Expected<void> World::adopt(std::uint32_t domid, const Uuid& uuid) {
    const auto found = find(domid, uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    if (!(*found)->order) {
        return fail_with(EINVAL, "{} is no fork", (*found)->plan.name);
    }
    return {};
}

Expected<void> World::feed(std::uint32_t domid, const Uuid& uuid) {
    return find(domid, uuid).map([](Zone* zone) {
        Host::feed(*zone->domain);
        zone->starved_said = false;
    });
}

Expected<void> World::hold(std::uint32_t domid, const Uuid& uuid) {
    return find(domid, uuid).map([this](Zone* zone) {
        if (++zone->holds == 1 && zone->life == Life::runs) {
            happened(XENPACK_DOMAIN_PAUSED, zone->domain->domid, zone->uuid);
        }
        settle_pause(*zone);
    });
}

Expected<void> World::let_go(std::uint32_t domid, const Uuid& uuid) {
    const auto found = find(domid, uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    Zone& zone = **found;
    if (zone.holds == 0) {
        return fail_with(EINVAL, "{} is not held", zone.plan.name);
    }
    if (--zone.holds == 0 && zone.life == Life::runs) {
        happened(XENPACK_DOMAIN_UNPAUSED, zone.domain->domid, zone.uuid);
    }
    settle_pause(zone);
    return {};
}

// ---- handed out ---------------------------------------------------------------------------------

Expected<void> World::rename(std::uint32_t domid, const Uuid& uuid, const std::string& name) {
    const auto found = find(domid, uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    Zone& zone = **found;
    if (name == zone.plan.name) {
        return {};
    }
    if (name_taken(name)) {
        return fail_with(EEXIST, "a domain is named {} already", name);
    }
    zone.plan.name = name;
    (void)store_.write({{node(domid, "name"), name}, {"/vm/" + uuid_text(uuid) + "/name", name}});
    return {};
}

Expected<void> World::unpause(std::uint32_t domid, const Uuid& uuid) {
    const auto found = find(domid, uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    Zone& zone = **found;
    if (zone.life != Life::held) {
        return fail_with(EINVAL, "{} is not paused", zone.plan.name);
    }
    zone.life = Life::runs;
    settle_pause(zone);
    if (zone.plan.forks_end_ms) {
        zone.plan.end_ms = host_.now_ms() + *zone.plan.forks_end_ms;
    }
    happened(XENPACK_DOMAIN_UNPAUSED, domid, uuid);
    return {};
}

// ---- their ends ---------------------------------------------------------------------------------

Expected<void> World::destroy(std::uint32_t domid, const Uuid& uuid, Done done) {
    const auto found = find(domid, uuid);
    if (!found) {
        return tl::unexpected(found.error());
    }
    (*found)->to_destroy.push_back(std::move(done));
    return {};
}

void World::destroy_now(Zone& zone) {
    bury(zone);
    if (zone.done) {
        finish(zone, -ESRCH, "it was destroyed");
    }
    for (Done& done : std::exchange(zone.to_destroy, {})) {
        zone.done = std::move(done);
        finish(zone, 0, "");
    }
}

// ---- its reporter -------------------------------------------------------------------------------

// What xenpack-guest does about nodes of dom0's, by its own rules, and one thing in a step.
void World::obey(Zone& zone) {
    const std::uint32_t domid = zone.domain->domid;
    const guest::ForkSeen seen{value_of(store_.read(node(domid, guest::kQuiescePath))),
                               value_of(store_.read(node(domid, guest::kGenerationPath)))};
    obey_step(zone, seen);
    const auto answer = [&](const std::optional<std::string>& text, std::string& said,
                            std::string_view path) {
        if (text && *text != said) {
            said = *text;
            (void)store_.write({{node(domid, path), said}});
        }
    };
    answer(guest::quiesced_answer(seen, zone.kept), zone.quiet_said, guest::kQuiescedPath);
    answer(guest::fork_answer(seen, zone.kept), zone.forked_said, guest::kForkPath);
}

void World::obey_step(Zone& zone, const guest::ForkSeen& seen) {
    guest::ForkKept& kept = zone.kept;
    const auto outcome = [](Compliance compliance) {
        return compliance == Compliance::fails ? guest::Outcome::failed : guest::Outcome::done;
    };
    switch (guest::next_step(seen, kept)) {
        case guest::ForkStep::none:
            return;
        case guest::ForkStep::quiesce:
            if (zone.plan.quiesce != Compliance::hangs) {
                kept.token = *seen.token;
                kept.quiesced_in = seen.generation.value_or("");
                kept.quiesce = outcome(zone.plan.quiesce);
                kept.quiesce_why = "a simulated hook has failed";
            }
            return;
        case guest::ForkStep::identity:
            if (zone.plan.identity != Compliance::hangs) {
                kept.generation = *seen.generation;
                kept.identity = outcome(zone.plan.identity);
                kept.identity_why = "a simulated hook has failed";
            }
            return;
        case guest::ForkStep::resume:
        case guest::ForkStep::thaw:
            kept.token.clear();
            kept.quiesced_in.clear();
            kept.quiesce = guest::Outcome::pending;
            return;
    }
}

}  // namespace xenpack::sim
