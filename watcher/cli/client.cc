// SPDX-License-Identifier: LGPL-2.1-or-later
// libcurl behind Client. Nothing here may throw through libcurl's C frames.
#include "watcher/cli/client.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "watcher/loop/http_server.h"

namespace xenpack {

namespace {

using nlohmann::json;

constexpr long kAnswerWithinMs = 30'000;
constexpr long kForever = 0;  // as libcurl has it
constexpr auto kBackWithin = std::chrono::seconds(30);
constexpr int kTryAgainMs = 200;
// A request may outlive a restart or two. One that sees more of them may be what ends the daemon.
constexpr int kLostMost = 3;

struct EasyDeleter {
    void operator()(CURL* easy) const noexcept { curl_easy_cleanup(easy); }
};

struct ListDeleter {
    void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};

using Easy = std::unique_ptr<CURL, EasyDeleter>;

Easy make_easy(const std::string& socket_path, const std::string& path) {
    Easy easy(curl_easy_init());
    if (!easy) {
        return easy;
    }
    // No proxy of the environment's may come between us and the socket.
    curl_easy_setopt(easy.get(), CURLOPT_PROXY, "");
    curl_easy_setopt(easy.get(), CURLOPT_UNIX_SOCKET_PATH, socket_path.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_URL, ("http://xenpack" + path).c_str());
    curl_easy_setopt(easy.get(), CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
    return easy;
}

Failure not_reached(CURL* easy, CURLcode code, const std::string& socket_path) {
    long reason = 0;
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &reason);
    const int error = static_cast<int>(reason);
    switch (code) {
        case CURLE_COULDNT_CONNECT:
            if (error == EACCES || error == EPERM) {
                return {ExitStatus::not_permitted,
                        fmt::format("not permitted to open {}: only root may talk to xenpackd; run "
                                    "this as root",
                                    socket_path)};
            }
            return {
                ExitStatus::daemon_not_running,
                fmt::format("xenpackd is not running: nothing answers on {}{}{}; start it with: "
                            "systemctl start xenpackd",
                            socket_path, error == 0 ? "" : ": ",
                            error == 0 ? "" : std::strerror(error))};
        case CURLE_OPERATION_TIMEDOUT:
            return {ExitStatus::failed,
                    fmt::format("xenpackd has not answered within {} s: its journal may say why: "
                                "journalctl -u xenpackd",
                                kAnswerWithinMs / 1000)};
        default:
            return {ExitStatus::failed, fmt::format("talking to xenpackd on {} failed: {}",
                                                    socket_path, curl_easy_strerror(code))};
    }
}

Failure too_large() {
    return {ExitStatus::failed,
            fmt::format("this is more than xenpackd takes in a request, which is {} KiB",
                        kHttpBodyMaxBytes / 1024)};
}

// What an answer that is no success says.
Failure refused(long status, const std::string& body) {
    const json answer = json::parse(body, nullptr, false);
    const bool has_sentence =
        answer.is_object() && answer.contains("error") && answer["error"].is_string();
    if (status == 413) {
        return too_large();
    }
    return {status == 422                    ? ExitStatus::bad_configuration
            : status == 507 || status == 503 ? ExitStatus::not_now
                                             : ExitStatus::failed,
            has_sentence ? answer["error"].get<std::string>()
                         : fmt::format("xenpackd answered with HTTP status {}", status)};
}

long status_of(CURL* easy) {
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

std::size_t on_body(char* data, std::size_t, std::size_t size, void* body) noexcept {
    try {
        static_cast<std::string*>(body)->append(data, size);
        return size;
    } catch (const std::exception&) {
        return 0;
    }
}

struct Exchange {
    CURLcode code;
    Result<json> answer;
};

// Performs a request with a short answer.
Exchange exchange(CURL* easy, const std::string& socket_path, long within_ms) {
    std::string body;
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, within_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
    if (const CURLcode code = curl_easy_perform(easy); code != CURLE_OK) {
        return {code, tl::unexpected<Failure>(not_reached(easy, code, socket_path))};
    }
    const long status = status_of(easy);
    if (status != 200) {
        return {CURLE_OK, tl::unexpected<Failure>(refused(status, body))};
    }
    json answer = json::parse(body, nullptr, false);
    if (!answer.is_object()) {
        return {CURLE_OK, fail_as(ExitStatus::failed, "xenpackd's answer is not a JSON object")};
    }
    return {CURLE_OK, std::move(answer)};
}

tl::unexpected<Failure> out_of_memory() {
    return fail_as(ExitStatus::failed, "cannot start an HTTP request: out of memory");
}

// An open-ended answer, cut into lines as it arrives.
struct LineReader {
    CURL* easy;
    const Client::TakeLine& take;
    std::string pending;
    std::optional<Failure> failure;

    // Whether to go on.
    bool feed(std::string_view data) {
        pending.append(data);
        if (status_of(easy) != 200) {
            return true;  // an error's body, which the caller reads when it is complete
        }
        std::size_t begin = 0;
        std::size_t end = pending.find('\n');
        while (end != std::string::npos) {
            const auto taken = take(std::string_view(pending).substr(begin, end - begin));
            if (!taken) {
                failure = taken.error();
                return false;
            }
            begin = end + 1;
            end = pending.find('\n', begin);
        }
        pending.erase(0, begin);
        return true;
    }
};

std::size_t on_stream(char* data, std::size_t, std::size_t size, void* reader) noexcept {
    auto& self = *static_cast<LineReader*>(reader);
    try {
        return self.feed({data, size}) ? size : 0;
    } catch (const std::exception& error) {
        self.failure = Failure{
            ExitStatus::failed,
            std::string("xenpackd sent what this xenpack does not understand: ") + error.what()};
        return 0;
    }
}

Exchange post_within(const std::string& socket_path, const std::string& path, const json& body,
                     long within_ms) {
    const Easy easy = make_easy(socket_path, path);
    const std::unique_ptr<curl_slist, ListDeleter> headers(
        curl_slist_append(nullptr, "Content-Type: application/json"));
    if (!easy || !headers) {
        return {CURLE_OUT_OF_MEMORY, out_of_memory()};
    }
    const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
    // The daemon answers before it has taken all of it in, and hangs up: its answer may get lost.
    if (text.size() > kHttpBodyMaxBytes) {
        return {CURLE_OK, tl::unexpected<Failure>(too_large())};
    }
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(text.size()));
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, text.c_str());
    return exchange(easy.get(), socket_path, within_ms);
}

bool is_cut_off(CURLcode code) {
    return code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_PARTIAL_FILE;
}

// What was asked for may have come about, or be undone.
Result<json> told_once(Exchange exchanged) {
    if (!is_cut_off(exchanged.code)) {
        return std::move(exchanged.answer);
    }
    return fail_as(ExitStatus::daemon_not_running,
                   "xenpackd has ended while this was under way: what is half done is finished or "
                   "undone when it starts again; xenpack status, and its journal, say what became "
                   "of it");
}

}  // namespace

Result<json> Client::get(const std::string& path) const {
    const Easy easy = make_easy(socket_path_, path);
    return easy ? exchange(easy.get(), socket_path_, kAnswerWithinMs).answer : out_of_memory();
}

Result<json> Client::post(const std::string& path, const json& body) const {
    return post_within(socket_path_, path, body, kAnswerWithinMs).answer;
}

Result<json> Client::post_and_wait(const std::string& path, const json& body) const {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> lost;
    int times_lost = 0;
    for (;;) {
        Exchange exchanged = post_within(socket_path_, path, body, kForever);
        const bool absent = exchanged.code == CURLE_COULDNT_CONNECT;
        const bool cut_off = is_cut_off(exchanged.code);
        // Not there from the beginning is an answer; gone since we asked may be a restart.
        if (cut_off) {
            if (++times_lost == kLostMost) {
                return fail_as(
                    ExitStatus::failed,
                    fmt::format("xenpackd has ended {} times while it held this request, which may "
                                "be what ends it; not asked again. Its journal may say why: "
                                "journalctl -u xenpackd",
                                times_lost));
            }
            lost = Clock::now();
        } else if (!absent || !lost || Clock::now() - *lost > kBackWithin) {
            return std::move(exchanged.answer);
        }
        poll(nullptr, 0, kTryAgainMs);
    }
}

Result<json> Client::post_once(const std::string& path, const json& body) const {
    return told_once(post_within(socket_path_, path, body, kForever));
}

Result<json> Client::remove(const std::string& path) const {
    const Easy easy = make_easy(socket_path_, path);
    if (!easy) {
        return out_of_memory();
    }
    curl_easy_setopt(easy.get(), CURLOPT_CUSTOMREQUEST, "DELETE");
    return told_once(exchange(easy.get(), socket_path_, kForever));
}

Failure Client::follow(const std::string& path, const TakeLine& take) const {
    const Easy easy = make_easy(socket_path_, path);
    if (!easy) {
        return out_of_memory().value();
    }
    LineReader reader{easy.get(), take, {}, {}};
    curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &on_stream);
    curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &reader);
    const CURLcode code = curl_easy_perform(easy.get());
    if (reader.failure) {
        return *reader.failure;
    }
    const long status = status_of(easy.get());
    if (status == 0) {
        return not_reached(easy.get(), code, socket_path_);
    }
    if (status != 200) {
        return refused(status, reader.pending);
    }
    return {ExitStatus::daemon_not_running,
            "xenpackd has ended the stream: it was stopped, or this reader was too slow"};
}

std::string path_segment(const std::string& text) {
    struct CurlDeleter {
        void operator()(char* memory) const noexcept { curl_free(memory); }
    };
    const Easy easy(curl_easy_init());
    const std::unique_ptr<char, CurlDeleter> encoded(
        easy ? curl_easy_escape(easy.get(), text.c_str(), static_cast<int>(text.size())) : nullptr);
    return encoded ? std::string(encoded.get()) : text;
}

}  // namespace xenpack
