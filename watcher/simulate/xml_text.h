// SPDX-License-Identifier: LGPL-2.1-or-later
// Text in XML (XML 1.0, sections 2.2 and 2.4): names of traces may hold anything. Called by those
// who draw: the simulation and the benchmark. Pure.
#pragma once

#include <string>
#include <string_view>

namespace xenpack::simulate {

// As text inside XML: its own characters as entities, and "?" for what XML does not allow (control
// characters, bytes that are not UTF-8).
[[nodiscard]] std::string escaped_xml(std::string_view text);

}  // namespace xenpack::simulate
