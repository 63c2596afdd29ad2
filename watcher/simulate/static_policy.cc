// SPDX-License-Identifier: LGPL-2.1-or-later
// Static sizes: asks the model of a guest how large it must be, and leaves it so.
#include "watcher/simulate/static_policy.h"

namespace xenpack::simulate {
namespace {

class StaticPolicy final : public Policy {
  public:
    [[nodiscard]] std::string_view name() const override { return "static sizes"; }
    [[nodiscard]] sim::DomainConfig zone_config(std::uint64_t peak_kib) const override {
        sim::DomainConfig config;
        config.memory_kib = size_for_peak_kib(peak_kib);
        config.max_memory_kib = config.memory_kib;
        return config;
    }
    void zone_started(const sim::Domain&, std::int64_t) override {}
    void step(sim::Host&, std::int64_t) override {}
    [[nodiscard]] std::uint64_t target_changes() const override { return 0; }
    [[nodiscard]] bool make_room(sim::Host& host, std::uint64_t cost_kib) override {
        return host.free_kib() >= cost_kib;
    }
};

}  // namespace

std::uint64_t size_for_peak_kib(std::uint64_t peak_kib) {
    auto trace = std::make_shared<sim::Trace>();
    sim::TraceRow row;
    row.demand.anon_kib = peak_kib;
    row.demand.active_kib = peak_kib;
    trace->rows.push_back(row);
    // A larger domain needs more for its page descriptors, so it is asked until that settles.
    std::uint64_t size_kib = peak_kib;
    for (bool grows = true; grows;) {
        sim::GuestConfig config;
        config.static_max_kib = size_kib;
        const std::uint64_t needed_kib = sim::Guest(config, trace).ease_kib(0);
        grows = needed_kib > size_kib;
        size_kib = grows ? needed_kib : size_kib;
    }
    return size_kib;
}

std::unique_ptr<Policy> make_static_policy() {
    return std::make_unique<StaticPolicy>();
}

}  // namespace xenpack::simulate
