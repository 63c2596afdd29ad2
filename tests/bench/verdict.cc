// SPDX-License-Identifier: LGPL-2.1-or-later
// Totals and aims.
#include "tests/bench/verdict.h"

#include <fmt/format.h>

#include <optional>

namespace xenpack::bench {
namespace {

constexpr double kMoreThanBestPeer = 1.25;
constexpr double kOfOracle = 0.90;

std::optional<std::size_t> find(const std::vector<Contender>& contenders, Role role) {
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        if (contenders[who].role == role) {
            return who;
        }
    }
    return std::nullopt;
}

Total total_of(const std::vector<SetScores>& sets, std::size_t who) {
    Total total;
    simulate::Outcome sum;
    for (const SetScores& set : sets) {
        const Score& score = set.scores[who];
        total.zones += score.zones;
        total.held_to_oracle += score.held_to_oracle / static_cast<double>(sets.size());
        sum.oom_kills += score.equal.oom_kills;
        sum.zone_ms += score.equal.zone_ms;
        sum.stalled_ms += score.equal.stalled_ms;
        sum.target_changes += score.equal.target_changes;
        sum.stall_to_grant_ms.insert(sum.stall_to_grant_ms.end(),
                                     score.equal.stall_to_grant_ms.begin(),
                                     score.equal.stall_to_grant_ms.end());
    }
    total.kills = sum.oom_kills;
    total.lost = sum.stalled_share();
    total.changes_per_zone_minute = sum.changes_per_zone_minute();
    total.grant_p50_ms = sum.stall_to_grant_percentile_ms(0.50);
    total.grant_p99_ms = sum.stall_to_grant_percentile_ms(0.99);
    return total;
}

// Kills of ours at a number of zones at which the oracle kills none.
std::uint64_t needless_kills(const std::vector<SetScores>& sets, std::size_t ours,
                             std::size_t oracle, std::string& where) {
    std::uint64_t kills = 0;
    for (const SetScores& set : sets) {
        const std::uint64_t of_set = set.scores[ours].equal.oom_kills;
        if (of_set > 0 && set.scores[oracle].equal.oom_kills == 0) {
            kills += of_set;
            where += (where.empty() ? "" : ", ") + set.set;
        }
    }
    return kills;
}

struct Three {
    std::size_t ours;
    std::size_t peer;
    std::size_t oracle;
};

double share(unsigned part, unsigned whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void compare(const std::vector<SetScores>& sets, const std::vector<Contender>& contenders,
             const Three& who, Verdict& verdict) {
    const unsigned we = verdict.totals[who.ours].zones;
    const unsigned they = verdict.totals[who.peer].zones;
    const unsigned best = verdict.totals[who.oracle].zones;
    const std::string_view us = contenders[who.ours].name;
    const std::string_view peer = contenders[who.peer].name;
    std::string where;
    const std::uint64_t kills = needless_kills(sets, who.ours, who.oracle, where);
    verdict.aims.push_back({us, fmt::format("25 % more zones than the best peer ({})", peer),
                            fmt::format("{:+.1f} %", 100 * (share(we, they) - 1)),
                            share(we, they) >= kMoreThanBestPeer});
    verdict.aims.push_back({us, "within 10 % of the oracle's zones",
                            fmt::format("{:.1f} % of them", 100 * share(we, best)),
                            share(we, best) >= kOfOracle});
    verdict.aims.push_back({us, "no OOM kill that the oracle avoids",
                            kills == 0 ? std::string("none") : fmt::format("{} ({})", kills, where),
                            kills == 0});
    if (kills > 0) {
        verdict.failures.push_back(
            fmt::format("{}: {} OOM kills that the oracle avoids, on {}", us, kills, where));
    }
    if (share(we, best) < kOfOracle) {
        verdict.failures.push_back(
            fmt::format("{} fits {} zones over all sets, the oracle {}", us, we, best));
    }
    if (we < they) {
        verdict.failures.push_back(
            fmt::format("{} fits {} zones over all sets, {} fits {}", us, we, peer, they));
    }
}

}  // namespace

Verdict judge(const std::vector<SetScores>& sets, const std::vector<Contender>& contenders) {
    Verdict verdict;
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        verdict.totals.push_back(total_of(sets, who));
    }
    const auto first_peer = find(contenders, Role::peer);
    const auto oracle = find(contenders, Role::oracle);
    if (!first_peer) {
        return verdict;
    }
    verdict.best_peer = *first_peer;
    for (std::size_t who = 0; who < contenders.size(); ++who) {
        if (contenders[who].role == Role::peer &&
            verdict.totals[who].zones > verdict.totals[verdict.best_peer].zones) {
            verdict.best_peer = who;
        }
    }
    for (std::size_t who = 0; oracle && who < contenders.size(); ++who) {
        const Role role = contenders[who].role;
        if (role == Role::ours || role == Role::variant) {
            compare(sets, contenders, {who, verdict.best_peer, *oracle}, verdict);
        }
    }
    return verdict;
}

}  // namespace xenpack::bench
