// SPDX-License-Identifier: LGPL-2.1-or-later
// What one decision costs, by how many zones a host has: from a zone's report that has been parsed
// to the ledger that knows what was told to whom. Called by make bench-scale. It measures the code
// that decides; listing domains, reading and writing xenstore are `make bench`'s.
//
// Writes a table, and all figures to build/bench/scale.json (or the file that is named).
// exit status: 0 if all aims are met, 1 if one is missed, 2 if the file cannot be written.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "watcher/balance/balance.h"
#include "watcher/zones/follow.h"

namespace xenpack::bench {
namespace {

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kMemoryKib = 512 * kMib;
// As an admin may set it. With what is learned, 1 % of a large host and more, all donors would be
// asked at once, and their number is not what is measured.
constexpr std::uint64_t kSmallReserveKib = 256 * kMib;
constexpr std::int64_t kNowMs = 10'000'000;
constexpr std::size_t kEvents = 3'000;
constexpr std::array<std::size_t, 5> kSizes{10, 100, 1'000, 10'000, 100'000};

// ---- A host with many zones.

enum class Kind {
    calm,      // memory is plenty, one zone's use rises, and it grows
    tight,     // the reserve lacks 100 MiB; one zone reports what it reported before
    shortage,  // nothing is left, one zone stalls, and donors are asked
    crowded    // nothing is left, a tenth of the zones waits already, and there are no donors
};
constexpr std::array kKinds{Kind::calm, Kind::tight, Kind::shortage, Kind::crowded};

std::string_view name_of(Kind kind) {
    switch (kind) {
        case Kind::calm:
            return "calm host, one grows";
        case Kind::tight:
            return "tight host";
        case Kind::shortage:
            return "shortage, with donors";
        case Kind::crowded:
            return "a tenth waits, no donors";
    }
    return "";
}

Report report_of(std::uint64_t used_kib, std::uint64_t count) {
    Report report;
    report.why = ReportWhy::change;
    report.sequence = count;
    report.uptime_ms = count * 500;
    report.heartbeat_s = 30;
    report.total_kib = kMemoryKib - 24 * kMib;
    report.available_kib = report.total_kib - used_kib;
    report.free_kib = report.available_kib / 2;
    report.some_us = 0;
    report.full_us = 0;
    return report;
}

Zone make_zone(std::uint32_t domid, std::uint64_t used_kib) {
    Zone zone;
    zone.key.domid = domid;
    zone.name = fmt::format("zone-of-a-tenant-{}", domid);
    zone.managed = true;
    zone.domain.domid = domid;
    zone.domain.current_kib = kMemoryKib;
    zone.created_with = xenpack_domain_config{kMemoryKib, 2 * kMemoryKib};
    zone.target_kib = kMemoryKib;
    zone.static_max_kib = 2 * kMemoryKib;
    follow(zone, kNowMs - 60'000);
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{2}}) {
        const std::int64_t now_ms = kNowMs - 30'000 * static_cast<std::int64_t>(3 - count);
        take_sample(zone, sample_of(report_of(used_kib, count)), now_ms);
        follow(zone, now_ms);
    }
    return zone;
}

class Fleet {
  public:
    Fleet(Kind kind, std::size_t count) : kind_(kind) {
        zones_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) {
            const bool waits = kind == Kind::crowded && i % 10 == 0;
            const std::uint64_t used_kib = (waits ? 484 : 80 + random_() % 200) * kMib;
            zones_.push_back(make_zone(static_cast<std::uint32_t>(i + 1), used_kib));
            if (kind == Kind::crowded) {
                zones_.back().config.floor_kib = kMemoryKib;  // nobody gives anything
            }
            used_kib_.push_back(used_kib);
            ledger_.put(i, view_of(zones_.back(), kNowMs));
        }
        nothing_left_ = kind == Kind::shortage || kind == Kind::crowded;
        host_.emergency_kib = 72 * kMib;
        total_kib_ = count * kMemoryKib;
        const std::uint64_t reserve_kib = learned_reserve_kib(ledger_, total_kib_);
        host_.free_kib = kind == Kind::calm    ? reserve_kib + 8192 * kMib
                         : kind == Kind::tight ? reserve_kib - std::min(reserve_kib, 100 * kMib)
                                               : host_.emergency_kib;
    }

    // One event from beginning to end, in microseconds. The fleet is then as it was before.
    double event() {
        const std::size_t slot = random_() % zones_.size();
        const Zone before = zones_[slot];
        const Sample sample = sample_of(next_report(slot));
        const auto begin = std::chrono::steady_clock::now();
        Zone& zone = zones_[slot];
        take_sample(zone, sample, kNowMs);
        ledger_.put(slot, view_of(zone, kNowMs));
        const std::uint64_t learned_kib = learned_reserve_kib(ledger_, total_kib_);
        host_.reserve_kib = nothing_left_ ? kSmallReserveKib : learned_kib;
        const Plan decided = plan(host_, ledger_, kNowMs);
        for (const std::vector<Change>* changes : {&decided.grow, &decided.shrink}) {
            for (const Change& change : *changes) {
                carry_out(change);
            }
        }
        const auto end = std::chrono::steady_clock::now();
        changes_ += decided.grow.size() + decided.shrink.size();
        put_back(decided, slot, before);
        return std::chrono::duration<double, std::micro>(end - begin).count();
    }

    [[nodiscard]] std::uint64_t changes() const { return changes_; }

  private:
    Report next_report(std::size_t slot) const {
        const bool rises = kind_ == Kind::calm || kind_ == Kind::shortage;
        Report report = report_of(rises ? 470 * kMib : used_kib_[slot], 3);
        report.why = kind_ == Kind::shortage ? ReportWhy::psi : report.why;
        report.free_kib = rises ? 4 * kMib : *report.free_kib;
        return report;
    }

    void carry_out(const Change& change) {
        Zone& zone = zones_[change.zone];
        zone.target_kib = change.to_kib;
        zone.progress = advance(zone.progress, change.to_kib, zone.domain.current_kib, kNowMs);
        ledger_.put(change.zone, view_of(zone, kNowMs));
    }

    void put_back(const Plan& decided, std::size_t slot, const Zone& before) {
        for (const std::vector<Change>* changes : {&decided.grow, &decided.shrink}) {
            for (const Change& change : *changes) {
                Zone& zone = zones_[change.zone];
                zone.target_kib = change.from_kib;
                zone.progress =
                    advance(zone.progress, change.from_kib, zone.domain.current_kib, kNowMs);
                ledger_.put(change.zone, view_of(zone, kNowMs));
            }
        }
        zones_[slot] = before;
        ledger_.put(slot, view_of(before, kNowMs));
    }

    Kind kind_;
    std::mt19937_64 random_{1};
    std::vector<Zone> zones_;
    std::vector<std::uint64_t> used_kib_;
    Ledger ledger_;
    HostView host_;
    bool nothing_left_ = false;
    std::uint64_t total_kib_ = 0;
    std::uint64_t changes_ = 0;
};

// ---- Measuring.

struct Figures {
    std::size_t zones = 0;
    double p50_us = 0;
    double p99_us = 0;
    double changes = 0;  // carried out, by an event
    double bytes_per_zone = 0;
};

std::size_t allocated_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

Figures measure(Kind kind, std::size_t zones) {
    const std::size_t before = allocated_bytes();
    Fleet fleet(kind, zones);
    Figures figures;
    figures.zones = zones;
    figures.bytes_per_zone =
        static_cast<double>(allocated_bytes() - before) / static_cast<double>(zones);
    const std::size_t events = kind == Kind::crowded ? kEvents / 10 : kEvents;  // slower
    for (std::size_t i = 0; i < events / 10; ++i) {
        (void)fleet.event();
    }
    const std::uint64_t changes_before = fleet.changes();
    std::vector<double> took_us;
    for (std::size_t i = 0; i < events; ++i) {
        took_us.push_back(fleet.event());
    }
    std::sort(took_us.begin(), took_us.end());
    figures.p50_us = took_us[events / 2];
    figures.p99_us = took_us[events * 99 / 100];
    figures.changes =
        static_cast<double>(fleet.changes() - changes_before) / static_cast<double>(events);
    return figures;
}

// ---- Telling.

constexpr std::size_t kAimZones = 1'000;
constexpr std::size_t kGrowthZones = 10'000;
constexpr double kAimUs = 100;
// Ten times as many zones: their logarithm is 1.33 times as large, and their memory is no longer in
// the processor's caches. Linear would be 10.
constexpr double kAimGrowth = 2.5;

const Figures& at(const std::vector<Figures>& all, std::size_t zones) {
    return *std::ranges::find(all, zones, &Figures::zones);
}

// Says whether both aims are met.
bool judge(Kind kind, const std::vector<Figures>& all, nlohmann::json& out) {
    const Figures& thousand = at(all, kAimZones);
    const double growth = at(all, kGrowthZones).p50_us / thousand.p50_us;
    const bool quick = thousand.p99_us < kAimUs;
    const bool flat = growth < kAimGrowth;
    const auto met = [](bool is) { return is ? "met" : "missed"; };
    fmt::print("  under {:.0f} us at {} zones: {:.1f} us (p99), {}\n", kAimUs, kAimZones,
               thousand.p99_us, met(quick));
    out["growth"] = growth;
    if (kind == Kind::crowded) {
        fmt::print("  {:.2f} times as long with {} zones: each zone that waits is looked at\n\n",
                   growth, kGrowthZones);
        out["aims_met"] = quick;
        return quick;
    }
    fmt::print("  flat or logarithmic: {:.2f} times as long with {} zones, {}\n\n", growth,
               kGrowthZones, met(flat));
    out["aims_met"] = quick && flat;
    return quick && flat;
}

int run(const std::string& path) {
    nlohmann::json whole = nlohmann::json::array();
    bool met = true;
    for (const Kind kind : kKinds) {
        fmt::print("{}\n  {:>8} {:>9} {:>9} {:>9} {:>11}\n", name_of(kind), "zones", "p50 us",
                   "p99 us", "changes", "bytes/zone");
        nlohmann::json one{{"host", name_of(kind)}, {"rows", nlohmann::json::array()}};
        std::vector<Figures> all;
        for (const std::size_t zones : kSizes) {
            const Figures f = measure(kind, zones);
            all.push_back(f);
            fmt::print("  {:>8} {:>9.2f} {:>9.2f} {:>9.1f} {:>11.0f}\n", f.zones, f.p50_us,
                       f.p99_us, f.changes, f.bytes_per_zone);
            one["rows"].push_back({{"zones", f.zones},
                                   {"p50_us", f.p50_us},
                                   {"p99_us", f.p99_us},
                                   {"changes_per_event", f.changes},
                                   {"bytes_per_zone", f.bytes_per_zone}});
        }
        met = judge(kind, all, one) && met;
        whole.push_back(std::move(one));
    }
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
    std::ofstream file(path);
    file << whole.dump(2) << '\n';
    if (!file.flush()) {
        fmt::print(stderr, "scale_bench: cannot write {}\n", path);
        return 2;
    }
    fmt::print("written to {}\n", path);
    return met ? 0 : 1;
}

}  // namespace
}  // namespace xenpack::bench

int main(int argc, char** argv) {
    return xenpack::bench::run(argc > 1 ? argv[1] : "build/bench/scale.json");
}
