// SPDX-License-Identifier: LGPL-2.1-or-later
// Sections: the strict form of a scenario file, as xenpack.conf has it: [kind] or [kind NAME],
// below it lines key = value. Called by scenario.cc, which knows what the keys mean. Pure.
//
// Whoever takes a section's values takes them one by one; what was not taken is unknown, and
// refused. Each problem is one line: "FILE:LINE: what, and what to do".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/error.h"

namespace xenpack::sim {

class Section {
  public:
    Section(std::string file, int line, std::string kind, std::string name);

    [[nodiscard]] const std::string& kind() const { return kind_; }
    [[nodiscard]] const std::string& name() const { return name_; }  // empty: it has none

    struct Setting {
        std::string key;
        std::string value;
        int line = 0;
        bool taken = false;
    };
    // False where the key is there already.
    [[nodiscard]] bool add(Setting setting);
    // Null where the file does not set it.
    [[nodiscard]] const Setting* take(std::string_view key);

    // The first key that nobody took is a problem; `allowed` says for what, "zone web".
    [[nodiscard]] Expected<void> check_all_taken() const;

    // The error's code is EINVAL.
    [[nodiscard]] tl::unexpected<Error> problem(const std::string& what) const;
    [[nodiscard]] tl::unexpected<Error> problem(const Setting& at, const std::string& what) const;

  private:
    std::string file_;
    int line_;
    std::string kind_;
    std::string name_;
    std::vector<Setting> settings_;
};

// `file` is only named in problems.
[[nodiscard]] Expected<std::vector<Section>> parse_sections(std::string_view text,
                                                            const std::string& file);

}  // namespace xenpack::sim
