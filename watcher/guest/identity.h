// SPDX-License-Identifier: LGPL-2.1-or-later
// Identity: what makes a fork another machine than its template, in the kernel and on its disk:
// random numbers of its own, its name, its machine-id. Called by ForkSteps. It reads no xenstore
// and runs no hooks. Everything may be done twice.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "watcher/error.h"
#include "watcher/guest/fork_text.h"

namespace xenpack::guest {

// 32 secret bytes, wiped when they go.
struct Seed {
    std::array<std::uint8_t, kSeedBytes> bytes{};

    Seed() = default;
    Seed(const Seed&) = delete;
    Seed& operator=(const Seed&) = delete;
    ~Seed();
};

// Overwrites a secret text, in a way that the compiler keeps.
void wipe(std::string& text);

// As ioctl(2).
using Ioctl = int (*)(int fd, unsigned long request, void* argument);
int kernel_ioctl(int fd, unsigned long request, void* argument);

// Has the kernel's generator (random(4)) take up the seed and the generation, and use them from now
// on, on all processors: RNDADDENTROPY alone would only be heeded at the next of its own reseeds,
// up to minutes later. device: /dev/urandom.
[[nodiscard]] Expected<void> reseed(const std::string& device, const Seed& seed,
                                    std::string_view generation, Ioctl call);

// hostname(1) from now on. root: "" but in tests; so below.
[[nodiscard]] Expected<void> set_hostname(const std::string& root, const std::string& name);

// Replaces /etc/machine-id if there is one (machine-id(5)).
[[nodiscard]] Expected<void> set_machine_id(const std::string& root, std::string_view generation);

}  // namespace xenpack::guest
