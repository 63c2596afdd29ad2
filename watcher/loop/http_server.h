// SPDX-License-Identifier: LGPL-2.1-or-later
// HttpServer: HTTP/1.1 on a listening socket, over evhttp. Control owns one.
// It must not know what the requests mean. While no client is connected it owns no timer, so that
// it never wakes an idle daemon.
//
// Limits. A request's head has at most 16 KiB and its body 64 KiB; a client that neither sends nor
// takes a byte for 10 s (Limits) is cut off, except while it listens or waits for an answer. When
// nearly all descriptors that the process may have are in use, accepting slows down to one client a
// second; those waiting stay in the kernel's queue, and everything else in the daemon goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "watcher/error.h"

namespace xenpack {

class Loop;

struct HttpRequest {
    std::string method;             // "GET", "POST", ...
    std::vector<std::string> path;  // segments, each percent-decoded; may hold any byte
    std::string body;               // at most kHttpBodyMaxBytes
    std::uint64_t id = 0;           // names the request while it is not answered; never used again
    int client_pid = 0;             // who connected; 0: not known (unix(7), SO_PEERCRED)
};

struct HttpResponse {
    int status = 200;
    std::string body;     // JSON; unused where `stream` or `later` is set
    bool stream = false;  // instead of a body: what broadcast() sends, until one side hangs up
    bool later = false;   // instead of an answer: HttpServer::answer() will be called with its id
};

inline constexpr std::size_t kHttpBodyMaxBytes = std::size_t{64} << 10;
inline constexpr std::size_t kHttpHeadMaxBytes = std::size_t{16} << 10;
inline constexpr std::size_t kHttpStreamBacklogBytes = std::size_t{1} << 20;
inline constexpr std::size_t kHttpMaxStreams = 32;   // one more is answered 503
inline constexpr std::size_t kHttpMaxWaiting = 256;  // one more is answered 503

class HttpServer {
  public:
    struct Limits {
        std::int64_t idle_ms = 10'000;  // see above
        // From this many in use accepting slows down; 0: all that the process may have as it is
        // now, but for some that the daemon keeps for its own work.
        int many_descriptors = 0;
    };

    // Called in the loop, once per whole request. What it throws is answered with status 500.
    using Handler = std::function<HttpResponse(const HttpRequest&)>;

    // `listening_fd` stays the caller's and must be open, listening and non-blocking while the
    // server lives. From now on the program ignores SIGPIPE.
    [[nodiscard]] static Expected<std::unique_ptr<HttpServer>> serve(Loop& loop, int listening_fd,
                                                                     Handler handler,
                                                                     Limits limits);
    [[nodiscard]] static Expected<std::unique_ptr<HttpServer>> serve(Loop& loop, int listening_fd,
                                                                     Handler handler) {
        return serve(loop, listening_fd, std::move(handler), Limits{});
    }
    ~HttpServer();  // hangs up on everybody
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;

    // Called in the loop when a client whose answer was to come later has hung up: it will get
    // none. Not called when the server ends, which hangs up on those that wait.
    using Gone = std::function<void(std::uint64_t id)>;
    void on_gone(Gone gone);

    // Gives the answer that was to come later. Nothing happens where the client has gone.
    void answer(std::uint64_t id, const HttpResponse& response);
    [[nodiscard]] std::size_t waiting() const;

    // Sends to every open stream. A stream for which over kHttpStreamBacklogBytes would wait is
    // cut off instead. Never calls back.
    void broadcast(std::string_view data);
    [[nodiscard]] std::size_t streams() const;

  private:
    struct Impl;
    explicit HttpServer(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace xenpack
