// SPDX-License-Identifier: LGPL-2.1-or-later
// Bounds and forms. Pure.
#include "watcher/fork/asked.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "watcher/fork/names.h"
#include "watcher/fork/progress.h"
#include "watcher/guest/fork_text.h"

namespace xenpack {
namespace {

bool is_of(int family, const std::string& host) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    return host.find('\0') == std::string::npos &&
           inet_pton(family, host.c_str(), bytes.data()) == 1;
}

bool is_prefix(std::string_view text, unsigned most) {
    unsigned bits = 0;
    const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), bits);
    return error == std::errc() && stopped == text.data() + text.size() && bits <= most;
}

bool is_one_address(std::string_view text) {
    const std::size_t slash = text.find('/');
    const std::string host(text.substr(0, slash));
    const bool is_4 = is_of(AF_INET, host);
    return (is_4 || is_of(AF_INET6, host)) &&
           (slash == std::string_view::npos || is_prefix(text.substr(slash + 1), is_4 ? 32 : 128));
}

bool are_addresses(std::string_view text) {
    const std::size_t blank = text.find(' ');
    return is_one_address(text.substr(0, blank)) &&
           (blank == std::string_view::npos || are_addresses(text.substr(blank + 1)));
}

}  // namespace

Expected<void> check_timeout(std::int64_t timeout_ms) {
    if (timeout_ms < kAnswerLeastMs || timeout_ms > kAnswerMostMs) {
        return fail_with(EINVAL, "a timeout of {} is not between {} and {}", show_ms(timeout_ms),
                         show_ms(kAnswerLeastMs), show_ms(kAnswerMostMs));
    }
    return {};
}

Expected<void> check_address(const std::string& address) {
    if (address.size() > guest::kAddressMaxBytes) {
        return fail_with(EINVAL, "an address is at most {} characters", guest::kAddressMaxBytes);
    }
    if (!address.empty() && !are_addresses(address)) {
        return fail_with(EINVAL,
                         "{} is no address: write one as in 10.0.0.7/24 or fd00::7/64, and a blank "
                         "between two",
                         quoted(address));
    }
    return {};
}

}  // namespace xenpack
