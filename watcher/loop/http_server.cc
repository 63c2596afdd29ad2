// SPDX-License-Identifier: LGPL-2.1-or-later
// evhttp behind HttpServer. Callbacks stand in the order in which they fire. Nothing here may
// throw through libevent's C frames, and nothing may hold a connection that evhttp has freed.
#include "watcher/loop/http_server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <limits>
#include <utility>

#include "watcher/loop/loop.h"

namespace xenpack {

namespace {

constexpr std::int64_t kPauseMs = 1000;
// For the daemon's own work: logs, files that it replaces, owners of reservations.
constexpr rlim_t kOwnDescriptors = 64;

int many_descriptors() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        limit.rlim_cur = 1024;
    }
    const rlim_t clients = std::max(limit.rlim_cur / 2, limit.rlim_cur - kOwnDescriptors);
    return static_cast<int>(std::min<rlim_t>(clients, std::numeric_limits<int>::max()));
}

struct HttpDeleter {
    void operator()(evhttp* http) const noexcept { evhttp_free(http); }
};

struct ListenerDeleter {
    void operator()(evconnlistener* listener) const noexcept { evconnlistener_free(listener); }
};

struct BufferDeleter {
    void operator()(evbuffer* buffer) const noexcept { evbuffer_free(buffer); }
};

struct FreeDeleter {
    // evhttp gives away what it got from malloc.
    void operator()(char* memory) const noexcept {
        std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc)
    }
};

using BufferPtr = std::unique_ptr<evbuffer, BufferDeleter>;

const char* method_of(evhttp_request* request) {
    switch (evhttp_request_get_command(request)) {
        case EVHTTP_REQ_GET:
            return "GET";
        case EVHTTP_REQ_POST:
            return "POST";
        case EVHTTP_REQ_HEAD:
            return "HEAD";
        case EVHTTP_REQ_PUT:
            return "PUT";
        case EVHTTP_REQ_DELETE:
            return "DELETE";
        case EVHTTP_REQ_OPTIONS:
            return "OPTIONS";
        case EVHTTP_REQ_TRACE:
            return "TRACE";
        case EVHTTP_REQ_CONNECT:
            return "CONNECT";
        case EVHTTP_REQ_PATCH:
            return "PATCH";
    }
    return "";
}

std::vector<std::string> segments_of(evhttp_request* request) {
    std::vector<std::string> segments;
    const evhttp_uri* uri = evhttp_request_get_evhttp_uri(request);
    const char* raw = uri == nullptr ? nullptr : evhttp_uri_get_path(uri);
    std::string_view rest = raw == nullptr ? "" : raw;
    while (rest.starts_with('/')) {
        rest.remove_prefix(1);
        const std::string encoded(rest.substr(0, rest.find('/')));
        rest.remove_prefix(encoded.size());
        std::size_t size = 0;
        const std::unique_ptr<char, FreeDeleter> decoded(
            evhttp_uridecode(encoded.c_str(), 0, &size));
        segments.emplace_back(decoded ? std::string(decoded.get(), size) : encoded);
    }
    return segments;
}

std::string body_of(evhttp_request* request) {
    evbuffer* input = evhttp_request_get_input_buffer(request);
    std::string body(evbuffer_get_length(input), '\0');
    evbuffer_copyout(input, body.data(), body.size());
    return body;
}

void add_headers(evhttp_request* request, const char* type) {
    evkeyvalq* headers = evhttp_request_get_output_headers(request);
    evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "Cache-Control", "no-store");
}

int client_pid(evhttp_request* request) {
    bufferevent* buffers =
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool known =
        getsockopt(bufferevent_getfd(buffers), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    return known ? peer.pid : 0;
}

// Throws only before the reply has begun.
void send_reply(evhttp_request* request, const HttpResponse& response) {
    const BufferPtr buffer(evbuffer_new());
    if (!buffer || evbuffer_add(buffer.get(), response.body.data(), response.body.size()) != 0) {
        throw std::bad_alloc();
    }
    add_headers(request, "application/json");
    evhttp_send_reply(request, response.status, nullptr, buffer.get());
}

void send_error(evhttp_request* request, int status, const char* sentence) {
    const BufferPtr buffer(evbuffer_new());
    add_headers(request, "application/json");
    if (buffer) {
        evbuffer_add_printf(buffer.get(), "{\"error\":\"%s\"}\n", sentence);
    }
    evhttp_send_reply(request, status, nullptr, buffer.get());
}

}  // namespace

struct HttpServer::Impl {
    // An open stream, or a client that waits for its answer. evhttp owns request and connection
    // until the connection's end, of which on_hang_up tells.
    struct Stream {
        Impl* server;
        evhttp_request* request;
        evhttp_connection* connection;
        std::uint64_t id;
    };
    using Streams = std::vector<std::unique_ptr<Stream>>;

    Impl(Loop& loop, Handler on_request)
        : handler(std::move(on_request)), resume(loop.make_timer([this] { accept_again(); })) {
        alive.push_back(this);
    }
    ~Impl() {
        std::erase(alive, this);
        hang_up();
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    bool start(Loop& loop, int listening_fd, const Limits& limits);
    void pause();
    void accept_again();
    void answer(evhttp_request* request);
    Stream& keep(Streams& list, evhttp_request* request, std::uint64_t id);
    void open_stream(evhttp_request* request);
    void let_wait(evhttp_request* request, std::uint64_t id);
    void answer_later(std::uint64_t id, const HttpResponse& response);
    void cut_off(Stream& stream);
    void hang_up();

    static bufferevent* on_accepted(event_base* base, void* self) noexcept;
    static void on_accept_failed(evconnlistener* failed, void* evhttps_own) noexcept;
    static void on_request(evhttp_request* request, void* self) noexcept;
    static void on_unwanted(bufferevent* buffers, void* evhttps_own) noexcept;
    static void on_hang_up(evhttp_connection* connection, void* stream) noexcept;

    // evhttp takes the listener's user pointer for itself, so on_accept_failed searches here.
    inline static std::vector<Impl*> alive;

    Handler handler;
    Gone gone;
    std::uint64_t last_id = 0;
    timeval idle{};
    std::unique_ptr<Loop::Timer> resume;  // runs only while accepting is paused
    int listening_fd_ = -1;
    int many_descriptors_ = 0;
    evconnlistener* listener = nullptr;  // owned by http
    Streams streams;
    Streams waiting;
    std::unique_ptr<evhttp, HttpDeleter> http;
};

bool HttpServer::Impl::start(Loop& loop, int listening_fd, const Limits& limits) {
    listening_fd_ = listening_fd;
    many_descriptors_ = limits.many_descriptors > 0 ? limits.many_descriptors : many_descriptors();
    http.reset(evhttp_new(loop.base()));
    std::unique_ptr<evconnlistener, ListenerDeleter> unbound(
        evconnlistener_new(loop.base(), nullptr, nullptr, LEV_OPT_CLOSE_ON_EXEC, 0, listening_fd));
    if (!http || !unbound) {
        return false;
    }
    listener = unbound.get();
    evconnlistener_set_error_cb(listener, &on_accept_failed);
    idle = {static_cast<time_t>(limits.idle_ms / 1000),
            static_cast<suseconds_t>(limits.idle_ms % 1000 * 1000)};
    evhttp_set_timeout_tv(http.get(), &idle);
    evhttp_set_max_headers_size(http.get(), static_cast<ev_ssize_t>(kHttpHeadMaxBytes));
    evhttp_set_max_body_size(http.get(), static_cast<ev_ssize_t>(kHttpBodyMaxBytes));
    // All of them, so that a wrong method gets an answer of the handler's and not evhttp's page.
    evhttp_set_allowed_methods(http.get(), EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                               EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                               EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
    evhttp_set_gencb(http.get(), &on_request, this);
    evhttp_set_bevcb(http.get(), &on_accepted, this);
    if (evhttp_bind_listener(http.get(), listener) == nullptr) {
        return false;
    }
    (void)unbound.release();  // evhttp frees it now
    return true;
}

void HttpServer::Impl::pause() {
    evconnlistener_disable(listener);
    resume->start(kPauseMs);
}

void HttpServer::Impl::accept_again() {
    evconnlistener_enable(listener);
}

// evhttp asks for a bufferevent for each connection; nullptr leaves making it to evhttp. Since the
// kernel gives out the lowest free number, a high one says how many descriptors are in use.
bufferevent* HttpServer::Impl::on_accepted(event_base*, void* self) noexcept {
    auto& server = *static_cast<Impl*>(self);
    const int lowest_free = fcntl(server.listening_fd_, F_DUPFD_CLOEXEC, 0);
    if (lowest_free >= 0) {
        close(lowest_free);
    }
    if (lowest_free < 0 || lowest_free >= server.many_descriptors_) {
        server.pause();
    }
    return nullptr;
}

// accept() failed for a reason that lasts, such as EMFILE. The client is still in the queue, and
// the level-triggered listener would fire again at once, for ever.
void HttpServer::Impl::on_accept_failed(evconnlistener* failed, void*) noexcept {
    for (Impl* server : alive) {
        if (server->listener == failed) {
            server->pause();
        }
    }
}

void HttpServer::Impl::on_request(evhttp_request* request, void* self) noexcept {
    try {
        static_cast<Impl*>(self)->answer(request);
    } catch (const std::exception&) {
        send_error(request, 500, "the daemon failed on this request; its journal may say more");
    }
}

void HttpServer::Impl::answer(evhttp_request* request) {
    const std::uint64_t id = ++last_id;
    const HttpResponse response = handler(
        {method_of(request), segments_of(request), body_of(request), id, client_pid(request)});
    if (response.stream) {
        open_stream(request);
    } else if (response.later) {
        let_wait(request, id);
    } else {
        send_reply(request, response);
    }
}

// Nothing may happen for days; the client's end is seen all the same. What it goes on sending is
// not wanted, must not pile up, and must not reach evhttp, which expects none before it has
// answered.
HttpServer::Impl::Stream& HttpServer::Impl::keep(Streams& list, evhttp_request* request,
                                                 std::uint64_t id) {
    evhttp_connection* connection = evhttp_request_get_connection(request);
    list.push_back(std::make_unique<Stream>(Stream{this, request, connection, id}));
    bufferevent* buffers = evhttp_connection_get_bufferevent(connection);
    bufferevent_set_timeouts(buffers, nullptr, nullptr);
    bufferevent_data_cb on_written = nullptr;
    bufferevent_event_cb on_event = nullptr;
    void* evhttps_own = nullptr;
    bufferevent_getcb(buffers, nullptr, &on_written, &on_event, &evhttps_own);
    bufferevent_setcb(buffers, &on_unwanted, on_written, on_event, evhttps_own);
    // What came with the request is there already; reading tells of new bytes only.
    on_unwanted(buffers, nullptr);
    bufferevent_enable(buffers, EV_READ);  // evhttp has stopped reading, and would not see the end
    evhttp_connection_set_closecb(connection, &on_hang_up, list.back().get());
    return *list.back();
}

// Thrown away at once: were it left, reading would have to stop, and the client's end not be seen.
void HttpServer::Impl::on_unwanted(bufferevent* buffers, void*) noexcept {
    evbuffer* unwanted = bufferevent_get_input(buffers);
    evbuffer_drain(unwanted, evbuffer_get_length(unwanted));
}

void HttpServer::Impl::open_stream(evhttp_request* request) {
    if (streams.size() >= kHttpMaxStreams) {
        send_error(request, 503, "too many listeners: end another one first");
        return;
    }
    keep(streams, request, 0);
    add_headers(request, "application/x-ndjson");
    evhttp_send_reply_start(request, HTTP_OK, nullptr);
}

void HttpServer::Impl::let_wait(evhttp_request* request, std::uint64_t id) {
    if (waiting.size() < kHttpMaxWaiting) {
        keep(waiting, request, id);
        return;
    }
    send_error(request, 503, "too many requests wait for an answer: try again later");
    if (gone) {
        gone(id);
    }
}

void HttpServer::Impl::answer_later(std::uint64_t id, const HttpResponse& response) {
    const auto found =
        std::ranges::find_if(waiting, [id](const auto& waiter) { return waiter->id == id; });
    if (found == waiting.end()) {
        return;
    }
    const std::unique_ptr<Stream> waiter = std::move(*found);
    waiting.erase(found);
    evhttp_connection_set_closecb(waiter->connection, nullptr, nullptr);
    bufferevent* buffers = evhttp_connection_get_bufferevent(waiter->connection);
    bufferevent_set_timeouts(buffers, &idle, &idle);
    on_unwanted(buffers, nullptr);
    send_reply(waiter->request, response);
}

// The client has gone; evhttp is about to free the connection. It has let go of the request, which
// was not finished, and leaves it to us.
void HttpServer::Impl::on_hang_up(evhttp_connection*, void* stream) noexcept {
    auto* gone = static_cast<Stream*>(stream);
    if (evhttp_request_get_connection(gone->request) == nullptr) {
        evhttp_request_free(gone->request);
    }
    Impl& server = *gone->server;
    const std::uint64_t id = gone->id;
    const auto is_it = [gone](const auto& s) { return s.get() == gone; };
    if (std::erase_if(server.waiting, is_it) == 0) {
        std::erase_if(server.streams, is_it);
    } else if (server.gone) {
        server.gone(id);
    }
}

// Frees the connection and, as it is unfinished and still queued there, its request.
void HttpServer::Impl::cut_off(Stream& stream) {
    evhttp_connection_set_closecb(stream.connection, nullptr, nullptr);
    evhttp_connection_free(stream.connection);
}

void HttpServer::Impl::hang_up() {
    for (Streams* list : {&streams, &waiting}) {
        for (const auto& stream : *list) {
            cut_off(*stream);
        }
        list->clear();
    }
}

Expected<std::unique_ptr<HttpServer>> HttpServer::serve(Loop& loop, int listening_fd,
                                                        Handler handler, Limits limits) {
    // Else a client that hangs up while it is written to would end the program.
    if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        return fail("cannot ignore SIGPIPE");
    }
    auto impl = std::make_unique<Impl>(loop, std::move(handler));
    if (!impl->start(loop, listening_fd, limits)) {
        return fail("cannot serve HTTP: libevent is out of memory");
    }
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

void HttpServer::on_gone(Gone gone) {
    impl_->gone = std::move(gone);
}

void HttpServer::answer(std::uint64_t id, const HttpResponse& response) {
    impl_->answer_later(id, response);
}

std::size_t HttpServer::waiting() const {
    return impl_->waiting.size();
}

void HttpServer::broadcast(std::string_view data) {
    const BufferPtr buffer(evbuffer_new());
    std::erase_if(impl_->streams, [&](const std::unique_ptr<Impl::Stream>& stream) {
        const evbuffer* waiting =
            bufferevent_get_output(evhttp_connection_get_bufferevent(stream->connection));
        if (!buffer || evbuffer_get_length(waiting) + data.size() > kHttpStreamBacklogBytes ||
            evbuffer_add(buffer.get(), data.data(), data.size()) != 0) {
            impl_->cut_off(*stream);
            return true;
        }
        evhttp_send_reply_chunk(stream->request, buffer.get());  // takes all of the buffer
        return false;
    });
}

std::size_t HttpServer::streams() const {
    return impl_->streams.size();
}

}  // namespace xenpack
