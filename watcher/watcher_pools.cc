// SPDX-License-Identifier: LGPL-2.1-or-later
// The watcher's part in pools: what a request to take a fork asks for, what is shown of pools, and
// what is said of a host that can make no forks. What pools do is fork/'s.
#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "watcher/watcher.h"
#include "watcher/watcher_asked.h"

namespace xenpack {
namespace {

using nlohmann::json;

Expected<TakeRequest> parse_take(const json& asked) {
    static constexpr std::array<std::string_view, 4> kKnown{"name", "until", "address",
                                                            "timeout_ms"};
    static constexpr std::array<std::string_view, 2> kUntil{"ready", "running"};
    const auto known = check_members(asked, kKnown, "a request to take a fork");
    const auto name = asked_text(asked, "name");
    const auto until = asked_word(asked, "until", kUntil);
    const auto address = asked_text(asked, "address");
    const auto timeout_ms =
        asked_number<std::int64_t>(asked, "timeout_ms", kAnswerMs, kAnswerMostMs);
    if (const Error* error = first_error(known, name, until, address, timeout_ms)) {
        return tl::unexpected(*error);
    }
    return TakeRequest{*name, *until == 1 ? Until::running : Until::ready, *address, *timeout_ms};
}

}  // namespace

Expected<void> Watcher::take_fork(const std::string& pool, const json& asked,
                                  const Control::Caller& caller) {
    const auto request = parse_take(asked);
    if (!request) {
        return tl::unexpected(request.error());
    }
    const auto looked = look_at_forks();
    return looked ? pools_->take(pool, *request, caller.request) : looked;
}

void Watcher::take_refused(std::uint64_t caller, const Error& why) {
    if (control_ != nullptr) {
        control_->answer(caller, tl::unexpected(why));
    }
}

void Watcher::pool_said(const std::string& sentence) {
    publish(about_host(DecisionKind::fork, sentence));
}

// Of what comes of a wish; what is refused is said to the zone alone.
void Watcher::self_fork_said(const Zone& zone, bool fault, const std::string& sentence) {
    Decision decision = about_host(fault ? DecisionKind::fault : DecisionKind::fork, sentence);
    decision.zone = zone.name;
    decision.domid = zone.key.domid;
    decision.uuid = to_string(zone.key.uuid);
    publish(decision);
}

json Watcher::taken_json(const MadeFork& fork) {
    return {{"name", fork.name},
            {"domid", fork.domid},
            {"uuid", to_string(fork.uuid)},
            {"pool", fork.taken_from},
            {"ready_ms", fork.ready_ms ? json(*fork.ready_ms) : json(nullptr)}};
}

json Watcher::pools_json() const {
    json list = json::array();
    for (const PoolState& state : pools_->states()) {
        const PoolConfig& config = state.config;
        list.push_back({{"name", config.name},
                        {"template", config.template_name},
                        {"keep", config.running ? "running" : "paused"},
                        {"wanted", config.ready},
                        {"ready", state.seen.standing},
                        {"held", state.seen.held},
                        {"making", state.seen.making},
                        {"taken", state.seen.taken},
                        {"most", config.most ? json(*config.most) : json(nullptr)},
                        {"waiting", state.seen.takers},
                        {"why", state.why_not.empty() ? json(nullptr) : json(state.why_not)}});
    }
    return list;
}

// Asks anew. At the start, and when the configuration is read again; louder once somebody counts on
// forks.
void Watcher::say_what_forks_lack() {
    const bool counted_on = !config_.pools.empty() || config_.zone_defaults.self_forks ||
                            std::ranges::any_of(config_.sections, [](const ZoneSection& section) {
                                return section.values.self_forks.has_value();
                            });
    forks_lack_ = forks_->missing();
    if (forks_lack_.empty()) {
        lack_warned_ = false;
    }
    if (lack_warned_ || forks_lack_.empty()) {
        return;
    }
    lack_warned_ = counted_on;
    for (const std::string& sentence : forks_lack_) {
        rooms_.journal.log(counted_on ? LogLevel::warning : LogLevel::info,
                           fmt::format("no templates and no forks on this host: {}", sentence));
    }
}

}  // namespace xenpack
