// SPDX-License-Identifier: LGPL-2.1-or-later
// What machine.h promises; called by the workload for its commands about disk and identity.
#include "tests/lab/guest/machine.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

namespace xenpack::lab {
namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr const char* kDisk = "/dev/xvda";

struct alignas(kBlockBytes) Block {
    std::array<char, kBlockBytes> bytes;
};

class Fd {
  public:
    explicit Fd(int fd) : fd_(fd) {}
    ~Fd() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Fd(const Fd&) = delete;
    Fd& operator=(const Fd&) = delete;
    [[nodiscard]] int get() const { return fd_; }

  private:
    int fd_;
};

std::string first_line(const char* path) {
    std::string line;
    std::ifstream file(path);
    return std::getline(file, line) && !line.empty() ? line : "-";
}

std::string random_hex() {
    std::array<unsigned char, 16> bytes{};
    if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        return "-";
    }
    std::string text;
    for (const unsigned char byte : bytes) {
        std::array<char, 3> hex{};
        std::snprintf(hex.data(), hex.size(), "%02x", byte);
        text += hex.data();
    }
    return text;
}

std::string hostname() {
    utsname names{};
    return uname(&names) == 0 && names.nodename[0] != '\0' ? names.nodename : "-";
}

std::string address() {
    const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "eth0");
    if (ioctl(fd.get(), SIOCGIFADDR, &request) != 0) {
        return "-";
    }
    sockaddr_in found{};
    std::memcpy(&found, &request.ifr_addr, sizeof found);
    std::array<char, INET_ADDRSTRLEN> text{};
    return inet_ntop(AF_INET, &found.sin_addr, text.data(), text.size()) != nullptr ? text.data()
                                                                                    : "-";
}

// "COMMAND FAILED block=N: REASON"
std::string failed(const char* command, std::uint64_t block, int error) {
    return std::string(command) + " FAILED block=" + std::to_string(block) + ": " +
           std::strerror(error);
}

}  // namespace

std::string who() {
    return "who ok name=" + hostname() + " random=" + random_hex() +
           " machine=" + first_line("/etc/machine-id") +
           " mac=" + first_line("/sys/class/net/eth0/address") + " address=" + address() +
           " generation=" + first_line("/run/generation");
}

std::string disk_write(std::uint64_t block, std::string_view tag) {
    const auto filled = std::make_unique<Block>();
    const std::string word = std::string(tag) + " ";
    for (std::size_t i = 0; i < kBlockBytes; ++i) {
        filled->bytes[i] = word[i % word.size()];
    }
    const Fd fd(open(kDisk, O_WRONLY | O_DIRECT | O_SYNC | O_CLOEXEC));
    const auto at = static_cast<off_t>(block * kBlockBytes);
    if (pwrite(fd.get(), filled->bytes.data(), kBlockBytes, at) !=
        static_cast<ssize_t>(kBlockBytes)) {
        return failed("disk-write", block, errno);
    }
    return "disk-write ok block=" + std::to_string(block);
}

std::string disk_read(std::uint64_t block) {
    const auto found = std::make_unique<Block>();
    const Fd fd(open(kDisk, O_RDONLY | O_DIRECT | O_CLOEXEC));
    const auto at = static_cast<off_t>(block * kBlockBytes);
    if (pread(fd.get(), found->bytes.data(), kBlockBytes, at) !=
        static_cast<ssize_t>(kBlockBytes)) {
        return failed("disk-read", block, errno);
    }
    const std::string_view text(found->bytes.data(), 64);
    const std::string_view tag = text.substr(0, text.find_first_of(std::string_view(" \0\n", 3)));
    return "disk-read ok block=" + std::to_string(block) + " tag=" + std::string(tag);
}

}  // namespace xenpack::lab
