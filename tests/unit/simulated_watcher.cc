// SPDX-License-Identifier: LGPL-2.1-or-later
// The host of the scenario, and a watcher that reserves little of it.
#include "tests/unit/simulated_watcher.h"

#include <cstdlib>
#include <fstream>

#include "plugin/sim/toolstack.h"

namespace xenpack::testing {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMib = 1024;
constexpr const char* kHost = "[host]\nmemory = 1G\nxen = 32M\ndom0 = 512M\n";

}  // namespace

SimulatedWatcher::SimulatedWatcher() : plugin_{sim::toolstack_ops()} {
    config_.socket_path = directory_ / "socket";
    config_.emergency_kib = 16 * kMib;
    config_.reserve = SizeOrPercent{16 * kMib, {}};
    config_.start_reserve = {};
}

SimulatedWatcher::~SimulatedWatcher() {
    watcher_.reset();
    unsetenv(sim::kScenarioVariable);
}

void SimulatedWatcher::begin_host(const std::string& keys, const std::string& more) {
    std::ofstream(directory_ / "host.sim") << kHost << host_keys_ << "[zone web]\n"
                                           << kZoneKeys << keys << more;
    setenv(sim::kScenarioVariable, (directory_ / "host.sim").c_str(), 1);
    store_ = std::move(plugin_.open_store(loop_, [] {}).value());
    watcher_ = std::make_unique<Watcher>(
        Watcher::Rooms{loop_, plugin_, *store_, journal_}, config_,
        OverridesFile::load(directory_ / "settings.json").value(),
        [this] { return Expected<Config>(config_); }, [] {});
    const auto started = watcher_->start();
    ASSERT_TRUE(started) << started.error().what;
    watcher_->attach(&control_);
    ASSERT_TRUE(run_until(loop_, [this] { return control_.said("found", "web", "left alone"); }));
}

json SimulatedWatcher::one(const char* list, const std::string& name) {
    const json status = watcher_->status();
    for (const json& each : status[list]) {
        if (each["name"] == name) {
            return each;
        }
    }
    return nullptr;
}

std::string SimulatedWatcher::node(const json& domain, const std::string& below) {
    const std::string path = domain_path(domain["domid"].get<std::uint32_t>(), below);
    return store_->read(path).value().value_or("(nothing)");
}

}  // namespace xenpack::testing
