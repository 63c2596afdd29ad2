// SPDX-License-Identifier: LGPL-2.1-or-later
// FakeControl: keeps what the watcher publishes and answers. For tests of the whole watcher.
#pragma once

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/control/control.h"

namespace xenpack::testing {

struct FakeControl final : Control {
    void publish(const nlohmann::json& event) override { events.push_back(event); }
    void answer(std::uint64_t request, const Expected<nlohmann::json>& result) override {
        answers.emplace(request, result);
    }
    // Whether something of that kind was said of that zone, with these words in it.
    [[nodiscard]] bool said(std::string_view kind, std::string_view zone,
                            std::string_view words) const {
        return std::ranges::any_of(events, [&](const nlohmann::json& event) {
            return event["kind"] == kind && event.value("zone", "") == zone &&
                   event["reason"].get<std::string>().find(words) != std::string::npos;
        });
    }

    std::vector<nlohmann::json> events;
    std::map<std::uint64_t, Expected<nlohmann::json>> answers;
};

}  // namespace xenpack::testing
