// SPDX-License-Identifier: LGPL-2.1-or-later
// Sampler: reads the kernel's files; what is in them is for memory_text.h and maps_text.h.
#include "watcher/record/sampler.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <string>

#include "watcher/files/whole_file.h"
#include "watcher/guest/proc_text.h"
#include "watcher/record/maps_text.h"
#include "watcher/record/memory_text.h"

namespace xenpack::record {
namespace {

namespace fs = std::filesystem;

// Of the time may be spent on looking at page tables: one part in so many.
constexpr std::int64_t kLookCostShare = 100;

// "" where the kernel does not have it.
std::string read_if_there(const std::string& path) {
    return read_file(path).value_or(std::string());
}

void add(Io& sum, const Io& more) {
    sum.asked_kib += more.asked_kib;
    sum.fetched_kib += more.fetched_kib;
    sum.dirtied_kib += more.dirtied_kib;
}

std::string of_process(const Place& place, int pid, std::string_view file) {
    return fmt::format("{}/{}/{}", place.proc, pid, file);
}

}  // namespace

Expected<Sample> Sampler::sample(std::int64_t at_ms) {
    Sample sample;
    sample.at_ms = at_ms;
    const auto memory_now = memory();
    if (!memory_now) {
        return tl::unexpected<Error>(memory_now.error());
    }
    sample.memory = *memory_now;
    sample.stalled_us = stalled_us();
    const std::vector<int> pids = processes();
    sample.io = io(pids);
    sample.look = look(pids, at_ms);
    return sample;
}

void Sampler::child_ended(int pid) {
    if (const auto text = read_file(of_process(place_, pid, "io"))) {
        if (const auto child = parse_io(*text)) {
            add(ended_, *child);
        }
    }
}

Expected<Memory> Sampler::memory() const {
    const std::string first =
        place_.machine ? place_.proc + "/meminfo" : place_.memory + "/memory.stat";
    const auto text = read_file(first);
    if (!text) {
        return tl::unexpected<Error>(text.error());
    }
    auto found = [&] {
        if (place_.machine) {
            return memory_of_machine(*text, read_if_there(place_.proc + "/vmstat"));
        }
        return place_.version == Version::v2
                   ? memory_of_cgroup2(*text, read_if_there(place_.memory + "/memory.swap.current"))
                   : memory_of_cgroup1(
                         *text, read_if_there(place_.memory + "/memory.kmem.usage_in_bytes"));
    }();
    if (!found) {
        return tl::unexpected<Error>(found.error().during(first));
    }
    return found;
}

std::optional<std::uint64_t> Sampler::stalled_us() const {
    const auto stalls = guest::parse_pressure(read_if_there(place_.pressure));
    return stalls ? std::optional(stalls->some_us) : std::nullopt;
}

std::vector<int> Sampler::processes() const {
    if (!place_.machine) {
        return processes_below(place_.memory);
    }
    std::vector<int> pids;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place_.proc, error)) {
        const std::string name = entry.path().filename().string();
        int pid = 0;
        const auto [stop, status] = std::from_chars(name.data(), name.data() + name.size(), pid);
        // What this process reads to know the others is not theirs.
        if (status == std::errc() && stop == name.data() + name.size() && pid != ::getpid()) {
            pids.push_back(pid);
        }
    }
    return pids;
}

// A process' io holds that of its children once it has waited for them, so the sum over all goes on
// growing when one ends.
Io Sampler::io(const std::vector<int>& pids) const {
    Io sum = ended_;
    for (const int pid : pids) {
        if (const auto text = read_file(of_process(place_, pid, "io"))) {
            if (const auto one = parse_io(*text)) {
                add(sum, *one);
            }
        }
    }
    return sum;
}

Touched Sampler::touched(const std::vector<int>& pids) const {
    MapsSum sum;
    for (const int pid : pids) {
        if (const auto text = read_file(of_process(place_, pid, "smaps"))) {
            // Cut short where the process ended in between.
            (void)sum.add(*text);
        }
    }
    return sum.total();
}

std::optional<Look> Sampler::look(const std::vector<int>& pids, std::int64_t at_ms) {
    if (cleared_ms_ < 0) {
        clear(pids, at_ms);
        return std::nullopt;
    }
    const bool last = at_ms - cleared_ms_ >= span_ms_;
    if (!sees_touched_ || (!last && (looked_short_ || at_ms - cleared_ms_ < kShortMs))) {
        return std::nullopt;
    }
    const auto begun = std::chrono::steady_clock::now();
    const Look found{cleared_ms_, last, touched(pids)};
    if (last) {
        clear(pids, at_ms);
    } else {
        looked_short_ = true;
    }
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begun);
    // Two looks in a span.
    span_ms_ = std::max(kSpanMs, 2 * took.count() * kLookCostShare);
    return found;
}

void Sampler::clear(const std::vector<int>& pids, std::int64_t at_ms) {
    for (const int pid : pids) {
        // "1": the bits of all pages.
        sees_touched_ = write_file(of_process(place_, pid, "clear_refs"), "1") || sees_touched_;
    }
    cleared_ms_ = at_ms;
    looked_short_ = false;
}

}  // namespace xenpack::record
