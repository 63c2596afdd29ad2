// SPDX-License-Identifier: LGPL-2.1-or-later
// SimulatedWatcher: a whole watcher on a simulated host with a zone "web", for tests of what it
// does with templates and forks: what it has answered, shown, said, and written to the store. Real
// time, in which a step of the host takes 0.1 s.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/unit/fake_control.h"
#include "tests/unit/http_client_fixture.h"
#include "watcher/watcher.h"

namespace xenpack::testing {

// Of "web", and of others like it.
inline constexpr char kZoneKeys[] =
    "memory = 64M\nboot = 50ms\ngenerate = ramp\nbase = 4M\npeak = 4M\n";

class SimulatedWatcher : public ::testing::Test {
  protected:
    SimulatedWatcher();
    ~SimulatedWatcher() override;

    // With config_ as it is then, which a reload reads again; returns when "web" has been found.
    // `keys` are further ones of "web", `more` is more of the scenario.
    void begin_host(const std::string& keys = "", const std::string& more = "");
    // Its member of that name in one of status' lists, or null.
    nlohmann::json one(const char* list, const std::string& name);
    nlohmann::json domain(const std::string& name) { return one("unmanaged", name); }
    // What the store has below such a domain, or "(nothing)".
    std::string node(const nlohmann::json& domain, const std::string& below);

    std::string host_keys_;  // further ones of the scenario's host
    TemporaryDirectory directory_;
    Loop loop_;
    Journal journal_{LogLevel::error};
    PluginObject plugin_;
    Config config_;
    std::unique_ptr<Store> store_;
    FakeControl control_;
    std::unique_ptr<Watcher> watcher_;
};

}  // namespace xenpack::testing
