// SPDX-License-Identifier: LGPL-2.1-or-later
// Checks and translates the options of `xenpack set`. Pure.
#include "watcher/cli/zone_settings.h"

#include <fmt/format.h>

#include <charconv>

#include "watcher/config/config.h"

namespace xenpack {

namespace {

using nlohmann::json;

constexpr const char* kDefault = "default";

Result<json> size_value(const char* option, const std::string& text, bool may_be_default) {
    if (may_be_default && text == kDefault) {
        return json(nullptr);
    }
    const auto kib = parse_size_kib(text);
    if (!kib) {
        return fail_as(ExitStatus::usage, fmt::format("{}: {}", option, kib.error().what));
    }
    return json(*kib);
}

Result<json> weight_value(const std::string& text) {
    if (text == kDefault) {
        return json(nullptr);
    }
    unsigned weight = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
    if (error != std::errc() || end != text.data() + text.size() || weight < kMinWeight ||
        weight > kMaxWeight) {
        return fail_as(ExitStatus::usage,
                       fmt::format("--weight: '{}' is not a whole number from {} to {}, nor \"{}\"",
                                   text, kMinWeight, kMaxWeight, kDefault));
    }
    return json(weight);
}

}  // namespace

Result<json> request_body(const ZoneSettings& settings) {
    json body = json::object();
    const auto put = [&body](const char* name, const Result<json>& value) -> Result<void> {
        if (!value) {
            return tl::unexpected<Failure>(value.error());
        }
        body[name] = *value;
        return {};
    };
    Result<void> done;
    if (done && settings.floor) {
        done = put("floor_kib", size_value("--floor", *settings.floor, true));
    }
    if (done && settings.ceiling) {
        done = put("ceiling_kib", size_value("--ceiling", *settings.ceiling, true));
    }
    if (done && settings.weight) {
        done = put("weight", weight_value(*settings.weight));
    }
    if (done && settings.pin) {
        done = put("pin_kib", size_value("--pin", *settings.pin, false));
    }
    if (!done) {
        return tl::unexpected<Failure>(done.error());
    }
    if (settings.pin && settings.automatic) {
        return fail_as(ExitStatus::usage, "--pin and --auto are opposites: give one");
    }
    if (settings.automatic) {
        body["pin_kib"] = nullptr;
    }
    if (body.empty()) {
        return fail_as(ExitStatus::usage,
                       "nothing to set: give --floor, --ceiling, --weight, --pin or --auto");
    }
    return body;
}

}  // namespace xenpack
