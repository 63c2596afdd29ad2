// SPDX-License-Identifier: LGPL-2.1-or-later
// Config: xenpack.conf as plain values, read whole and checked before anything uses it.
// xenpackd loads it at start and on reload, `xenpack check-config` by the same path.
// It knows no Xen, does not log, and never returns a half-read configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watcher/error.h"

namespace xenpack {

// An amount given as a size or as percent of something the reader knows (the host's memory).
struct SizeOrPercent {
    std::uint64_t kib = 0;
    std::optional<unsigned> percent;  // 0..100; where set, kib is unused

    [[nodiscard]] std::uint64_t of(std::uint64_t whole_kib) const {
        return percent ? whole_kib / 100 * *percent : kib;
    }
};

struct ZoneConfig {
    // yes: managed though its maxmem is not above its memory. no: left alone. unset: by its maxmem.
    std::optional<bool> manage;
    std::optional<std::uint64_t> floor_kib;    // never shrunk below; unset: by size
    std::optional<std::uint64_t> ceiling_kib;  // never grown above; unset: the zone's maxmem
    std::optional<unsigned> weight;            // 1..10000; unset: 100
    std::optional<unsigned> headroom_percent;  // 5..100, of memory in use; unset: 25
    std::optional<unsigned> self_forks;        // forks of itself that it may ask for; unset: none
};

struct ZoneSection {
    std::string pattern;  // fnmatch(3) against the domain's name
    ZoneConfig values;
    int line = 0;
};

// Forks of one template that stand ready to be taken.
struct PoolConfig {
    std::string name;
    std::string template_name;     // never empty
    unsigned ready = 1;            // how many stand ready
    std::optional<unsigned> most;  // of all there are, the taken ones too; unset: no bound here
    std::string pattern;           // their names, with one %d
    bool running = false;          // they run while they stand; else they are left paused
    int line = 0;
};

struct Config {
    std::string socket_path = "/run/xenpack/xenpack.sock";
    std::string toolstack = "libxl";  // a plugin's name, or an absolute path to one
    // Free memory kept so that growth is granted at once; unset: as much as bursts were seen to
    // take.
    std::optional<SizeOrPercent> reserve;
    // Kept free for starts that do not ask, as a plain `xl create`: one of a small zone, whatever
    // the host's size. Starts that ask use it as well, and need not wait until zones have given.
    SizeOrPercent start_reserve{0, 1};
    std::uint64_t emergency_kib = 72 * 1024;  // of the free memory, given to zones in danger only
    std::uint64_t dom0_floor_kib = 512 * 1024;
    // What is asked of the free memory for each fork, before it is made.
    std::uint64_t fork_reserve_kib = 8 * 1024;
    ZoneConfig zone_defaults;           // section [zone]
    std::vector<ZoneSection> sections;  // sections [zone PATTERN], in the file's order
    std::vector<PoolConfig> pools;      // sections [pool NAME], in the file's order

    // The first section whose pattern matches, and no other, decides the values it sets; [zone]
    // those it does not set.
    [[nodiscard]] ZoneConfig zone(const std::string& name) const;
};

inline constexpr unsigned kDefaultWeight = 100;
inline constexpr unsigned kMinWeight = 1;
inline constexpr unsigned kMaxWeight = 10000;
inline constexpr unsigned kDefaultHeadroomPercent = 25;
inline constexpr unsigned kMostInPool = 4096;
inline constexpr unsigned kMostSelfForks = 256;
// Of a pool's name, and of its template's: a domain's that is a host's name too (Linux).
inline constexpr std::size_t kMaxNameBytes = 64;
// Of a pattern: what remains for the number that stands for its %d.
inline constexpr std::size_t kMaxPatternBytes = kMaxNameBytes - 8;
inline constexpr std::size_t kMaxSocketPathBytes = 107;  // sun_path of unix(7), less its NUL

// An error holds one line for every problem found: "FILE:LINE: what, why, what to do". Unknown
// sections, unknown keys, sections and keys given twice, sizes without a unit, a floor above its
// ceiling, and a section that can never apply are problems. The error's code is an errno value
// where the file could not be read, and 0 where its contents are refused.
[[nodiscard]] Expected<Config> load_config(const std::string& path);
[[nodiscard]] Expected<Config> parse_config(const std::string& text, const std::string& name);

// "512M", "1.5G", "65536K", "1T" -> KiB. A unit is required; parts of a KiB are dropped. At most
// kMaxSizeKib, which is far above what Xen can address and far below what 64 bits can hold.
inline constexpr std::uint64_t kMaxSizeKib = std::uint64_t{1} << 40;
[[nodiscard]] Expected<std::uint64_t> parse_size_kib(std::string_view text);

}  // namespace xenpack
