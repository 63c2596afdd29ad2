// SPDX-License-Identifier: LGPL-2.1-or-later
// Names of figures: Linux' Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and
// filesystems/proc.rst. Pure.
#include "watcher/record/memory_text.h"

#include <algorithm>
#include <array>

#include "watcher/guest/proc_text.h"

namespace xenpack::record {
namespace {

constexpr std::uint64_t kBytes = 1024;  // in a KiB
constexpr std::uint64_t kPageKib = 4;

std::uint64_t less(std::uint64_t from, std::uint64_t what) {
    return from - std::min(from, what);
}

// Numbers out of one file, remembering the first that was not there.
class Figures {
  public:
    explicit Figures(std::string_view text) : text_(text) {}

    std::uint64_t need(std::string_view name) {
        const auto number = guest::number_of(text_, name);
        if (!number && missing_.empty()) {
            missing_ = name;
        }
        return number.value_or(0);
    }
    [[nodiscard]] std::uint64_t may(std::string_view name) const {
        return guest::number_of(text_, name).value_or(0);
    }
    [[nodiscard]] bool has(std::string_view name) const {
        return guest::number_of(text_, name).has_value();
    }
    [[nodiscard]] Expected<Memory> result(const Memory& memory, std::string_view file) const {
        if (!missing_.empty()) {
            return fail("{} has no number \"{}\"", file, missing_);
        }
        return memory;
    }

  private:
    std::string_view text_;
    std::string_view missing_;
};

// Linux 5.9 split the refaults in two; only those of files are of interest.
std::uint64_t refaulted_pages(const Figures& figures, std::string_view split,
                              std::string_view whole) {
    return figures.has(split) ? figures.may(split) : figures.may(whole);
}

Expected<std::uint64_t> single(std::string_view text, std::string_view file) {
    if (text.empty()) {
        return 0;
    }
    const auto number = guest::parse_single(text);
    if (!number) {
        return fail("{} is not a number", file);
    }
    return *number;
}

}  // namespace

Expected<Memory> memory_of_cgroup2(std::string_view stat, std::string_view swap) {
    const auto swapped = single(swap, "memory.swap.current");
    if (!swapped) {
        return tl::unexpected<Error>(swapped.error());
    }
    Figures figures(stat);
    const std::uint64_t shmem = figures.need("shmem");
    std::uint64_t kernel = 0;
    if (figures.has("kernel")) {
        kernel = less(figures.need("kernel"), figures.need("slab_reclaimable"));
    } else {
        kernel = figures.need("slab_unreclaimable") + figures.need("kernel_stack") +
                 figures.may("pagetables") + figures.may("percpu");
    }
    Memory memory;
    memory.anon_kib = (figures.need("anon") + shmem + *swapped) / kBytes;
    memory.kernel_kib = (kernel + figures.may("sock")) / kBytes;
    memory.file_kib = less(figures.need("file"), shmem) / kBytes;
    memory.active_file_kib = figures.need("active_file") / kBytes;
    memory.refaulted_kib =
        refaulted_pages(figures, "workingset_refault_file", "workingset_refault") * kPageKib;
    return figures.result(memory, "memory.stat");
}

Expected<Memory> memory_of_cgroup1(std::string_view stat, std::string_view kernel) {
    const auto own = single(kernel, "memory.kmem.usage_in_bytes");
    if (!own) {
        return tl::unexpected<Error>(own.error());
    }
    Figures figures(stat);
    const std::uint64_t shmem = figures.need("total_shmem");
    Memory memory;
    memory.anon_kib = (figures.need("total_rss") + shmem + figures.may("total_swap")) / kBytes;
    memory.kernel_kib = *own / kBytes;
    memory.file_kib = less(figures.need("total_cache"), shmem) / kBytes;
    memory.active_file_kib = figures.need("total_active_file") / kBytes;
    memory.refaulted_kib =
        refaulted_pages(figures, "total_workingset_refault_file", "total_workingset_refault") *
        kPageKib;
    return figures.result(memory, "memory.stat");
}

Expected<Memory> memory_of_machine(std::string_view meminfo, std::string_view vmstat) {
    Figures figures(meminfo);
    const std::uint64_t in_memory = figures.need("AnonPages:") + figures.need("Shmem:");
    const std::uint64_t swapped =
        less(less(figures.may("SwapTotal:"), figures.may("SwapFree:")), figures.may("SwapCached:"));
    Memory memory;
    memory.anon_kib = in_memory + swapped;
    memory.active_file_kib = figures.need("Active(file):");
    memory.file_kib = memory.active_file_kib + figures.need("Inactive(file):");
    const std::uint64_t known =
        figures.need("MemFree:") + memory.file_kib + figures.need("SReclaimable:") + in_memory;
    memory.kernel_kib = less(figures.need("MemTotal:"), known);
    memory.refaulted_kib =
        refaulted_pages(Figures(vmstat), "workingset_refault_file", "workingset_refault") *
        kPageKib;
    return figures.result(memory, "meminfo");
}

Expected<Io> parse_io(std::string_view text) {
    constexpr std::array<std::string_view, 3> kNames = {"rchar:", "read_bytes:", "write_bytes:"};
    std::array<std::uint64_t, kNames.size()> bytes{};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        const auto number = guest::number_of(text, kNames[i]);
        if (!number) {
            return fail("io has no number \"{}\"", kNames[i]);
        }
        bytes[i] = *number;
    }
    return Io{bytes[0] / kBytes, bytes[1] / kBytes, bytes[2] / kBytes};
}

}  // namespace xenpack::record
