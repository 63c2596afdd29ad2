// SPDX-License-Identifier: LGPL-2.1-or-later
// Members of a request's body that a person may leave out: what is left out is the daemon's to
// choose. Called by the commands that ask the daemon for something.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "watcher/cli/failure.h"

namespace xenpack {

// Where the value is empty the body has no such member.
void put_given(nlohmann::json& body, const char* member, const std::string& value);

// timeout_ms, of what was given as --timeout, as in 30s. ExitStatus::usage: it is none, or out of
// range.
[[nodiscard]] Result<void> put_timeout(nlohmann::json& body, const std::string& timeout);

}  // namespace xenpack
