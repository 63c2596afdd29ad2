// SPDX-License-Identifier: LGPL-2.1-or-later
// StoreLink: one request at a time on xenstore's wire, with bounds. ForkAgent's thread calls it.
#include "watcher/guest/store_link.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

extern "C" {
#include <xen/io/xs_wire.h>
}

namespace xenpack::guest {
namespace {

std::uint64_t monotonic_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

// The daemon's own word for "there is no such node".
bool says_absent(const Error& error) {
    return error.code == ENOENT;
}

}  // namespace

StoreLink::StoreLink(Fd fd, std::uint64_t answer_ms) : fd_(std::move(fd)), answer_ms_(answer_ms) {}

Expected<Fd> StoreLink::open_device() {
    int code = ENOENT;
    for (const char* const path : {"/dev/xen/xenbus", "/proc/xen/xenbus"}) {
        // Not blocking: also a reading that poll(2) was wrong about comes back.
        Fd fd(::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
        if (fd) {
            return fd;
        }
        code = errno == ENOENT ? code : errno;
    }
    return fail_with(code, "cannot watch xenstore: /dev/xen/xenbus: {}", std::strerror(code));
}

Expected<std::optional<std::string>> StoreLink::read(const std::string& path) {
    auto value = ask(XS_READ, path, {});
    if (value) {
        return std::optional(std::move(*value));
    }
    if (says_absent(value.error())) {
        return std::nullopt;
    }
    return tl::unexpected(value.error());
}

Expected<void> StoreLink::write(const std::string& path, std::string_view value) {
    const auto answer = ask(XS_WRITE, path, value);
    return answer ? Expected<void>() : tl::unexpected(answer.error());
}

Expected<void> StoreLink::watch(const std::string& path) {
    constexpr std::string_view kToken("fork\0", 5);
    const auto answer = ask(XS_WATCH, path, kToken);
    return answer ? Expected<void>() : tl::unexpected(answer.error());
}

Expected<void> StoreLink::take_events() {
    for (;;) {
        pollfd ready{fd_.get(), POLLIN, 0};
        if (::poll(&ready, 1, 0) <= 0) {
            return {};
        }
        const auto event = receive(monotonic_ms() + answer_ms_);
        if (!event) {
            return tl::unexpected(event.error());
        }
        if (event->type != XS_WATCH_EVENT) {
            return fail("xenstore answered what it was not asked");
        }
    }
}

Expected<std::string> StoreLink::ask(std::uint32_t type, const std::string& path,
                                     std::string_view rest) {
    xsd_sockmsg head{};
    head.type = type;
    head.len = static_cast<std::uint32_t>(path.size() + 1 + rest.size());
    std::string packet(reinterpret_cast<const char*>(&head), sizeof head);
    packet.append(path).append(1, '\0').append(rest);
    const ssize_t sent = ::write(fd_.get(), packet.data(), packet.size());
    if (sent != static_cast<ssize_t>(packet.size())) {
        // ENOENT is for the daemon to say.
        const int code = sent < 0 && errno != ENOENT ? errno : EIO;
        return fail_with(code, "cannot ask xenstore for {}: {}", path, std::strerror(code));
    }
    const std::uint64_t deadline_ms = monotonic_ms() + answer_ms_;
    for (;;) {
        // The request's number is not looked at: Linux answers XS_WATCH by itself, with 0.
        auto answer = receive(deadline_ms);
        if (!answer) {
            return tl::unexpected(answer.error().during(path));
        }
        if (answer->type == type) {
            return std::move(answer->body);
        }
        if (answer->type == XS_ERROR) {
            const bool absent = std::strcmp(answer->body.c_str(), "ENOENT") == 0;
            return fail_with(absent ? ENOENT : EPROTO, "{}: xenstore says {}", path,
                             answer->body.c_str());
        }
        if (answer->type != XS_WATCH_EVENT) {
            return fail("{}: xenstore answered something else", path);
        }
    }
}

Expected<StoreLink::Answer> StoreLink::receive(std::uint64_t deadline_ms) {
    xsd_sockmsg head{};
    const auto got_head = receive_bytes(&head, sizeof head, deadline_ms);
    if (!got_head) {
        return tl::unexpected(got_head.error());
    }
    // The protocol's bound is of what is sent; a watch's event may be two paths long.
    if (head.len > XENSTORE_PAYLOAD_MAX) {
        return fail("xenstore sent a message of {} bytes", head.len);
    }
    Answer answer{head.type, std::string(head.len, '\0')};
    const auto got_body = receive_bytes(answer.body.data(), answer.body.size(), deadline_ms);
    if (!got_body) {
        return tl::unexpected(got_body.error());
    }
    return answer;
}

Expected<void> StoreLink::receive_bytes(void* to, std::size_t size, std::uint64_t deadline_ms) {
    std::size_t have = 0;
    while (have < size) {
        auto ready = wait_readable(deadline_ms);
        if (!ready) {
            return ready;
        }
        const ssize_t n = ::read(fd_.get(), static_cast<char*>(to) + have, size - have);
        if (n == 0) {
            return fail_with(EPIPE, "xenstore has closed the connection");
        }
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            const int code = errno == ENOENT ? EIO : errno;
            return fail_with(code, "cannot hear xenstore: {}", std::strerror(code));
        }
        have += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    return {};
}

Expected<void> StoreLink::wait_readable(std::uint64_t deadline_ms) const {
    for (;;) {
        // In a fork the clock has gone on while its template was sealed: what has come since it was
        // last looked at counts, however late that is.
        const std::uint64_t now_ms = monotonic_ms();
        const std::uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
        pollfd ready{fd_.get(), POLLIN, 0};
        if (::poll(&ready, 1, static_cast<int>(left_ms)) > 0) {
            return {};
        }
        if (left_ms == 0) {
            return fail_with(ETIMEDOUT, "xenstore did not answer within {} ms", answer_ms_);
        }
    }
}

}  // namespace xenpack::guest
