// SPDX-License-Identifier: LGPL-2.1-or-later
// Intents: a file for each fork that is being made, written before its domain comes to be and
// removed when all of it is there. What a daemon that died has left half made is known by them,
// also a domain that has nothing in the store yet: its handle in Xen is the file's name. Forks owns
// one; it must not touch Xen.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/error.h"
#include "watcher/toolstack/toolstack.h"

namespace xenpack {

struct Intent {
    Uuid uuid{};
    std::string template_uuid{};  // for people
    std::string name{};           // the same
    std::string pool{};           // which it is made for; empty: none
};

class Intents {
  public:
    // The folder is made by the first write().
    explicit Intents(std::string directory) : directory_(std::move(directory)) {}

    // On the disk when this returns.
    [[nodiscard]] Expected<void> write(const Intent& intent) const;
    // One that is not there is no failure.
    [[nodiscard]] Expected<void> remove(const Uuid& uuid) const;
    // All there are. Of a file that is damaged the name is enough; a file of another name is
    // nobody's business here, but for what an interrupted write() may leave, which is removed.
    [[nodiscard]] Expected<std::vector<Intent>> load() const;

  private:
    [[nodiscard]] std::string path_of(const Uuid& uuid) const;

    std::string directory_;
};

// As to_string() writes it, and nothing else.
[[nodiscard]] std::optional<Uuid> parse_uuid(std::string_view text);

}  // namespace xenpack
