// SPDX-License-Identifier: LGPL-2.1-or-later
// Keys: the typed values of one section of a scenario. Each call takes one key; what the file does
// not set stays as it was. The first problem is kept, and what follows it is skipped, so that a
// reader lists its keys and asks once at the end. Called by scenario.cc and workload.cc. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plugin/sim/sections.h"

namespace xenpack::sim {

class Keys {
  public:
    explicit Keys(Section& section) : section_(section) {}

    // "512M": in KiB, from `least` to `most`.
    void size(std::string_view key, std::uint64_t& kib, std::uint64_t least, std::uint64_t most);
    // "500ms", "5s", "2m", "1h": in ms, from `least` to `most`.
    void duration(std::string_view key, std::int64_t& ms, std::int64_t least, std::int64_t most);
    void number(std::string_view key, std::uint64_t& number, std::uint64_t least,
                std::uint64_t most);
    void number(std::string_view key, unsigned& number, unsigned least, unsigned most);
    void yes_no(std::string_view key, bool& value);
    // The place of the value in `words`; nullopt where the key is not set or there is a problem.
    [[nodiscard]] std::optional<std::size_t> word(std::string_view key,
                                                  std::span<const std::string_view> words);
    [[nodiscard]] std::optional<std::string> text(std::string_view key);

    // A problem that a reader found, at the line of `key` where it is set.
    void refuse(std::string_view key, const std::string& what);
    [[nodiscard]] bool has_problem() const { return problem_.has_value(); }
    // The first problem; else that of a key that nobody took.
    [[nodiscard]] Expected<void> done() const;

  private:
    [[nodiscard]] const Section::Setting* take(std::string_view key);

    Section& section_;
    std::optional<Error> problem_;
};

}  // namespace xenpack::sim
