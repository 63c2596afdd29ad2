// SPDX-License-Identifier: LGPL-2.1-or-later
// What was given, and nothing else, goes into the body.
#include "watcher/cli/request_body.h"

#include "watcher/cli/duration.h"

namespace xenpack {

using nlohmann::json;

void put_given(json& body, const char* member, const std::string& value) {
    if (!value.empty()) {
        body[member] = value;
    }
}

Result<void> put_timeout(json& body, const std::string& timeout) {
    if (timeout.empty()) {
        return {};
    }
    const auto timeout_ms = parse_timeout_ms(timeout);
    if (!timeout_ms) {
        return fail_as(ExitStatus::usage, "--timeout: " + timeout_ms.error().what);
    }
    body["timeout_ms"] = *timeout_ms;
    return {};
}

}  // namespace xenpack
