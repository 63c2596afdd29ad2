// SPDX-License-Identifier: LGPL-2.1-or-later
// Draft: one run.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "tests/bench/peers/all.h"
#include "tests/bench/sets.h"
using namespace xenpack;
int main(int argc, char** argv) {
    auto sets = bench::generated_sets();
    sets.push_back(bench::mix_of(sets));
    for (const auto& set : sets) {
        if (argc > 1 && set.name != argv[1])
            continue;
        simulate::Setup setup;
        setup.host = bench::host_for(set, 12);
        setup.traces = set.traces;
        std::printf("%s host %lu MiB peak %lu\n", set.name.c_str(), setup.host.total_kib / 1024,
                    set.traces[0]->peak_kib() / 1024);
        for (const auto& c : bench::contenders()) {
            if (argc > 2 && c.name != argv[2])
                continue;
            const auto t0 = std::chrono::steady_clock::now();
            const auto cap = simulate::capacity(setup, c.make, 0.01, {1, 2}, 120);
            const auto t1 = std::chrono::steady_clock::now();
            setup.zones = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 18;
            setup.seed = 1;
            auto policy = c.make();
            const auto out = simulate::run(setup, *policy);
            const auto t2 = std::chrono::steady_clock::now();
            std::printf(
                "  %-12s cap %3u | %u: started %u refused %u lost %.3f%% kills %lu held %.0f ease "
                "%.0f changes %.2f grants %zu  [%ld ms, %ld ms]\n",
                std::string(c.name).c_str(), cap.zones, setup.zones, out.zones_started,
                out.zones_refused, 100 * out.stalled_share(), out.oom_kills,
                out.mean_held_kib / 1024, out.mean_ease_kib / 1024,
                double(out.target_changes) * 60000 / double(out.zone_ms),
                out.stall_to_grant_ms.size(),
                (long)std::chrono::duration_cast<std::chrono::milliseconds>(t1 - t0).count(),
                (long)std::chrono::duration_cast<std::chrono::milliseconds>(t2 - t1).count());
            std::fflush(stdout);
        }
    }
}
