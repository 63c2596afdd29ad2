// SPDX-License-Identifier: LGPL-2.1-or-later
// Routes the requests of xenpack-api(7) to the Mediator and words the answers. It checks the form
// of a request; what the values mean is the Mediator's to decide.
#include "watcher/control/control.h"

#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include "watcher/control/unix_socket.h"
#include "watcher/loop/http_server.h"
#include "watcher/loop/loop.h"

namespace xenpack {

namespace {

using nlohmann::json;

// Names come from outside and need not be UTF-8; what is not becomes U+FFFD.
std::string to_line(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

HttpResponse reply(int status, const json& value) {
    return {status, to_line(value), false};
}

HttpResponse refuse(int status, const std::string& sentence) {
    return reply(status, {{"error", sentence}});
}

HttpResponse refuse_method(const HttpRequest& request, const char* allowed) {
    return refuse(405, fmt::format("{} is not possible here: use {}", request.method, allowed));
}

int status_for(const Error& error) {
    switch (error.code) {
        case ENOENT:
        case ESRCH:
            return 404;
        case EBUSY:
        case EEXIST:
        case ENOTSUP:
        case EPERM:
            return 409;
        case EAGAIN:
            return 503;
        case ENOMEM:
            return 507;
        case ENOSYS:
            return 501;
        case EREMOTEIO:
            return 502;
        case ETIMEDOUT:
            return 504;
        case 0:
        case EINVAL:
        case ERANGE:
            return 400;
        default:
            return 500;
    }
}

HttpResponse refuse(const Error& error) {
    return refuse(status_for(error), error.what);
}

HttpResponse reply(const Expected<json>& result) {
    return result ? reply(200, *result) : refuse(result.error());
}

std::optional<std::uint64_t> parse_id(const std::string& text) {
    std::uint64_t id = 0;
    const char* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, id);
    return error == std::errc() && stopped == end ? std::optional(id) : std::nullopt;
}

class SocketControl final : public Control {
  public:
    SocketControl(std::unique_ptr<UnixSocket> socket, Mediator& mediator)
        : socket_(std::move(socket)), mediator_(mediator) {}

    Expected<void> serve(Loop& loop) {
        auto server = HttpServer::serve(
            loop, socket_->fd(), [this](const HttpRequest& request) { return respond(request); });
        if (!server) {
            return tl::unexpected<Error>(server.error());
        }
        server_ = std::move(*server);
        server_->on_gone([this](std::uint64_t request) { mediator_.caller_gone(request); });
        return {};
    }

    void publish(const json& event) override {
        if (server_->streams() > 0) {
            server_->broadcast(to_line(event));
        }
    }

    void answer(std::uint64_t request, const Expected<json>& result) override {
        server_->answer(request, reply(result));
    }

  private:
    HttpResponse respond(const HttpRequest& request);
    HttpResponse set_zone(const std::string& zone, const std::string& body);
    HttpResponse cost(const std::string& body);
    HttpResponse reload();
    HttpResponse reserve(const HttpRequest& request);
    // For what is answered later: takes a request with an object for a body.
    using Take = Expected<void> (Mediator::*)(const json& asked, const Caller& caller);
    HttpResponse take(const HttpRequest& request, Take taker);
    HttpResponse take_fork(const HttpRequest& request);
    HttpResponse answer_later(const Expected<void>& taken);
    [[nodiscard]] bool too_many_wait() const { return server_->waiting() >= kHttpMaxWaiting; }
    std::optional<HttpResponse> respond_to_forks(const HttpRequest& request);
    HttpResponse release(const std::string& reservation);

    std::unique_ptr<UnixSocket> socket_;
    Mediator& mediator_;
    std::unique_ptr<HttpServer> server_;
};

HttpResponse SocketControl::respond(const HttpRequest& request) {
    const auto& path = request.path;
    const auto is = [&](const char* name) {
        return path.size() == 2 && path[0] == "v1" && path[1] == name;
    };
    if (is("status")) {
        return request.method == "GET" ? reply(200, mediator_.status())
                                       : refuse_method(request, "GET");
    }
    if (is("account")) {
        return request.method == "GET" ? reply(mediator_.account()) : refuse_method(request, "GET");
    }
    if (is("cost")) {
        return request.method == "POST" ? cost(request.body) : refuse_method(request, "POST");
    }
    if (is("events")) {
        return request.method == "GET" ? HttpResponse{200, {}, true}
                                       : refuse_method(request, "GET");
    }
    if (is("reload")) {
        return request.method == "POST" ? reload() : refuse_method(request, "POST");
    }
    if (is("reservations")) {
        return request.method == "POST" ? reserve(request) : refuse_method(request, "POST");
    }
    if (path.size() == 3 && path[0] == "v1" && path[1] == "reservations") {
        return request.method == "DELETE" ? release(path[2]) : refuse_method(request, "DELETE");
    }
    if (auto response = respond_to_forks(request)) {
        return *std::move(response);
    }
    if (path.size() == 4 && path[0] == "v1" && path[1] == "zones" && path[3] == "settings") {
        return request.method == "POST" ? set_zone(path[2], request.body)
                                        : refuse_method(request, "POST");
    }
    return refuse(404, "no such resource: xenpack-api(7) lists them");
}

HttpResponse SocketControl::set_zone(const std::string& zone, const std::string& body) {
    const json settings = json::parse(body, nullptr, false);
    if (!settings.is_object() || settings.empty()) {
        return refuse(400, "the body must be a JSON object with at least one setting");
    }
    return reply(mediator_.set_zone(zone, settings));
}

HttpResponse SocketControl::cost(const std::string& body) {
    const json asked = json::parse(body, nullptr, false);
    return asked.is_object() ? reply(mediator_.cost(asked))
                             : refuse(400, "the body must be a JSON object");
}

HttpResponse SocketControl::reload() {
    const auto result = mediator_.reload();
    if (!result) {
        // Code 0: the file was read, and says what it must not.
        const int code = result.error().code;
        return refuse(code == 0 ? 422 : code == EBUSY ? 409 : 500, result.error().what);
    }
    return reply(200, json::object());
}

HttpResponse SocketControl::reserve(const HttpRequest& request) {
    const json asked = json::parse(request.body, nullptr, false);
    if (!asked.is_object()) {
        return refuse(400, "the body must be a JSON object with size_kib or config");
    }
    // Before anything is written down for it.
    if (too_many_wait()) {
        return refuse(503, fmt::format("{} starts wait for memory, and no more may: try again "
                                       "later (xenpack status lists them)",
                                       kHttpMaxWaiting));
    }
    return answer_later(mediator_.reserve(asked, {request.id, request.client_pid}));
}

HttpResponse SocketControl::answer_later(const Expected<void>& taken) {
    if (!taken) {
        return refuse(taken.error());
    }
    HttpResponse response;
    response.later = true;
    return response;
}

// ---- templates and forks ------------------------------------------------------------------------

std::optional<HttpResponse> SocketControl::respond_to_forks(const HttpRequest& request) {
    const auto& path = request.path;
    if (path.size() < 2 || path[0] != "v1") {
        return std::nullopt;
    }
    if (path.size() == 2 && path[1] == "templates") {
        return request.method == "POST" ? take(request, &Mediator::make_template)
                                        : refuse_method(request, "POST");
    }
    if (path.size() == 2 && path[1] == "forks") {
        return request.method == "POST" ? take(request, &Mediator::make_forks)
                                        : refuse_method(request, "POST");
    }
    if (path.size() == 4 && path[1] == "pools" && path[3] == "take") {
        return request.method == "POST" ? take_fork(request) : refuse_method(request, "POST");
    }
    if (path.size() != 3 || path[1] != "templates") {
        return std::nullopt;
    }
    if (request.method != "DELETE") {
        return refuse_method(request, "DELETE");
    }
    if (too_many_wait()) {
        return refuse(503, "too many requests wait: try again later");
    }
    return answer_later(mediator_.remove_template(path[2], {request.id, request.client_pid}));
}

HttpResponse SocketControl::take(const HttpRequest& request, Take taker) {
    const json asked = json::parse(request.body, nullptr, false);
    if (!asked.is_object()) {
        return refuse(400, "the body must be a JSON object");
    }
    if (too_many_wait()) {
        return refuse(503, "too many requests wait: try again later");
    }
    return answer_later((mediator_.*taker)(asked, {request.id, request.client_pid}));
}

// The body may be left out.
HttpResponse SocketControl::take_fork(const HttpRequest& request) {
    const json asked =
        request.body.empty() ? json::object() : json::parse(request.body, nullptr, false);
    if (!asked.is_object()) {
        return refuse(400, "the body must be a JSON object");
    }
    if (too_many_wait()) {
        return refuse(503, "too many requests wait: try again later");
    }
    return answer_later(
        mediator_.take_fork(request.path[2], asked, {request.id, request.client_pid}));
}

HttpResponse SocketControl::release(const std::string& reservation) {
    const auto id = parse_id(reservation);
    if (!id) {
        return refuse(404, "there is no such reservation: its id is a number");
    }
    const auto released = mediator_.release(*id);
    return released ? reply(200, json::object()) : refuse(released.error());
}

}  // namespace

Expected<std::unique_ptr<Control>> Control::listen(Loop& loop, const std::string& socket_path,
                                                   Mediator& mediator) {
    auto socket = UnixSocket::listen(socket_path);
    if (!socket) {
        return tl::unexpected<Error>(socket.error());
    }
    auto control = std::make_unique<SocketControl>(std::move(*socket), mediator);
    if (const auto served = control->serve(loop); !served) {
        return tl::unexpected<Error>(served.error());
    }
    return control;
}

}  // namespace xenpack
