// SPDX-License-Identifier: LGPL-2.1-or-later
// What Forks keeps of each thing that is under way: a zone that is being sealed, a request, a fork
// on its way, a domain that is to go. For the files of Forks only.
#pragma once

#include "watcher/fork/forks.h"
#include "watcher/loop/program.h"

namespace xenpack {

// A zone on its way to become a template.
struct Forks::Sealing {
    ZoneKey key;
    std::string zone_name;  // what it was called before
    std::string name;       // and what it shall be called
    bool has_reporter = true;
    std::uint64_t caller = 0;  // 0: nobody waits
    std::int64_t began_ms = 0;
    std::string token;  // what it was told to be quiet for
    Patience patience;
    bool asked_toolstack = false;
    Store::WatchHandle answer{};
};

struct Forks::Request {
    std::uint64_t id = 0;
    std::uint64_t caller = 0;
    ForksRequest asked;
    ZoneKey template_key;
    bool has_reporter = true;
    std::vector<std::string> names;
    Brood brood;
    std::vector<MadeFork> made;
    bool waits_for_memory = true;
    std::optional<std::uint64_t> reservation{};
    std::int64_t began_ms = 0;
    std::optional<ZoneKey> takes{};  // one that stands ready: nothing is made
    bool waits_for_template = false;
    std::vector<std::string> indexes{};  // one for each fork, or none

    // Its failure is for the journal. Pools and zones that fork themselves say it in words of their
    // own, and not each time that it is tried; of one that is taken its end is said.
    [[nodiscard]] bool is_told() const { return asked.pool.empty() && !takes && indexes.empty(); }
};

// A fork on its way to its identity.
struct Forks::Child {
    enum class Stage { building, waiting, joining };

    ZoneKey key;  // domid 0 while it is being built
    std::string name;
    std::uint64_t request = 0;  // 0: nobody waits for it any more
    std::size_t index = 0;      // in the request
    bool has_reporter = true;
    bool paused = false;  // left so
    Stage stage = Stage::building;
    Patience patience;
    std::int64_t began_ms = 0;
    Store::WatchHandle answer{};
    std::vector<std::unique_ptr<Program>> joiners{};
    std::size_t joining = 0;
    std::optional<Error> join_failure{};
};

struct Forks::Destroying {
    ZoneKey key;
    std::string name;
    bool once = false;
    Destroyed then{};
    bool under_way = false;
    std::int64_t again_ms = 0;
    std::string said{};  // in the journal, why it could not be destroyed
};

}  // namespace xenpack
