// SPDX-License-Identifier: LGPL-2.1-or-later
// Messages are a header and a payload; xenstored answers a connection's requests in their order.
// Two waits for a whole transaction: one for its number, one for all the rest. What waits unread at
// either end stays far below a socket's buffer.
#include "watcher/store/request_pipe.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

extern "C" {
#include <xen/io/xs_wire.h>
}

namespace xenpack {
namespace {

// So many are sent before their answers are read.
constexpr std::size_t kTogether = 128;

// xenstored says an error by its name.
int code_of(std::string_view name) {
    for (const auto& known : xsd_errors) {
        if (name == known.errstring) {
            return known.errnum;
        }
    }
    return EIO;
}

}  // namespace

RequestPipe::~RequestPipe() {
    close(fd_);
}

tl::unexpected<Error> RequestPipe::lost(std::string_view doing) const {
    return fail_with(EPIPE, "xenstore: {}: {}", doing, std::strerror(errno));
}

void RequestPipe::put(const Request& request, std::uint32_t transaction) {
    const xsd_sockmsg header{request.type, ++last_id_, transaction,
                             static_cast<std::uint32_t>(request.payload.size())};
    out_.append(reinterpret_cast<const char*>(&header), sizeof header);
    out_ += request.payload;
}

Expected<void> RequestPipe::send_all() {
    std::string_view rest = out_;
    while (!rest.empty()) {
        const ssize_t sent = send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            return lost("sending requests");
        }
        rest.remove_prefix(sent > 0 ? static_cast<std::size_t>(sent) : 0);
    }
    out_.clear();
    return {};
}

// What has come of the answers, all at once.
Expected<void> RequestPipe::read_more() {
    for (;;) {
        const ssize_t got = recv(fd_, room_.data(), room_.size(), 0);
        if (got > 0) {
            in_.append(room_.data(), static_cast<std::size_t>(got));
            return {};
        }
        if (got < 0 && errno == EINTR) {
            continue;
        }
        errno = got == 0 ? ECONNRESET : errno;
        return lost("reading answers");
    }
}

Expected<std::string_view> RequestPipe::next(std::size_t bytes) {
    if (taken_ > 0 && in_.size() - taken_ < bytes) {
        in_.erase(0, std::exchange(taken_, 0));
    }
    while (in_.size() - taken_ < bytes) {
        if (auto ok = read_more(); !ok) {
            return tl::unexpected(ok.error());
        }
    }
    const std::string_view found = std::string_view(in_).substr(taken_, bytes);
    taken_ += bytes;
    return found;
}

Expected<RequestPipe::Answer> RequestPipe::take() {
    const auto head = next(sizeof(xsd_sockmsg));
    if (!head) {
        return tl::unexpected(head.error());
    }
    xsd_sockmsg header{};
    std::memcpy(&header, head->data(), sizeof header);
    if (header.len > XENSTORE_PAYLOAD_MAX || header.req_id != ++answered_) {
        return fail_with(EPIPE, "xenstore: an answer that is none to what was asked");
    }
    const auto payload = next(header.len);
    if (!payload) {
        return tl::unexpected(payload.error());
    }
    return Answer{header.type, std::string(payload->substr(0, payload->find('\0')))};
}

// All answers are read, whatever they say; `first` is what was said to the first refused.
Expected<void> RequestPipe::take_each(std::span<const Request> requests, Expected<void>& first) {
    for (const Request& request : requests) {
        const auto answer = take();
        if (!answer) {
            return tl::unexpected(answer.error());
        }
        if (answer->type == XS_ERROR && first) {
            first = fail_with(code_of(answer->payload), "xenstore: {}: {}", request.payload.c_str(),
                              answer->payload);
        }
    }
    return {};
}

Expected<void> RequestPipe::transaction(std::span<const Request> requests) {
    put({XS_TRANSACTION_START, std::string(1, '\0')}, 0);
    if (auto ok = send_all(); !ok) {
        return ok;
    }
    const auto started = take();
    if (!started) {
        return tl::unexpected(started.error());
    }
    std::uint32_t id = 0;
    const char* last = started->payload.data() + started->payload.size();
    if (started->type != XS_TRANSACTION_START ||
        std::from_chars(started->payload.data(), last, id).ptr != last) {
        return fail_with(code_of(started->payload), "xenstore: starting a transaction: {}",
                         started->payload);
    }
    Expected<void> result;
    while (!requests.empty() && result) {
        const auto some = requests.first(std::min(requests.size(), kTogether));
        requests = requests.subspan(some.size());
        std::for_each(some.begin(), some.end(), [&](const Request& each) { put(each, id); });
        if (auto ok = send_all().and_then([&] { return take_each(some, result); }); !ok) {
            return ok;
        }
    }
    const Request end{XS_TRANSACTION_END, std::string(result ? "T" : "F") + '\0'};
    put(end, id);
    if (auto ok = send_all().and_then([&] { return take_each({&end, 1}, result); }); !ok) {
        return ok;
    }
    return result;
}

}  // namespace xenpack
