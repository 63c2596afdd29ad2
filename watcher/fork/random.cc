// SPDX-License-Identifier: LGPL-2.1-or-later
// getrandom(2), which gives up to 256 bytes whole.
#include "watcher/fork/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <vector>

namespace xenpack {
namespace {

Expected<std::vector<std::uint8_t>> random_bytes(std::size_t count) {
    std::vector<std::uint8_t> bytes(count);
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got != static_cast<ssize_t>(bytes.size())) {
        return fail_with(errno, "the kernel gives no random numbers: {}", std::strerror(errno));
    }
    return bytes;
}

}  // namespace

Expected<Uuid> random_uuid() {
    Uuid uuid{};
    return random_bytes(uuid.size()).map([&](const std::vector<std::uint8_t>& bytes) {
        std::copy(bytes.begin(), bytes.end(), uuid.begin());
        uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0fU) | 0x40U);
        uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3fU) | 0x80U);
        return uuid;
    });
}

Expected<std::string> random_hex(std::size_t count) {
    return random_bytes(count).map([](const std::vector<std::uint8_t>& bytes) {
        std::string text;
        for (const std::uint8_t byte : bytes) {
            fmt::format_to(std::back_inserter(text), "{:02x}", byte);
        }
        return text;
    });
}

}  // namespace xenpack
