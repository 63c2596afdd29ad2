// SPDX-License-Identifier: LGPL-2.1-or-later
// Identity: the system calls of identity.h. ForkSteps says when, and with what.
#include "watcher/guest/identity.h"

#include <fcntl.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "watcher/files/whole_file.h"
#include "watcher/guest/fd.h"

namespace xenpack::guest {
namespace {

constexpr std::size_t kGenerationBytes = 36;
constexpr int kBitsPerByte = 8;

// What RNDADDENTROPY takes, struct rand_pool_info with its bytes. Wiped when it goes.
struct PoolInput {
    // Only the seed is counted as unknown to others.
    int entropy_bits = static_cast<int>(kSeedBytes) * kBitsPerByte;
    int size_bytes = static_cast<int>(kSeedBytes + kGenerationBytes);
    std::array<std::uint8_t, kSeedBytes + kGenerationBytes> bytes{};

    PoolInput() = default;
    PoolInput(const PoolInput&) = delete;
    PoolInput& operator=(const PoolInput&) = delete;
    ~PoolInput() { ::explicit_bzero(bytes.data(), bytes.size()); }
};
static_assert(sizeof(rand_pool_info) == 2 * sizeof(int));

}  // namespace

Seed::~Seed() {
    ::explicit_bzero(bytes.data(), bytes.size());
}

void wipe(std::string& text) {
    ::explicit_bzero(text.data(), text.size());
    text.clear();
}

int kernel_ioctl(int fd, unsigned long request, void* argument) {
    return ::ioctl(fd, request, argument);
}

Expected<void> reseed(const std::string& device, const Seed& seed, std::string_view generation,
                      Ioctl call) {
    if (generation.size() != kGenerationBytes) {
        return fail("{} is no generation to seed random numbers with", generation);
    }
    const Fd fd(::open(device.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) {
        const int code = errno;
        return fail_with(code, "cannot open {} to give it a seed: {}", device, std::strerror(code));
    }
    PoolInput input;
    const auto rest = std::copy(seed.bytes.begin(), seed.bytes.end(), input.bytes.begin());
    std::copy(generation.begin(), generation.end(), rest);
    if (call(fd.get(), RNDADDENTROPY, &input) != 0) {
        const int code = errno;
        return fail_with(code, "{} does not take a seed: {}", device, std::strerror(code));
    }
    if (call(fd.get(), RNDRESEEDCRNG, nullptr) != 0) {
        const int code = errno;
        return fail_with(code, "{} does not use its new seed: {}", device, std::strerror(code));
    }
    return {};
}

Expected<void> set_hostname(const std::string& root, const std::string& name) {
    auto set = write_file(root + "/proc/sys/kernel/hostname", name);
    return set ? set : tl::unexpected(set.error().during("setting the host's name"));
}

Expected<void> set_machine_id(const std::string& root, std::string_view generation) {
    const std::string path = root + "/etc/machine-id";
    if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
        return {};
    }
    const std::string text = machine_id_of(generation);
    if (const auto now = read_file(path); now && *now == text) {
        return {};
    }
    auto replaced = replace_file(path, text, Readers::as_usual);
    if (!replaced) {
        return tl::unexpected(replaced.error().during("giving this fork a machine-id"));
    }
    constexpr mode_t kForAll = 0444;
    if (::chmod(path.c_str(), kForAll) != 0) {
        const int code = errno;
        return fail_with(code, "cannot make {} readable: {}", path, std::strerror(code));
    }
    return {};
}

}  // namespace xenpack::guest
