// SPDX-License-Identifier: LGPL-2.1-or-later
// RequestPipe: many requests to xenstored in one go: they are sent together and their answers read
// afterwards, where libxenstore waits for each. A fork's nodes take some eighty. It speaks the wire
// protocol of xen/io/xs_wire.h over a connection of its own. Called by xenstore.cc; it does not
// know what the requests are for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watcher/error.h"

namespace xenpack {

class RequestPipe {
  public:
    // Takes the descriptor: a connected stream socket, blocking.
    explicit RequestPipe(int fd) : fd_(fd) {}
    ~RequestPipe();
    RequestPipe(const RequestPipe&) = delete;
    RequestPipe& operator=(const RequestPipe&) = delete;

    struct Request {
        std::uint32_t type;   // XS_WRITE, XS_SET_PERMS...
        std::string payload;  // as the protocol has it
    };

    // All of them in a transaction, or none. Error code EAGAIN: others have changed what they
    // touch, so it may be tried again; EPIPE: the connection is of no use any more; else what
    // xenstored has said to the first it refuses.
    Expected<void> transaction(std::span<const Request> requests);

  private:
    struct Answer {
        std::uint32_t type;
        std::string payload;
    };
    void put(const Request& request, std::uint32_t transaction);
    Expected<void> send_all();
    Expected<Answer> take();
    Expected<void> take_each(std::span<const Request> requests, Expected<void>& first);
    Expected<void> read_more();
    // Valid until the next call.
    Expected<std::string_view> next(std::size_t bytes);
    tl::unexpected<Error> lost(std::string_view doing) const;

    int fd_;
    std::string out_;
    std::string in_;  // answers; before taken_ they have been looked at
    std::size_t taken_ = 0;
    std::array<char, 4096> room_{};
    std::uint32_t last_id_ = 0;
    std::uint32_t answered_ = 0;
};

}  // namespace xenpack
