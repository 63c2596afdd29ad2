// SPDX-License-Identifier: LGPL-2.1-or-later
// One function for each generator, which takes the keys that it has a use for; the rest is refused
// as unknown by whoever owns the section.
#include "plugin/sim/workload.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "plugin/sim/generate.h"

namespace xenpack::sim {

namespace {

constexpr std::size_t kMostTraceBytes = std::size_t{64} << 20;
constexpr std::uint64_t kMostKib = std::uint64_t{1} << 36;  // 64 TiB
constexpr std::int64_t kMostMs = 24 * 3'600'000;            // a day: a trace is made whole
constexpr std::uint64_t kMostSeed = ~std::uint64_t{0} >> 1;

// `base` and `cache`, as all generators have them: half of what is held is in use.
void base_demand(Keys& keys, Demand& base) {
    keys.size("base", base.anon_kib, 0, kMostKib);
    keys.size("cache", base.cache_kib, 0, kMostKib);
    base.active_kib = base.anon_kib / 2;
    base.read_kib_per_s = base.cache_kib / 4;
}

// `peak` is all that is held at the top; generators count from the base.
std::uint64_t above_base(Keys& keys, std::uint64_t base_kib, std::uint64_t default_kib) {
    std::uint64_t peak_kib = base_kib + default_kib;
    keys.size("peak", peak_kib, 0, kMostKib);
    if (peak_kib < base_kib) {
        keys.refuse("peak", "peak is under base");
        return 0;
    }
    return peak_kib - base_kib;
}

template <class Shape>
Workload seeded(Shape shape, Trace (*make)(const Shape&)) {
    return [shape, make](unsigned n) {
        Shape own = shape;
        own.seed += n;
        return std::make_shared<const Trace>(make(own));
    };
}

Workload read_bursts(Keys& keys) {
    Bursts shape;
    keys.number("seed", shape.seed, 0, kMostSeed);
    keys.duration("length", shape.length_ms, 1'000, kMostMs);
    base_demand(keys, shape.base);
    shape.burst_kib = above_base(keys, shape.base.anon_kib, shape.burst_kib);
    keys.size("rate", shape.rate_kib_per_s, 1024, kMostKib);
    keys.duration("hold", shape.hold_ms, 0, kMostMs);
    keys.duration("period", shape.gap_ms, 1'000, kMostMs);
    return seeded<Bursts>(shape, &bursts);
}

Workload read_day(Keys& keys) {
    Day shape;
    keys.number("seed", shape.seed, 0, kMostSeed);
    keys.duration("length", shape.length_ms, 1'000, kMostMs);
    base_demand(keys, shape.night);
    shape.noon.anon_kib =
        shape.night.anon_kib + above_base(keys, shape.night.anon_kib, shape.noon.anon_kib);
    shape.noon.active_kib = shape.noon.anon_kib / 2;
    return seeded<Day>(shape, &day);
}

Workload read_idle(Keys& keys) {
    Idle shape;
    keys.number("seed", shape.seed, 0, kMostSeed);
    keys.duration("length", shape.length_ms, 1'000, kMostMs);
    base_demand(keys, shape.base);
    shape.job_kib = above_base(keys, shape.base.anon_kib, shape.job_kib);
    keys.duration("hold", shape.job_ms, 0, kMostMs);
    keys.duration("period", shape.period_ms, 1'000, kMostMs);
    return seeded<Idle>(shape, &idle);
}

Workload read_ramp(Keys& keys) {
    Ramp shape;
    keys.duration("length", shape.length_ms, 1'000, kMostMs);
    base_demand(keys, shape.from);
    shape.to = shape.from;
    shape.to.anon_kib += above_base(keys, shape.from.anon_kib, 500 * 1024);
    shape.to.active_kib = shape.to.anon_kib / 2;
    keys.duration("rise-from", shape.begin_ms, 0, kMostMs);
    keys.duration("rise-to", shape.end_ms, 0, kMostMs);
    if (shape.begin_ms >= shape.end_ms || shape.end_ms >= shape.length_ms) {
        keys.refuse("rise-to", "a ramp needs rise-from before rise-to, and rise-to before length");
    }
    return [trace = std::make_shared<const Trace>(ramp(shape))](unsigned) { return trace; };
}

Workload read_sawtooth(Keys& keys) {
    Sawtooth shape;
    keys.number("seed", shape.seed, 0, kMostSeed);
    keys.duration("length", shape.length_ms, 1'000, kMostMs);
    keys.size("base", shape.live_kib, 0, kMostKib);
    keys.size("cache", shape.cache_kib, 0, kMostKib);
    shape.heap_kib = shape.live_kib + above_base(keys, shape.live_kib, shape.heap_kib);
    keys.size("rate", shape.rate_kib_per_s, 1024, kMostKib);
    keys.duration("hold", shape.collect_ms, 200, kMostMs);
    return seeded<Sawtooth>(shape, &sawtooth);
}

Workload read_training(Keys& keys) {
    Training shape;
    keys.number("seed", shape.seed, 0, kMostSeed);
    keys.number("epochs", shape.epochs, 1, 1'000);
    keys.duration("period", shape.epoch_ms, 1'000, kMostMs / 1'000);
    keys.duration("checkpoint", shape.checkpoint_ms, 0, kMostMs / 1'000);
    keys.size("base", shape.main_kib, 0, kMostKib);
    keys.number("workers", shape.workers, 0, 200);
    keys.size("worker", shape.worker_kib, 0, kMostKib);
    keys.duration("hold", shape.worker_ms, 0, kMostMs);
    keys.size("stream", shape.data_kib_per_s, 0, kMostKib);
    return seeded<Training>(shape, &training);
}

struct Generator {
    std::string_view name;
    Workload (*read)(Keys&);
};
constexpr std::array<Generator, 6> kGenerators{{{"bursts", &read_bursts},
                                                {"day", &read_day},
                                                {"idle", &read_idle},
                                                {"ramp", &read_ramp},
                                                {"sawtooth", &read_sawtooth},
                                                {"training", &read_training}}};

struct FileCloser {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
};

}  // namespace

Expected<std::string> read_file(const std::filesystem::path& path, std::size_t most_bytes) {
    const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
    if (!file) {
        return fail_with(errno, "cannot read {}: {}", path.string(), std::strerror(errno));
    }
    std::string text;
    std::array<char, 65536> part{};
    for (;;) {
        const std::size_t got = std::fread(part.data(), 1, part.size(), file.get());
        if (got == 0) {
            break;
        }
        text.append(part.data(), got);
        if (text.size() > most_bytes) {
            return fail_with(EFBIG, "{} has more than {} bytes", path.string(), most_bytes);
        }
    }
    if (std::ferror(file.get()) != 0) {
        return fail_with(errno, "cannot read {}: {}", path.string(), std::strerror(errno));
    }
    return text;
}

Workload Workloads::read(Keys& keys) {
    std::array<std::string_view, kGenerators.size()> names{};
    for (std::size_t i = 0; i < names.size(); ++i) {
        names[i] = kGenerators[i].name;
    }
    const auto file = keys.text("trace");
    const auto generator = keys.word("generate", names);
    if (keys.has_problem()) {
        return {};
    }
    if (file.has_value() == generator.has_value()) {
        keys.refuse("generate",
                    fmt::format("a zone has either trace = FILE or generate = one of {}",
                                fmt::join(names, ", ")));
        return {};
    }
    return file ? from_file(keys, *file) : kGenerators[*generator].read(keys);
}

Workload Workloads::from_file(Keys& keys, const std::string& name) {
    SharedTrace& trace = files_[name];
    if (!trace) {
        const auto text = read_file(folder_ / name, kMostTraceBytes);
        auto parsed =
            text ? parse_trace(*text, name) : Expected<Trace>(tl::unexpected(text.error()));
        if (!parsed) {
            keys.refuse("trace", fmt::format("the trace {}: {}", name, parsed.error().what));
            return {};
        }
        trace = std::make_shared<const Trace>(std::move(*parsed));
    }
    return [trace](unsigned) { return trace; };
}

}  // namespace xenpack::sim
