// SPDX-License-Identifier: LGPL-2.1-or-later
// Qmemman: how Qubes OS shares memory. Each guest reports what it uses; a zone prefers 1.3 times
// that, and all that is left over is handed out in proportion. Rules and constants: Qubes OS'
// qubes/qmemman/{algo,systemstate}.py and meminfo-writer; the rules are in bytes, as there.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "tests/bench/peers/peer.h"

namespace xenpack::bench::qmemman {

inline constexpr std::uint64_t kMib = 1024 * 1024;
inline constexpr double kCacheFactor = 1.3;
inline constexpr std::uint64_t kLeastPreferred = 200 * kMib;
inline constexpr std::uint64_t kDom0Boost = 350 * kMib;
inline constexpr double kRequestSafety = 1.05;
inline constexpr std::uint64_t kXenFreeLeft = 50 * kMib;
inline constexpr std::uint64_t kXenFreeLeast = 25 * kMib;
inline constexpr std::uint64_t kLeastTransfer = 150 * kMib;
inline constexpr std::uint64_t kLeastChangeUnderPreferred = 15 * kMib;

// One domain as its rules see it, in bytes.
struct View {
    std::uint32_t id = 0;
    std::optional<std::uint64_t> used;  // as reported; none: left alone
    std::uint64_t most = 0;
    std::uint64_t actual = 0;
    bool no_progress = false;
    bool is_dom0 = false;
};

struct Request {
    std::uint32_t id = 0;
    std::uint64_t target = 0;
    bool operator==(const Request&) const = default;
};

// A report as a guest writes it, decimal KiB; none where it is anything else.
[[nodiscard]] std::optional<std::uint64_t> parse_meminfo(std::string_view text);
[[nodiscard]] std::uint64_t preferred(const View& view);
[[nodiscard]] std::int64_t needed(const View& view);
// Targets that free `size`; none where that cannot be had.
[[nodiscard]] std::vector<Request> balloon(std::uint64_t size, const std::vector<View>& views);
// Where there is enough for everybody's preference and `spare` beyond it.
[[nodiscard]] std::vector<Request> share_plenty(const std::vector<View>& views, double spare);
// The whole rule; those who shrink come first. `xen_free` is beyond what is always left free.
[[nodiscard]] std::vector<Request> balance(std::int64_t xen_free, const std::vector<View>& views);

class Qmemman : public Peer {
  public:
    Qmemman() : Peer("qmemman") {}
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override;
    void zone_started(const sim::Domain& domain, std::int64_t now_ms) override;
    void step(sim::Host& host, std::int64_t now_ms) override;
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override;

  private:
    struct Zone {
        std::optional<std::uint64_t> used_kib;  // last reported
        std::uint64_t before_kib = 0;           // used in the look before this one
        std::uint64_t last_target = 0;          // bytes
        std::uint64_t last_actual = 0;          // bytes, when a target was set
        bool no_progress = false;
        bool slow = false;
    };

    void take_reports(const sim::Host& host);
    [[nodiscard]] std::uint64_t actual(const sim::Domain& domain) const;
    [[nodiscard]] std::vector<View> views(const sim::Host& host) const;
    [[nodiscard]] std::int64_t xen_free(const sim::Host& host) const;
    void clear_flags(const sim::Host& host);
    void begin_round(sim::Host& host);
    [[nodiscard]] bool is_significant(const sim::Host& host, const std::vector<Request>& requests,
                                      std::int64_t xen_free) const;
    void go_on(sim::Host& host);
    void give_up_waiting(sim::Host& host, sim::Domain& wanting);
    void set(sim::Host& host, sim::Domain& domain, std::uint64_t target);
    void hold_growth(sim::Host& host);

    std::map<std::uint32_t, Zone> zones_;
    bool reported_ = false;  // a balance is due
    // The round being carried out: what is still to be set, and whom it took from.
    std::deque<Request> round_;
    std::vector<Request> donors_;
    unsigned tries_ = 0;
    // A start that is being served holds the one lock: nothing is balanced meanwhile.
    bool starting_ = false;
    unsigned start_tries_ = 0;
    std::int64_t free_at_check_ = 0;
    std::vector<Request> start_requests_;
};

}  // namespace xenpack::bench::qmemman
